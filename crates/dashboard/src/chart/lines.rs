//! [`Lines`]: series over a horizontal axis, as lines, points or curves.

use maud::{Markup, html};

use super::Room;
use super::appearance::{Appearance, short_label};
use super::frame::{Axis, Frame, short};

/// A chart of lines.
#[derive(Clone)]
pub struct Lines {
    /// What it shows, for those who do not see it.
    pub says: String,
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// What is drawn, the first one lowest.
    pub series: Vec<Series>,
    /// Vertical lines with a word.
    pub rules: Vec<(f64, String)>,
}

/// What has one name and one look.
#[derive(Clone)]
pub struct Series {
    /// Its name in rows, and in `data-series`.
    pub key: String,
    /// In the order of their x.
    pub points: Vec<Point>,
    /// Whether a line goes through the points.
    pub joined: bool,
    /// Whether points have markers.
    pub marked: bool,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// How much.
    pub y: f64,
    /// From where to where half of the samples lie.
    pub spread: Option<(f64, f64)>,
    /// What to say of it.
    pub note: String,
    /// Whether it is worse than the one before.
    pub rose: bool,
}

impl Lines {
    /// Draws it.
    #[must_use]
    pub fn draw(&self, room: Room) -> Markup {
        let points = self.all_points();
        let names = self.line_names(room);
        let widest = names.iter().map(|(_, name)| room.width_of(name));
        let right = match widest.fold(0.0, f64::max) {
            0.0 => 0.0,
            widest => widest + 22.0,
        };
        let frame = Frame::new(room, (&self.x, &self.y), &points, right);
        let (width, height) = (short(room.width), short(room.height));
        html! {
            svg viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) role="img" aria-label=(self.says) {
                (frame.draw())
                @for (x, word) in &self.rules { (rule(&frame, room, *x, word)) }
                @for series in &self.series { (series.draw(&frame)) }
                (draw_names(&frame, room, &names))
            }
        }
    }

    /// All places that must lie within the frame.
    fn all_points(&self) -> Vec<(f64, f64)> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let of = |point: &Point| {
            let (low, high) = point.spread.unwrap_or((point.y, point.y));
            [(point.x, point.y), (point.x, low), (point.x, high)]
        };
        points.flat_map(of).collect()
    }

    /// The series that are named at their last point, where there is room for names.
    fn line_names(&self, room: Room) -> Vec<(&Series, String)> {
        if !room.names_lines {
            return Vec::new();
        }
        let lines = self
            .series
            .iter()
            .filter(|series| series.joined && !series.points.is_empty());
        lines
            .map(|series| (series, short_label(&series.key)))
            .collect()
    }
}

impl Series {
    fn draw(&self, frame: &Frame) -> Markup {
        let look = Appearance::of(&self.key);
        let place = |point: &Point| (frame.x.place(point.x), frame.y.place(point.y));
        html! {
            g data-series=(self.key) {
                @if self.joined && self.points.len() > 1 {
                    path d=(path(self.points.iter().map(place))) stroke=(look.paint()) stroke-width="2"
                        stroke-dasharray=[look.dash()] stroke-linejoin="round" fill="none" {}
                }
                @if self.marked {
                    @for point in &self.points {
                        @let (x, y) = place(point);
                        g class="point" {
                            title { (point.note) }
                            @if let Some((low, high)) = point.spread {
                                (whisker(x, frame.y.place(low), frame.y.place(high), &look))
                            }
                            (look.mark((x, y)))
                            @if point.rose {
                                path class="rose" d={ "M" (short(x)) " " (short(y - 17.0)) "l5 8h-10z" } {}
                            }
                        }
                    }
                }
            }
        }
    }
}

fn path(places: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (x, y) in places {
        path.push(if path.is_empty() { 'M' } else { 'L' });
        path += &format!("{} {}", short(x), short(y));
    }
    path
}

fn whisker(x: f64, low: f64, high: f64, look: &Appearance) -> Markup {
    let (left, x, low, high) = (short(x - 3.0), short(x), short(low), short(high));
    html! {
        path class="whisker" stroke=(look.paint()) fill="none"
            d={ "M" (left) " " (low) "h6M" (left) " " (high) "h6M" (x) " " (low) "V" (high) } {}
    }
}

fn rule(frame: &Frame, room: Room, value: f64, word: &str) -> Markup {
    let (left, top, right, bottom) = frame.inner;
    let x = frame.x.place(value);
    let is_left = x - left > (right - left) / 2.0;
    let (anchor, at) = match is_left {
        true => ("end", x - 6.0),
        false => ("start", x + 6.0),
    };
    html! {
        g class="rule" font-size=(room.font) {
            path d={ "M" (short(x)) " " (short(top)) "V" (short(bottom)) } {}
            text x=(short(at)) y=(short(top + room.font)) text-anchor=(anchor) { (word) }
        }
    }
}

/// Names right of the ends of their lines, moved apart where they would lie on one another.
fn draw_names(frame: &Frame, room: Room, names: &[(&Series, String)]) -> Markup {
    let (_, top, right, bottom) = frame.inner;
    let end = |series: &Series| {
        series
            .points
            .last()
            .map_or(bottom, |point| frame.y.place(point.y))
    };
    let wished: Vec<f64> = names.iter().map(|(series, _)| end(series)).collect();
    let places = moved_apart(&wished, room.font * 1.15, (top, bottom));
    html! {
        @for ((series, name), y) in names.iter().zip(places) {
            g data-series=(series.key) class="line-name" font-size=(room.font) {
                text x=(short(right + 8.0)) y=(short(y + room.font * 0.35))
                    fill=(Appearance::of(&series.key).paint()) { (name) }
            }
        }
    }
}

/// Places at least `gap` apart in the order of the wished ones, as near to them as they come by pushing
/// down, and then up from the end. More than fit stand closer.
fn moved_apart(wished: &[f64], gap: f64, (low, high): (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wished.len()).collect();
    order.sort_by(|&a, &b| wished[a].total_cmp(&wished[b]));
    let gap = gap.min((high - low) / wished.len().max(1) as f64);
    let mut places = wished.to_vec();
    let mut free = low;
    for &i in &order {
        places[i] = places[i].max(free);
        free = places[i] + gap;
    }
    let mut last = high;
    for &i in order.iter().rev() {
        places[i] = places[i].min(last);
        last = places[i] - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::scale::Kind;
    use crate::chart::{NARROW, WIDE};
    use crate::number::{short_count, short_time};

    fn point(x: f64, y: f64) -> Point {
        Point {
            x,
            y,
            spread: Some((y * 0.9, y * 1.2)),
            note: format!("at {x} & {y}"),
            rose: y > 100.0,
        }
    }

    fn chart() -> Lines {
        let axis = |name: &str, write| Axis {
            name: name.to_owned(),
            kind: Kind::Log,
            interval: None,
            ticks: Vec::new(),
            write,
        };
        let series = |key: &str, y: f64| Series {
            key: key.to_owned(),
            points: vec![point(1e5, y), point(1e6, y * 1.1), point(1e7, y * 1.4)],
            joined: true,
            marked: true,
        };
        Lines {
            says: "times".to_owned(),
            x: axis("notes", short_count),
            y: axis("time", short_time),
            series: vec![
                series("avx512", 0.4),
                series("naive", 90.0),
                series("a\"<b>", 1.0),
            ],
            rules: vec![(2e6, "here".to_owned())],
        }
    }

    #[test]
    fn every_series_and_every_point_is_in_the_drawing() {
        for room in [WIDE, NARROW] {
            let drawn = chart().draw(room).into_string();
            for key in ["avx512", "naive", "a&quot;&lt;b&gt;"] {
                assert!(
                    drawn.contains(&format!("<g data-series=\"{key}\"")),
                    "{key}: {drawn}"
                );
            }
            assert_eq!(drawn.matches("<title>").count(), 9);
            assert_eq!(drawn.matches("class=\"whisker\"").count(), 9);
            assert!(drawn.contains("at 100000 &amp; 0.4") && !drawn.contains("a\"<b>"));
            assert!(drawn.contains(">here<"));
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        }
    }

    #[test]
    fn a_rise_has_a_mark() {
        let drawn = chart().draw(WIDE).into_string();
        assert_eq!(drawn.matches("class=\"rose\"").count(), 1);
    }

    #[test]
    fn a_chart_without_points_is_drawn_without_them() {
        let mut empty = chart();
        empty.series.clear();
        assert!(empty.draw(WIDE).into_string().contains("class=\"axis\""));
    }

    #[test]
    fn names_are_moved_apart_and_stay_within() {
        assert_eq!(moved_apart(&[10.0, 50.0], 10.0, (0.0, 100.0)), [10.0, 50.0]);
        assert_eq!(moved_apart(&[52.0, 50.0], 10.0, (0.0, 100.0)), [60.0, 50.0]);
        assert_eq!(
            moved_apart(&[99.0, 98.0], 10.0, (0.0, 100.0)),
            [100.0, 90.0]
        );
        let many = moved_apart(&[50.0; 40], 10.0, (0.0, 100.0));
        assert!(
            many.iter().all(|place| (0.0..=100.0).contains(place)),
            "{many:?}"
        );
    }
}
