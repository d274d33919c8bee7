//! The metrics of the service, in the text format of Prometheus. Those of connections and requests are counted where they
//! happen; all others are in the status of the service.

use std::fmt::Write as _;
use std::sync::LazyLock;

use nutfilter_mint::{Monitor, NoteKind};
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
    /// Adds a metric with its values, each with its labels, such as `kind="spent"`.
    fn metric<L: AsRef<str>>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
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

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.metric(name, kind, help, [("", value)]);
    }

    fn by_kind(&mut self, name: &str, kind: &str, help: &str, value: impl Fn(NoteKind) -> f64) {
        let values = NoteKind::ALL.map(|of| (format!("kind=\"{of}\""), value(of)));
        self.metric(name, kind, help, values);
    }
}

/// All metrics as text.
// Exact up to 2^53, far above any number of notes.
#[allow(clippy::cast_precision_loss)]
pub(super) fn text(monitor: &Monitor) -> String {
    const COUNTER: &str = "counter";
    const GAUGE: &str = "gauge";
    let (status, mut text) = (monitor.status(), Text::default());
    let build = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    text.metric(
        "build_info",
        GAUGE,
        "Always 1; the version is in its label",
        [(build, 1.0)],
    );
    text.one(
        "start_time_seconds",
        GAUGE,
        "Unix time at which the process started",
        *START as f64,
    );
    let words = ["starting", "ok", "degraded", "failing"].map(|one| {
        let is = one == word(&status);
        (format!("status=\"{one}\""), f64::from(u8::from(is)))
    });
    text.metric(
        "status",
        GAUGE,
        "1 for the current status, 0 for the others",
        words,
    );
    let of = |kind| {
        status
            .filters
            .iter()
            .filter(move |filter| filter.kind == kind)
    };
    let dates =
        |kind| of(kind).filter_map(|filter| Some(monitor.table().get(&filter.path)?.date()));
    text.one(
        "keysets",
        GAUGE,
        "Number of keysets served",
        of(NoteKind::Spent).count() as f64,
    );
    text.by_kind("items", GAUGE, "Notes in the served filters", |kind| {
        of(kind).map(|filter| filter.items).sum::<u64>() as f64
    });
    text.by_kind(
        "as_of_timestamp_seconds",
        GAUGE,
        "Timestamp of the oldest filter (Unix time)",
        |kind| dates(kind).min().unwrap_or(0) as f64,
    );
    text.by_kind(
        "unreadable_rows",
        GAUGE,
        "Rows not readable since the last whole reading; the filters of their keysets stay as they are",
        |kind| status.unreadable[kind as usize] as f64,
    );
    text.one(
        "last_refresh_timestamp_seconds",
        GAUGE,
        "Start of the last refresh that succeeded (Unix time)",
        status.refreshed as f64,
    );
    let latest = NoteKind::ALL.into_iter().flat_map(dates).max().unwrap_or(0);
    text.one(
        "clock_behind_seconds",
        GAUGE,
        "Seconds by which a filter is dated after the clock",
        latest.saturating_sub(now()) as f64,
    );
    let results = ["ok", "partial", "failed"].map(|one| format!("result=\"{one}\""));
    let refreshes = results
        .into_iter()
        .zip(status.refreshes.map(|count| count as f64));
    text.metric(
        "refreshes_total",
        COUNTER,
        "Refreshes by their result",
        refreshes,
    );
    text.one(
        "refresh_seconds_sum",
        COUNTER,
        "Seconds that refreshes have taken, including failed ones",
        status.seconds,
    );
    let read = NoteKind::ALL.iter().flat_map(|kind| {
        let [whole, new] = status.read[*kind as usize];
        [("whole", whole), ("new", new)].map(|(reading, items)| {
            (
                format!("kind=\"{kind}\",reading=\"{reading}\""),
                items as f64,
            )
        })
    });
    text.metric(
        "items_read_total",
        COUNTER,
        "Items read, by whole readings and by others",
        read,
    );
    text.by_kind(
        "whole_readings_total",
        COUNTER,
        "Readings of everything",
        |kind| status.whole_readings[kind as usize] as f64,
    );
    text.one(
        "items_lost_total",
        COUNTER,
        "Items that a whole reading did not find again",
        status.items_lost as f64,
    );
    text.one(
        "withdrawn_total",
        COUNTER,
        "Filters withdrawn because the clock was set back",
        status.withdrawn as f64,
    );
    text.one(
        "info_failures_total",
        COUNTER,
        "Failed fetches of the mint's info",
        status.info_failures as f64,
    );
    let mut largest: Vec<_> = status
        .filters
        .iter()
        .filter(|filter| filter.keyset.is_some())
        .collect();
    largest.sort_by_key(|filter| core::cmp::Reverse(filter.items));
    largest.truncate(MAX_KEYSETS * NoteKind::ALL.len());
    let labels = |filter: &&nutfilter_mint::FilterStatus| {
        let keyset = filter.keyset.as_ref().map_or("", |keyset| keyset.as_str());
        format!(
            "keyset=\"{keyset}\",kind=\"{}\",active=\"{}\"",
            filter.kind, filter.active
        )
    };
    text.metric(
        "keyset_items",
        GAUGE,
        "Notes in a filter; the 50 keysets with the most notes have this and the next",
        largest
            .iter()
            .map(|filter| (labels(filter), filter.items as f64)),
    );
    let dated = largest.iter().filter_map(|filter| {
        let object = monitor.table().get(&filter.path)?;
        Some((labels(filter), object.date() as f64))
    });
    text.metric(
        "keyset_timestamp_seconds",
        GAUGE,
        "Timestamp of a filter (Unix time)",
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
