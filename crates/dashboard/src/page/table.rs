//! [`Table`]: the figures behind a chart, once for people and once as CSV.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};

/// Rows of cells below headings.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The headings.
    pub columns: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The series that it is of; it is hidden with it.
    pub series: Option<String>,
    /// As many as there are columns.
    pub cells: Vec<Cell>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// For people.
    pub shown: String,
    /// For programs.
    pub plain: String,
    is_number: bool,
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        let shown = text.into();
        Self {
            plain: shown.clone(),
            shown,
            is_number: false,
        }
    }

    /// A number, and how people read it.
    #[must_use]
    pub fn number(value: f64, shown: String) -> Self {
        Self {
            shown,
            plain: value.to_string(),
            is_number: true,
        }
    }

    /// The same where it is known, else nothing.
    #[must_use]
    pub fn known(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        match value {
            Some(value) => Self::number(value, show(value)),
            None => Self::text(""),
        }
    }
}

impl Row {
    /// A row of a series.
    pub fn of(series: &str, cells: Vec<Cell>) -> Self {
        Self {
            series: Some(series.to_owned()),
            cells,
        }
    }
}

impl Table {
    /// The table, in a box of its own that scrolls; `name` is what the box is called.
    #[must_use]
    pub fn draw(&self, name: &str) -> Markup {
        html! {
            div class="scroll" tabindex="0" role="region" aria-label=(name) {
                table {
                    thead { tr { @for column in &self.columns { th scope="col" { (column) } } } }
                    tbody {
                        @for row in &self.rows {
                            tr data-series=[&row.series] {
                                @for cell in &row.cells {
                                    td class=[cell.is_number.then_some("number")] { (cell.shown) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// A link that holds the CSV: a file to keep, without a server to ask.
    #[must_use]
    pub fn download(&self, file: &str) -> Markup {
        let data = STANDARD.encode(self.csv());
        html! {
            a class="csv" download={ (file) ".csv" } href={ "data:text/csv;charset=utf-8;base64," (data) } { "CSV" }
        }
    }

    /// As RFC 4180 has it, with `\n`.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut csv = line(self.columns.iter().copied());
        for row in &self.rows {
            csv += &line(row.cells.iter().map(|cell| cell.plain.as_str()));
        }
        csv
    }
}

fn line<'t>(cells: impl Iterator<Item = &'t str>) -> String {
    let cells: Vec<String> = cells.map(quoted).collect();
    cells.join(",") + "\n"
}

fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            columns: vec!["who", "time, ns"],
            rows: vec![
                Row::of(
                    "a<b",
                    vec![
                        Cell::text("a<b, \"c\""),
                        Cell::number(1234.5678, "1,235".into()),
                    ],
                ),
                Row {
                    series: None,
                    cells: vec![Cell::text("plain"), Cell::known(None, |_| unreachable!())],
                },
            ],
        }
    }

    #[test]
    fn csv_quotes_what_it_must_and_has_all_digits() {
        let expected = "who,\"time, ns\"\n\"a<b, \"\"c\"\"\",1234.5678\nplain,\n";
        assert_eq!(table().csv(), expected);
    }

    #[test]
    fn html_is_escaped_and_rows_know_their_series() {
        let drawn = table().draw("figures").into_string();
        assert!(drawn.contains("<tr data-series=\"a&lt;b\">"), "{drawn}");
        assert!(
            drawn.contains("a&lt;b, &quot;c&quot;") && drawn.contains("<td class=\"number\">1,235")
        );
        assert_eq!(drawn.matches("<tr").count(), 3);
    }

    #[test]
    fn the_link_holds_the_csv() {
        let link = table().download("times").into_string();
        let (_, data) = link.split_once("base64,").unwrap();
        let data = data.split('"').next().unwrap();
        let decoded = STANDARD.decode(data).unwrap();
        assert_eq!(String::from_utf8(decoded).unwrap(), table().csv());
        assert!(link.contains("download=\"times.csv\""));
    }
}
