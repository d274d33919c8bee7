//! Charts as SVG, laid out by hand: docs/decisions/0020 says why.
//!
//! A chart is drawn twice, [`WIDE`] and [`NARROW`], and the page's style shows the one that fits. Colours are CSS
//! variables ([`appearance`]), so that one drawing serves both themes. What belongs to a series is in a group with
//! `data-series`, by which the page's script hides it.

pub mod appearance;
pub mod bars;
pub mod frame;
pub mod lines;
pub mod scale;

use maud::Markup;

/// What a chart is drawn for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// In user units, which are CSS pixels where the page is as wide as that.
    pub width: f64,
    /// Of a chart whose height is free.
    pub height: f64,
    /// Size of the letters.
    pub font: f64,
    /// The most ticks on the horizontal axis.
    pub ticks: usize,
    /// Whether lines are named at their ends; elsewhere the legend alone does it.
    pub names_lines: bool,
}

/// For a desk.
pub const WIDE: Room = Room {
    width: 880.0,
    height: 400.0,
    font: 13.0,
    ticks: 9,
    names_lines: true,
};

/// For a phone.
pub const NARROW: Room = Room {
    width: 340.0,
    height: 300.0,
    font: 12.0,
    ticks: 5,
    names_lines: false,
};

/// One chart, both ways.
#[derive(Clone, Debug)]
pub struct Drawings {
    /// In [`WIDE`].
    pub wide: Markup,
    /// In [`NARROW`].
    pub narrow: Markup,
}

impl Drawings {
    /// Draws it in both.
    pub fn of(draw: impl Fn(Room) -> Markup) -> Self {
        Self {
            wide: draw(WIDE),
            narrow: draw(NARROW),
        }
    }
}

impl Room {
    /// About as wide as `text` will be: fonts differ, so it is that of a wide one.
    #[must_use]
    pub fn width_of(&self, text: &str) -> f64 {
        let ems = |letter: char| match letter {
            'm' | 'w' | 'M' | 'W' | '%' | '→' => 0.98,
            '×' | '±' | '+' => 0.84,
            '.' | ',' | ':' | ';' | '\'' | ' ' | 'i' | 'j' | 'l' | 'I' | '(' | ')' | '-' | 'f'
            | 't' | 'r' => 0.41,
            'A'..='Z' => 0.74,
            _ => 0.64,
        };
        text.chars().map(ems).sum::<f64>() * self.font
    }
}
