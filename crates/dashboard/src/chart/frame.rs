//! [`Frame`]: the two axes of a chart, their ticks, names and lines, and the place that is left for the rest.

use maud::{Markup, html};

use super::Room;
use super::scale::{Kind, Scale, interval, without_collisions};

/// One axis, before it is known where it lies.
#[derive(Clone)]
pub struct Axis {
    /// What it measures, with the unit.
    pub name: String,
    /// How values are spread.
    pub kind: Kind,
    /// From where to where; what holds all values if not said.
    pub interval: Option<(f64, f64)>,
    /// The ticks; round numbers if there are none.
    pub ticks: Vec<(f64, String)>,
    /// How a round number is written.
    pub write: fn(f64) -> String,
}

/// Two axes with their places.
pub struct Frame {
    /// Horizontal.
    pub x: Scale,
    /// Vertical; its places decrease.
    pub y: Scale,
    /// Left, top, right, bottom of what lies between the axes.
    pub inner: (f64, f64, f64, f64),
    room: Room,
    x_ticks: Vec<(f64, String)>,
    y_ticks: Vec<(f64, String)>,
    names: (String, String),
}

impl Axis {
    fn reach(&self, values: impl IntoIterator<Item = f64>) -> (f64, f64) {
        let found = self.interval.or_else(|| interval(self.kind, values));
        found.unwrap_or((1.0, 10.0))
    }

    fn named(&self, scale: &Scale, most: usize) -> Vec<(f64, String)> {
        if !self.ticks.is_empty() {
            let within = self.ticks.iter().filter(|(value, _)| scale.holds(*value));
            return within.cloned().collect();
        }
        let ticks = scale.ticks(most);
        ticks
            .into_iter()
            .map(|tick| (tick, (self.write)(tick)))
            .collect()
    }
}

impl Frame {
    /// Lays the axes out around the points `(x, y)`, with `right` units left free on the right.
    pub fn new(room: Room, (x, y): (&Axis, &Axis), points: &[(f64, f64)], right: f64) -> Self {
        let (width, height, font) = (room.width, room.height, room.font);
        let reach_x = x.reach(points.iter().map(|point| point.0));
        let reach_y = y.reach(points.iter().map(|point| point.1));
        let (top, bottom) = (font * 2.1, height - font * 3.3);
        let y_scale = Scale::new(y.kind, reach_y, (bottom, top));
        let y_ticks = y.named(&y_scale, 7);
        let widest = y_ticks.iter().map(|(_, text)| room.width_of(text));
        let left = widest.fold(0.0, f64::max) + 12.0;
        let right = width - right.max(16.0);
        let x_scale = Scale::new(x.kind, reach_x, (left, right));
        Self {
            x_ticks: x.named(&x_scale, room.ticks),
            x: x_scale,
            y: y_scale,
            inner: (left, top, right, bottom),
            room,
            y_ticks,
            names: (x.name.clone(), y.name.clone()),
        }
    }

    /// Draws axes, ticks and names.
    #[must_use]
    pub fn draw(&self) -> Markup {
        let (left, top, right, bottom) = self.inner;
        let font = self.room.font;
        html! {
            g class="axes" font-size=(font) {
                text x="2" y=(short(font * 1.1)) class="axis-name" { (self.names.1) }
                @for (value, text) in &self.y_ticks {
                    @let y = self.y.place(*value);
                    path class="grid" d={ "M" (short(left)) " " (short(y)) "H" (short(right)) } {}
                    text x=(short(left - 7.0)) y=(short(y + font * 0.35)) text-anchor="end" { (text) }
                }
                (self.draw_x_ticks())
                path class="axis" d={ "M" (short(left)) " " (short(top)) "V" (short(bottom)) "H" (short(right)) } {}
                text x=(short((left + right) / 2.0)) y=(short(self.room.height - font * 0.5))
                    text-anchor="middle" class="axis-name" { (self.names.0) }
            }
        }
    }

    fn draw_x_ticks(&self) -> Markup {
        let (_, top, _, bottom) = self.inner;
        let font = self.room.font;
        let place = |value: f64, text: &str| {
            // What would stick out is moved in.
            let half = self.room.width_of(text) / 2.0;
            let place = self.x.place(value);
            (place.clamp(half, self.room.width - half), 2.0 * half)
        };
        let places: Vec<(f64, f64)> = self
            .x_ticks
            .iter()
            .map(|(value, text)| place(*value, text))
            .collect();
        let stands = without_collisions(&places, font * 0.5);
        html! {
            @for (((value, text), (middle, _)), stands) in self.x_ticks.iter().zip(&places).zip(stands) {
                @let x = self.x.place(*value);
                path class="grid" d={ "M" (short(x)) " " (short(top)) "V" (short(bottom + 4.0)) } {}
                @if stands {
                    text x=(short(*middle)) y=(short(bottom + font * 1.35)) text-anchor="middle" { (text) }
                }
            }
        }
    }
}

/// A coordinate: a tenth of a pixel is enough.
#[must_use]
pub fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{NARROW, WIDE};
    use crate::number::short_count;

    fn axis(kind: Kind) -> Axis {
        Axis {
            name: "notes".to_owned(),
            kind,
            interval: None,
            ticks: Vec::new(),
            write: short_count,
        }
    }

    #[test]
    fn points_lie_within_the_frame_and_the_frame_within_the_room() {
        let points = [(1e5, 0.4), (1e7, 122.0)];
        for room in [WIDE, NARROW] {
            let frame = Frame::new(room, (&axis(Kind::Log), &axis(Kind::Log)), &points, 100.0);
            let (left, top, right, bottom) = frame.inner;
            assert!(0.0 < left && left < right && right <= room.width - 100.0);
            assert!(0.0 < top && top < bottom && bottom < room.height);
            for (x, y) in points {
                assert!((left..=right).contains(&frame.x.place(x)));
                assert!((top..=bottom).contains(&frame.y.place(y)));
            }
        }
    }

    #[test]
    fn names_of_ticks_that_are_given_are_written_and_escaped() {
        let mut x = axis(Kind::Linear);
        x.ticks = vec![
            (0.0, "a < b".to_owned()),
            (1.0, "c".to_owned()),
            (9.0, "out".to_owned()),
        ];
        let points = [(0.0, 1.0), (1.0, 2.0)];
        let frame = Frame::new(WIDE, (&x, &axis(Kind::Linear)), &points, 0.0);
        let drawn = frame.draw().into_string();
        assert!(
            drawn.contains("a &lt; b") && drawn.contains(">c<"),
            "{drawn}"
        );
        assert!(!drawn.contains("out"), "{drawn}");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(
            [1.0, -0.01, 2.25, 3.17].map(short),
            ["1", "0", "2.2", "3.2"]
        );
    }
}
