//! Bits a note against the false-positive rate: curves from formulas, points that were measured.

use maud::{Markup, html};
use nutfilter_benchmarks::record::{Names, Space};

use super::figure::Figure;
use super::table::{Cell, Row, Table};
use crate::chart::Drawings;
use crate::chart::appearance::label;
use crate::chart::frame::Axis;
use crate::chart::lines::{Lines, Point, Series};
use crate::chart::scale::Kind;
use crate::number::{count, one_in, percent, rate, significant, trimmed, whole};
use crate::records::{Kept, newest, short_commit};
use crate::space::{bloom, crossing, elias_fano, entropy, golomb, samples};

/// A rate that fewer false positives stand for is not told from its neighbours: such a point stands where it was
/// designed to be.
const ENOUGH: u64 = 30;

/// The M of the Cashu filters.
const CASHU: u32 = 784_931;

/// Sentences, the two charts, and the filter of names.
#[must_use]
pub fn draw(records: &[Kept]) -> Markup {
    let measured = newest(records, |record| !record.space.is_empty());
    let points: &[Space] = measured.map_or(&[], |kept| &kept.record.space);
    let names = newest(records, |record| record.names.is_some());
    html! {
        p { (where_bloom_wins()) }
        (whole_figure(points, measured).draw())
        (surplus_figure(points).draw())
        @if let Some((kept, names)) = names.and_then(|kept| Some((kept, kept.record.names.as_ref()?))) {
            (names_figure(names, kept).draw())
        }
    }
}

fn bits(value: f64) -> String {
    format!("{value:.2}")
}

/// What a filter takes, in a sentence.
#[must_use]
pub fn glance() -> Option<Markup> {
    let golomb = golomb(CASHU)?;
    let entropy = entropy(f64::from(CASHU));
    Some(html! {
        strong { "Size: " (bits(golomb)) " bits a note" }
        " at one false positive in " (whole(u64::from(CASHU))) "; the bound is " (bits(entropy)) ", a Bloom filter takes "
        (bits(bloom(f64::from(CASHU)))) "."
    })
}

fn where_bloom_wins() -> Markup {
    let Some((last, _)) = crossing() else {
        return html! { "A Golomb-coded set takes less than a Bloom filter at every rate." };
    };
    let pair = |one_in: u32| {
        let golomb = golomb(one_in).map(bits).unwrap_or_default();
        (bits(bloom(f64::from(one_in))), golomb)
    };
    let ((bloom_ten, golomb_ten), (bloom_cashu, golomb_cashu)) = (pair(10), pair(CASHU));
    html! {
        strong { "Where a Bloom filter wins: " }
        "where a false-positive rate of one in " (last) ", or a higher one, is good enough, a Bloom filter takes fewer bits: at one in ten "
        (bloom_ten) " against " (golomb_ten) " a note. It is also asked without decoding. At the rate of the Cashu filters, one in "
        (whole(u64::from(CASHU))) ", it takes " (bloom_cashu) " against " (golomb_cashu) "; the bound is "
        (bits(entropy(f64::from(CASHU)))) "."
    }
}

/// The structures, as curves have them; measured ones of other names come after.
const CURVES: [&str; 4] = ["entropy", "gcs", "bloom", "elias-fano"];

fn curve(structure: &str, one_in: u32) -> f64 {
    match structure {
        "gcs" => golomb(one_in).unwrap_or(f64::NAN),
        "bloom" => bloom(f64::from(one_in)),
        "elias-fano" => elias_fano(one_in),
        _ => entropy(f64::from(one_in)),
    }
}

/// Where a measured structure stands, and whether that is where it was measured.
fn place(space: &Space) -> (f64, bool) {
    match space.false_positives >= ENOUGH {
        true => (space.measured_rate(), true),
        false => (space.designed_rate, false),
    }
}

/// Curves down to a rate of 1 in `last`, with the points that lie above it. `surplus` takes the bound off.
fn series(points: &[Space], last: u32, surplus: bool) -> Vec<Series> {
    let off = |rate: f64| if surplus { -rate.log2() } else { 0.0 };
    let mut all: Vec<Series> = Vec::new();
    for structure in CURVES
        .into_iter()
        .filter(|structure| !(surplus && *structure == "entropy"))
    {
        let mut points: Vec<Point> = samples(last)
            .into_iter()
            .map(|one_in| {
                let rate = 1.0 / f64::from(one_in);
                Point {
                    x: rate,
                    y: curve(structure, one_in) - off(rate),
                    spread: None,
                    note: String::new(),
                    rose: false,
                }
            })
            .collect();
        points.reverse();
        all.push(Series {
            key: structure.to_owned(),
            points,
            joined: true,
            marked: false,
        });
    }
    for space in points {
        let (x, was_seen) = place(space);
        if x < 0.999 / f64::from(last) || x > 0.6 {
            continue;
        }
        let seen = if was_seen { "measured" } else { "as designed" };
        let point = Point {
            x,
            y: space.bits_per_item - off(x),
            spread: None,
            note: format!(
                "{}, {}: {} bits a note at {} ({seen})",
                label(&space.structure),
                space.parameters,
                bits(space.bits_per_item),
                rate(x)
            ),
            rose: false,
        };
        let marks = |series: &&mut Series| series.key == space.structure && series.marked;
        match all.iter_mut().find(marks) {
            Some(series) => series.points.push(point),
            None => all.push(Series {
                key: space.structure.clone(),
                points: vec![point],
                joined: false,
                marked: true,
            }),
        }
    }
    all
}

fn legend(series: &[Series]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for series in series {
        if !keys.contains(&series.key) {
            keys.push(series.key.clone());
        }
    }
    keys
}

fn rate_axis(interval: (f64, f64), write: fn(f64) -> String) -> Axis {
    Axis {
        name: "false-positive rate".to_owned(),
        kind: Kind::Log,
        interval: Some(interval),
        ticks: Vec::new(),
        write,
    }
}

fn whole_figure(points: &[Space], measured: Option<&Kept>) -> Figure {
    // As far as the rarest that was measured; the Cashu rate is always there.
    let rarest = points
        .iter()
        .map(|space| place(space).0)
        .fold(1.0 / 4e6, f64::min);
    let last = (1.0 / rarest).min(f64::from(u32::MAX)) as u32;
    let series = series(points, last, false);
    let chart = Lines {
        says: "Bits a note over the false-positive rate".to_owned(),
        x: rate_axis((rarest / 1.5, 0.7), rate),
        y: Axis {
            name: "bits a note".to_owned(),
            kind: Kind::Linear,
            interval: Some((0.0, bloom(1.0 / rarest).max(10.0) * 1.04)),
            ticks: Vec::new(),
            write: trimmed,
        },
        rules: vec![(1.0 / f64::from(CASHU), "Cashu".to_owned())],
        series,
    };
    Figure {
        id: "space".to_owned(),
        title: "Bits a note over the false-positive rate".to_owned(),
        caption: html! {
            p {
                "Lines are formulas: the entropy bound log2(1/rate), a Golomb-coded set with its best P as the library reckons it, a Bloom filter "
                "with the best number of hashes, Elias-Fano without what makes it quick to ask. "
                @if let Some(kept) = measured {
                    "Points were measured: bytes taken, and strangers asked; where fewer than " (ENOUGH)
                    " were falsely found a point stands at the rate it was designed for. Commit " code { (short_commit(&kept.record)) } "."
                } @else {
                    "No record has measured points yet."
                }
            }
        },
        legend: legend(&chart.series),
        drawings: Some(Drawings::of(|room| chart.draw(room))),
        table: table(points, last),
        choices: Vec::new(),
    }
}

fn surplus_figure(points: &[Space]) -> Figure {
    const LAST: u32 = 1 << 10;
    let series = series(points, LAST, true);
    let rules = crossing().map(|(_, one_in)| (1.0 / one_in, "Bloom takes less →".to_owned()));
    let highest = series
        .iter()
        .flat_map(|series| &series.points)
        .map(|point| point.y)
        .fold(1.0, f64::max);
    let chart = Lines {
        says: "Bits a note above the entropy bound, at high false-positive rates".to_owned(),
        x: rate_axis((0.9 / f64::from(LAST), 0.6), one_in),
        y: Axis {
            name: "bits a note above the entropy bound".to_owned(),
            kind: Kind::Linear,
            interval: Some((0.0, highest * 1.05)),
            ticks: Vec::new(),
            write: trimmed,
        },
        series,
        rules: rules.into_iter().collect(),
    };
    let near = points
        .iter()
        .filter(|space| place(space).0 >= 1.0 / f64::from(LAST));
    let near: Vec<Space> = near.cloned().collect();
    Figure {
        id: "surplus".to_owned(),
        title: "The same near the crossing, without the bound".to_owned(),
        caption: html! {
            p {
                "What each structure takes above log2(1/rate). Right of the mark a Bloom filter takes less than a Golomb-coded set."
            }
        },
        legend: legend(&chart.series),
        drawings: Some(Drawings::of(|room| chart.draw(room))),
        table: table(&near, LAST),
        choices: Vec::new(),
    }
}

/// What was measured, and the formulas at powers of two down to 1 in `last`.
fn table(points: &[Space], last: u32) -> Table {
    let row = |space: &Space| {
        let seen = (space.asked > 0).then(|| space.measured_rate());
        let cells = vec![
            Cell::text(label(&space.structure)),
            Cell::text(space.parameters.clone()),
            Cell::number(space.n as f64, count(space.n)),
            Cell::number(space.bits_per_item, bits(space.bits_per_item)),
            Cell::number(space.designed_rate, rate(space.designed_rate)),
            Cell::known(seen, |seen| {
                if seen > 0.0 {
                    rate(seen)
                } else {
                    "none seen".to_owned()
                }
            }),
            Cell::number(space.asked as f64, whole(space.asked)),
            Cell::number(space.false_positives as f64, whole(space.false_positives)),
        ];
        Row::of(&space.structure, cells)
    };
    let formula = |structure: &str, one_in: u32| {
        let value = curve(structure, one_in);
        let of = 1.0 / f64::from(one_in);
        let mut cells = vec![
            Cell::text(label(structure)),
            Cell::text("formula"),
            Cell::text(""),
            Cell::number(value, bits(value)),
            Cell::number(of, rate(of)),
        ];
        cells.extend(["", "", ""].map(Cell::text));
        Row::of(structure, cells)
    };
    let powers = (1..=last.ilog2()).map(|power| 1_u32 << power);
    let powers: Vec<u32> = powers.collect();
    let formulas = CURVES
        .iter()
        .flat_map(|structure| powers.iter().map(|one_in| formula(structure, *one_in)));
    Table {
        columns: vec![
            "structure",
            "parameters",
            "notes",
            "bits a note",
            "designed rate",
            "measured rate",
            "strangers asked",
            "falsely found",
        ],
        rows: points.iter().map(row).chain(formulas).collect(),
    }
}

/// The article's Bloom filter beside what else could hold its names.
fn names_figure(names: &Names, kept: &Kept) -> Figure {
    let bytes = |space: &Space| space.bits_per_item * space.n as f64 / 8.0;
    let of = |role: &str| {
        names
            .others
            .iter()
            .find(|space| space.role.as_deref() == Some(role))
    };
    let row =
        |name: String, parameters: String, bytes: f64, designed: f64, measured: f64, asked: u64| {
            Row {
                series: None,
                cells: vec![
                    Cell::text(name),
                    Cell::text(parameters),
                    Cell::number(bytes, whole(bytes.round() as u64)),
                    Cell::number(
                        bytes * 8.0 / names.n as f64,
                        bits(bytes * 8.0 / names.n as f64),
                    ),
                    Cell::number(designed, percent(designed)),
                    Cell::number(measured, percent(measured)),
                    Cell::number(asked as f64, whole(asked)),
                ],
            }
        };
    let mut rows = vec![row(
        "the article's Bloom filter".to_owned(),
        format!("m = {}, k = {}", names.bits, names.k),
        names.bits as f64 / 8.0,
        names.formula_rate,
        names.measured_rate(),
        names.asked,
    )];
    for (role, what) in [
        ("best-k", "Bloom filter of the best k, same bytes"),
        ("same-bytes", "Golomb-coded set, same bytes"),
        ("same-rate", "Golomb-coded set, same rate"),
    ] {
        rows.extend(of(role).map(|space| {
            let (designed, measured) = (space.designed_rate, space.measured_rate());
            row(
                what.to_owned(),
                space.parameters.clone(),
                bytes(space),
                designed,
                measured,
                space.asked,
            )
        }));
    }
    Figure {
        id: "names".to_owned(),
        title: "Is this name free? The Bloom filter of a smart-contract article".to_owned(),
        caption: html! {
            p {
                (whole(names.n)) " names in " (whole(names.bits)) " bits with " (names.k) " hashes: " (percent(names.measured_rate()))
                " of free names look taken, where (1 - e^(-kn/m))^k says " (percent(names.formula_rate)) ". "
                @if let Some(space) = of("same-bytes") {
                    "A Golomb-coded set of the same bytes is wrong about " (percent(space.measured_rate())) ". "
                }
                @if let Some(space) = of("same-rate") {
                    "One of the same rate takes " (whole(bytes(space).round() as u64)) " bytes instead of " (whole(names.bits / 8)) ". "
                }
                "The best k would be m/n ln 2 = " (significant(names.best_k, 3)) ". "
                @if of("same-bytes").is_some_and(|space| space.measured_rate() > names.measured_rate()) {
                    "At so high a rate the Bloom filter has the better of it. "
                }
                "Commit "
                code { (short_commit(&kept.record)) } "."
            }
        },
        legend: Vec::new(),
        drawings: None,
        table: Table {
            columns: vec![
                "structure",
                "parameters",
                "bytes",
                "bits a name",
                "designed rate",
                "measured rate",
                "free names asked",
            ],
            rows,
        },
        choices: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn every_measured_structure_and_every_curve_is_in_the_chart_and_the_table() {
        let record = made::record();
        let figure = whole_figure(&record.space, None);
        let drawings = figure.drawings.as_ref().unwrap();
        for drawn in [&drawings.wide, &drawings.narrow].map(|drawn| drawn.clone().into_string()) {
            assert_eq!(drawn.matches("class=\"point\"").count(), record.space.len());
            for key in ["entropy", "gcs", "bloom", "elias-fano", "binary-fuse-8"] {
                assert!(drawn.contains(&format!("data-series=\"{key}\"")), "{key}");
                assert!(figure.legend.contains(&key.to_owned()), "{key}");
            }
            assert!(!drawn.contains("NaN"));
        }
        assert!(figure.table.rows.len() > record.space.len() + 4 * 20);
    }

    #[test]
    fn a_structure_that_was_hardly_ever_wrong_stands_where_it_was_designed_to() {
        let mut space = made::record().space[0].clone();
        space.false_positives = 3;
        assert_eq!(place(&space), (space.designed_rate, false));
        space.false_positives = 7000;
        assert_eq!(place(&space), (0.0007, true));
    }

    #[test]
    fn the_page_says_where_bloom_wins_and_marks_it() {
        let drawn = draw(&made::kept(vec![made::record()])).into_string();
        assert!(drawn.contains("at one in ten 4.79 against 4.86"));
        assert!(drawn.contains("Bloom takes less →"));
    }

    #[test]
    fn the_filter_of_names_is_there_with_what_else_could_hold_them() {
        let drawn = draw(&made::kept(vec![made::record()])).into_string();
        for part in [
            "20.9 %",
            "25.0 %",
            "4,500 bytes instead of 4,096",
            "m/n ln 2 = 2.27",
            "the best k, same bytes",
        ] {
            assert!(drawn.contains(part), "{part}");
        }
        assert!(
            draw(&[])
                .into_string()
                .contains("No record has measured points yet")
        );
    }
}
