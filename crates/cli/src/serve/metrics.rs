//! The metrics of the service, in the text format of Prometheus. Those of connections and requests are counted where they
//! happen; all others are in the status of the service.

use std::fmt::Write as _;
use std::sync::LazyLock;

use nutfilter_mint::{FilterStatus, Monitor, NoteKind};
use prometheus::TextEncoder;

use super::site::{now, word};

/// The keysets with metrics of their own. A mint has a few; the ones with the most notes count.
const MAX_KEYSETS: usize = 50;

/// When the process started.
static START: LazyLock<u64> = LazyLock::new(now);

/// Begins to count the time of the process.
pub(super) fn start() {
    LazyLock::force(&START);
}

/// One metric after the other.
#[derive(Default)]
struct Text(String);

impl Text {
    /// Adds a metric of this type, name and help, with its values, each with its labels, such as `kind="spent"`.
    fn metric<L: AsRef<str>>(
        &mut self,
        [kind, name, help]: [&str; 3],
        values: impl IntoIterator<Item = (L, f64)>,
    ) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.0,
            "# HELP nutfilter_{name} {help}\n# TYPE nutfilter_{name} {kind}"
        );
        for (labels, value) in values {
            let _ = match labels.as_ref() {
                "" => writeln!(self.0, "nutfilter_{name} {value}"),
                labels => writeln!(self.0, "nutfilter_{name}{{{labels}}} {value}"),
            };
        }
    }

    fn one(&mut self, what: [&str; 3], value: f64) {
        self.metric(what, [("", value)]);
    }

    fn by_kind(&mut self, what: [&str; 3], value: impl Fn(NoteKind) -> f64) {
        self.metric(
            what,
            NoteKind::ALL.map(|of| (format!("kind=\"{of}\""), value(of))),
        );
    }
}

/// All metrics as text.
// Exact up to 2^53, far above any number of notes.
#[allow(clippy::cast_precision_loss)]
pub(super) fn text(monitor: &Monitor) -> String {
    let (status, mut text) = (monitor.status(), Text::default());
    let build = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    text.metric(
        [
            "gauge",
            "build_info",
            "Always 1; the version is in its label",
        ],
        [(build, 1.0)],
    );
    text.one(
        [
            "gauge",
            "start_time_seconds",
            "Unix time at which the process started",
        ],
        *START as f64,
    );
    let words = ["starting", "ok", "degraded", "failing"].map(|one| {
        let is = one == word(&status);
        (format!("status=\"{one}\""), f64::from(u8::from(is)))
    });
    text.metric(
        [
            "gauge",
            "status",
            "1 for the current status, 0 for the others",
        ],
        words,
    );
    let filters = &status.filters;
    let of = |kind| filters.iter().filter(move |filter| filter.kind == kind);
    let date = |filter: &FilterStatus| Some(monitor.table().get(&filter.path)?.date());
    let dates = |kind| of(kind).filter_map(date);
    text.one(
        ["gauge", "keysets", "Number of keysets served"],
        of(NoteKind::Spent).count() as f64,
    );
    text.by_kind(["gauge", "items", "Notes in the served filters"], |kind| {
        of(kind).map(|filter| filter.items).sum::<u64>() as f64
    });
    let what = [
        "gauge",
        "as_of_timestamp_seconds",
        "Timestamp of the oldest filter (Unix time)",
    ];
    text.by_kind(what, |kind| dates(kind).min().unwrap_or(0) as f64);
    let what = [
        "gauge",
        "unreadable_rows",
        "Rows not readable since the last whole reading; the filters of their keysets stay as they are",
    ];
    text.by_kind(what, |kind| status.unreadable[kind as usize] as f64);
    let what = [
        "gauge",
        "last_refresh_timestamp_seconds",
        "Start of the last refresh that succeeded (Unix time)",
    ];
    text.one(what, status.refreshed as f64);
    let latest = NoteKind::ALL.into_iter().flat_map(dates).max().unwrap_or(0);
    let what = [
        "gauge",
        "clock_behind_seconds",
        "Seconds by which a filter is dated after the clock",
    ];
    text.one(what, latest.saturating_sub(now()) as f64);
    let results = ["ok", "partial", "failed"].map(|one| format!("result=\"{one}\""));
    let counts = status.refreshes.map(|count| count as f64);
    let what = ["counter", "refreshes_total", "Refreshes by their result"];
    text.metric(what, results.into_iter().zip(counts));
    let what = [
        "counter",
        "refresh_seconds_sum",
        "Seconds that refreshes have taken, including failed ones",
    ];
    text.one(what, status.seconds);
    let read = NoteKind::ALL.iter().flat_map(|kind| {
        let [whole, new] = status.read[*kind as usize];
        [("whole", whole), ("new", new)].map(|(reading, items)| {
            let labels = format!("kind=\"{kind}\",reading=\"{reading}\"");
            (labels, items as f64)
        })
    });
    text.metric(
        [
            "counter",
            "items_read_total",
            "Items read, by whole readings and by others",
        ],
        read,
    );
    text.by_kind(
        ["counter", "whole_readings_total", "Readings of everything"],
        |kind| status.whole_readings[kind as usize] as f64,
    );
    let what = [
        "counter",
        "items_lost_total",
        "Items that a whole reading did not find again",
    ];
    text.one(what, status.items_lost as f64);
    let what = [
        "counter",
        "withdrawn_total",
        "Filters withdrawn because the clock was set back",
    ];
    text.one(what, status.withdrawn as f64);
    let what = [
        "counter",
        "info_failures_total",
        "Failed fetches of the mint's info",
    ];
    text.one(what, status.info_failures as f64);
    let mut largest: Vec<_> = filters
        .iter()
        .filter(|filter| filter.keyset.is_some())
        .collect();
    largest.sort_by_key(|filter| core::cmp::Reverse(filter.items));
    largest.truncate(MAX_KEYSETS * NoteKind::ALL.len());
    let labels = |filter: &FilterStatus| {
        let keyset = filter.keyset.as_ref().map_or("", |keyset| keyset.as_str());
        let (kind, active) = (filter.kind, filter.active);
        format!("keyset=\"{keyset}\",kind=\"{kind}\",active=\"{active}\"")
    };
    let what = [
        "gauge",
        "keyset_items",
        "Notes in a filter; the 50 keysets with the most notes have this and the next",
    ];
    let items = largest
        .iter()
        .map(|filter| (labels(filter), filter.items as f64));
    text.metric(what, items);
    let dated = largest
        .iter()
        .filter_map(|filter| Some((labels(filter), date(filter)? as f64)));
    text.metric(
        [
            "gauge",
            "keyset_timestamp_seconds",
            "Timestamp of a filter (Unix time)",
        ],
        dated,
    );
    let counted = TextEncoder::new().encode_to_string(&prometheus::gather());
    text.0 + &counted.unwrap_or_else(|error| format!("# {error}\n"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nutfilter_objects::Table;

    use super::*;

    #[test]
    fn counters_are_0_before_the_first_event() {
        let monitor = Monitor::new(Arc::new(Table::in_memory()));
        let text = text(&monitor);
        for line in [
            "nutfilter_items_lost_total 0",
            "nutfilter_items_read_total{kind=\"spent\",reading=\"new\"} 0",
            "nutfilter_whole_readings_total{kind=\"issued\"} 0",
            "nutfilter_refreshes_total{result=\"failed\"} 0",
            "nutfilter_info_failures_total 0",
            "nutfilter_status{status=\"starting\"} 1",
            "nutfilter_keysets 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
