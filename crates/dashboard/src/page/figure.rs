//! [`Figure`]: a chart with its words, its legend, which is what one selects series with, and its table.

use maud::{Markup, html};

use super::table::Table;
use crate::chart::Drawings;
use crate::chart::appearance::{Appearance, label};

/// One figure of the page.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name in addresses and in files.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub caption: Markup,
    /// The series, in the order of the legend; none where the drawing names them itself.
    pub legend: Vec<String>,
    /// The chart, where there is more to it than the table.
    pub drawings: Option<Drawings>,
    /// What is behind it.
    pub table: Table,
    /// What selects it among the figures of its section: pairs of a picker's name and a choice.
    pub choices: Vec<(&'static str, String)>,
}

impl Figure {
    /// Draws it.
    #[must_use]
    pub fn draw(&self) -> Markup {
        let table = format!("Table: {}", self.title);
        // The first picker's choice, then the second's: what the script compares.
        let choice: Vec<String> = self
            .choices
            .iter()
            .map(|(_, choice)| choice.clone())
            .collect();
        html! {
            figure id=(self.id) data-choice=[(!choice.is_empty()).then(|| choice.join("/"))] {
                figcaption {
                    h3 { (self.title) }
                    (self.caption)
                }
                (self.draw_legend())
                @if let Some(drawings) = &self.drawings {
                    div class="chart wide" { (drawings.wide) }
                    div class="chart narrow" { (drawings.narrow) }
                    details {
                        summary { "Table" }
                        (self.table.draw(&table))
                    }
                } @else {
                    (self.table.draw(&table))
                }
                p class="downloads" { (self.table.download(&self.id)) }
            }
        }
    }

    fn draw_legend(&self) -> Markup {
        html! {
            @if !self.legend.is_empty() {
                // The script takes `disabled` away: without it there is nothing to press.
                div class="legend" role="group" aria-label="Series shown" {
                    @for key in &self.legend {
                        button type="button" disabled aria-pressed="true" data-key=(key) {
                            (Appearance::of(key).swatch()) (label(key))
                        }
                    }
                }
            }
        }
    }
}

/// A section's pickers and figures: with a script one figure is seen, without one all are.
#[must_use]
pub fn picked(id: &str, figures: &[Figure]) -> Markup {
    let pickers: Vec<&'static str> = figures
        .first()
        .map(|figure| figure.choices.iter().map(|(picker, _)| *picker).collect())
        .unwrap_or_default();
    html! {
        div class="picked" id=(id) {
            @if figures.len() > 1 {
                p class="pickers scripted" {
                    @for (place, picker) in pickers.iter().enumerate() {
                        label { (picker) " " select data-place=(place) {} }
                        " "
                    }
                }
            }
            @for figure in figures { (figure.draw()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(id: &str) -> Figure {
        Figure {
            id: id.to_owned(),
            title: "a < b".to_owned(),
            caption: html! { p { "how" } },
            legend: vec!["avx512".to_owned(), "naive".to_owned()],
            drawings: Some(Drawings::of(|room| html! { svg width=(room.width) {} })),
            table: Table::default(),
            choices: vec![("Stage", "decode".to_owned()), ("Task", id.to_owned())],
        }
    }

    #[test]
    fn a_figure_has_both_drawings_its_legend_its_table_and_its_csv() {
        let drawn = figure("plain").draw().into_string();
        for part in [
            "<figure id=\"plain\" data-choice=\"decode/plain\">",
            "a &lt; b",
            "chart wide",
            "chart narrow",
            "<details>",
            "plain.csv",
            "data-key=\"naive\"",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert_eq!(drawn.matches("aria-pressed=\"true\"").count(), 2);
    }

    #[test]
    fn pickers_are_there_where_there_is_a_choice() {
        let one = picked("p", &[figure("a")]).into_string();
        let two = picked("p", &[figure("a"), figure("b")]).into_string();
        assert_eq!(one.matches("<select").count(), 0);
        assert_eq!(two.matches("<select").count(), 2);
        assert_eq!(two.matches("<figure").count(), 2);
        assert_eq!(picked("p", &[]).into_string().matches("<figure").count(), 0);
    }
}
