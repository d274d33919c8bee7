//! [`Bars`]: how many times something takes, as bars that begin at 1× on a logarithmic axis.

use maud::{Markup, html};

use super::Room;
use super::appearance::Appearance;
use super::frame::short;
use super::scale::{Kind, Scale, interval};
use crate::number::times;

/// A chart of bars.
#[derive(Clone)]
pub struct Bars {
    /// What it shows, for those who do not see it.
    pub says: String,
    /// What lies left and right of 1×.
    pub sides: (String, String),
    /// From top to bottom.
    pub groups: Vec<Group>,
}

/// Bars below one heading.
#[derive(Clone)]
pub struct Group {
    /// What they compare.
    pub heading: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// One ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The role, and `data-series`.
    pub key: String,
    /// In words.
    pub label: String,
    /// How long.
    pub ratio: f64,
    /// From where to where it may lie.
    pub spread: Option<(f64, f64)>,
    /// What to say of it.
    pub note: String,
}

/// The places of the parts.
struct Layout {
    scale: Scale,
    /// Between the middles of two bars.
    step: f64,
    /// Whether a label stands above its bar.
    above: bool,
    top: f64,
    bottom: f64,
}

const BAR: f64 = 13.0;

impl Bars {
    /// Draws it.
    #[must_use]
    pub fn draw(&self, room: Room) -> Markup {
        let layout = self.layout(room);
        let height = short(layout.bottom + room.font * 2.0);
        let width = short(room.width);
        let mut y = layout.top;
        html! {
            svg viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) role="img" aria-label=(self.says) {
                (self.draw_axis(room, &layout))
                @for group in &self.groups {
                    text class="heading" font-size=(room.font) x="2" y=(short(y + room.font * 1.3)) { (group.heading) }
                    @let first = y + room.font * 1.9;
                    @for (i, bar) in group.bars.iter().enumerate() {
                        (bar.draw(room, &layout, first + i as f64 * layout.step))
                    }
                    @let () = y = first + group.bars.len() as f64 * layout.step + room.font * 0.6;
                }
            }
        }
    }

    fn layout(&self, room: Room) -> Layout {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let ends = bars().flat_map(|bar| {
            let (low, high) = bar.spread.unwrap_or((bar.ratio, bar.ratio));
            [bar.ratio, low, high]
        });
        let above = !room.names_lines;
        let reach = interval(Kind::Log, ends.chain([0.8, 1.25])).unwrap_or((0.5, 2.0));
        let widest = bars()
            .map(|bar| room.width_of(&bar.label))
            .fold(0.0, f64::max);
        let left = if above { 6.0 } else { widest + 16.0 };
        // A bar's figure stands beyond its end.
        let figure = room.width_of("1,000×") + 8.0;
        let scale = Scale::new(Kind::Log, reach, (left + figure, room.width - figure));
        let step = if above {
            room.font * 1.3 + BAR + 4.0
        } else {
            BAR + 9.0
        };
        let top = room.font * 1.8;
        let heights = self
            .groups
            .iter()
            .map(|group| room.font * 2.5 + group.bars.len() as f64 * step);
        Layout {
            scale,
            step,
            above,
            top,
            bottom: top + heights.sum::<f64>(),
        }
    }

    fn draw_axis(&self, room: Room, layout: &Layout) -> Markup {
        let (scale, font) = (&layout.scale, room.font);
        let (top, bottom) = (layout.top, layout.bottom);
        let one = scale.place(1.0);
        html! {
            g class="axes" font-size=(font) {
                @for tick in scale.ticks(room.ticks.min(7)) {
                    @let x = short(scale.place(tick));
                    // The line of 1× is drawn bar by bar where labels stand between them: it would go through their letters.
                    @if tick != 1.0 || layout.above {
                        path class="grid" d={ "M" (x) " " (short(top)) "V" (short(bottom)) } {}
                    } @else {
                        path class="one" d={ "M" (x) " " (short(top)) "V" (short(bottom)) } {}
                    }
                    text x=(x) y=(short(bottom + font * 1.3)) text-anchor="middle" { (crate::number::trimmed(tick)) "×" }
                }
                text class="axis-name" x=(short(one - 8.0)) y=(short(font * 1.1)) text-anchor="end" { (self.sides.0) }
                text class="axis-name" x=(short(one + 8.0)) y=(short(font * 1.1)) { (self.sides.1) }
            }
        }
    }
}

impl Bar {
    fn draw(&self, room: Room, layout: &Layout, top: f64) -> Markup {
        let (scale, font) = (&layout.scale, room.font);
        let bar = if layout.above { top + font * 1.3 } else { top };
        let middle = bar + BAR / 2.0;
        let (one, end) = (scale.place(1.0), scale.place(self.ratio));
        let (low, high) = self.spread.unwrap_or((self.ratio, self.ratio));
        let (low, high) = (scale.place(low), scale.place(high));
        let (anchor, figure) = match self.ratio >= 1.0 {
            true => ("start", end.max(high) + 6.0),
            false => ("end", end.min(low) - 6.0),
        };
        let baseline = short(middle + font * 0.35);
        let paint = Appearance::of(&self.key).paint();
        html! {
            g data-series=(self.key) class="bar" font-size=(font) {
                title { (self.note) }
                text x=(if layout.above { "8" } else { "12" })
                    y=(if layout.above { short(top + font * 0.9) } else { baseline.clone() }) { (self.label) }
                rect x=(short(one.min(end))) y=(short(bar)) width=(short((end - one).abs().max(1.0)))
                    height=(short(BAR)) fill=(paint) {}
                @if layout.above {
                    path class="one" d={ "M" (short(one)) " " (short(bar - 3.0)) "v" (short(BAR + 6.0)) } {}
                }
                @if self.spread.is_some() {
                    path class="bar-whisker" d={ "M" (short(low)) " " (short(middle)) "H" (short(high))
                        "M" (short(low)) " " (short(middle - 3.0)) "v6M" (short(high)) " " (short(middle - 3.0)) "v6" } {}
                }
                text class="figure" x=(short(figure)) y=(baseline) text-anchor=(anchor) { (times(self.ratio)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{NARROW, WIDE};

    fn chart() -> Bars {
        let bar = |key: &str, ratio: f64| Bar {
            key: key.to_owned(),
            label: format!("<{key}>"),
            ratio,
            spread: (key != "naive").then_some((ratio * 0.9, ratio * 1.3)),
            note: "measured".to_owned(),
        };
        let group = |heading: &str, bars| Group {
            heading: heading.to_owned(),
            bars,
        };
        Bars {
            says: "ratios".to_owned(),
            sides: ("slower".to_owned(), "faster".to_owned()),
            groups: vec![
                group("build", vec![bar("naive", 13.0), bar("limit", 0.3)]),
                group("decode", vec![bar("put-together", 11.5)]),
            ],
        }
    }

    #[test]
    fn every_bar_is_drawn_with_its_name_and_figure() {
        for room in [WIDE, NARROW] {
            let drawn = chart().draw(room).into_string();
            for key in ["naive", "limit", "put-together"] {
                assert!(drawn.contains(&format!("data-series=\"{key}\"")), "{key}");
                assert!(
                    drawn.contains(&format!("&lt;{key}&gt;")),
                    "{key} is not escaped"
                );
            }
            for figure in ["13.0×", "0.300×", "11.5×", ">build<", ">decode<"] {
                assert!(drawn.contains(figure), "{figure}: {drawn}");
            }
            assert_eq!(drawn.matches("bar-whisker").count(), 2);
            let marks = if room.names_lines { 1 } else { 3 };
            assert_eq!(
                drawn.matches("class=\"one\"").count(),
                marks,
                "1× is marked"
            );
        }
    }

    #[test]
    fn bars_above_1_go_to_the_right_of_it_and_bars_below_to_the_left() {
        let bars = chart();
        let layout = bars.layout(WIDE);
        let one = layout.scale.place(1.0);
        assert!(layout.scale.place(0.3) < one && one < layout.scale.place(11.5));
        assert!(layout.scale.place(13.0) < WIDE.width);
    }
}
