//! The metrics of the filters, in the text format of Prometheus.

use std::fmt::Write as _;
use std::time::Duration;

use crate::NoteKind;
use crate::site::{now, word};
use crate::status::{FilterState, FilterStatus, Monitor};

/// The keysets with metrics of their own. A mint has a few; the ones with the most notes count.
const MAX_KEYSETS: usize = 50;

/// One metric after the other.
#[derive(Default)]
struct Text(String);

/// The type of a metric.
const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

impl Text {
    /// Adds a metric with its values, each with its labels, such as `kind="spent"`.
    fn metric<L: AsRef<str>>(
        &mut self,
        of: &str,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, f64)>,
    ) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.0,
            "# HELP nutfilter_{name} {help}\n# TYPE nutfilter_{name} {of}"
        );
        for (labels, value) in values {
            let _ = match labels.as_ref() {
                "" => writeln!(self.0, "nutfilter_{name} {value}"),
                labels => writeln!(self.0, "nutfilter_{name}{{{labels}}} {value}"),
            };
        }
    }

    fn one(&mut self, of: &str, name: &str, help: &str, value: f64) {
        self.metric(of, name, help, [("", value)]);
    }

    fn by_kind(&mut self, of: &str, name: &str, help: &str, value: impl Fn(NoteKind) -> f64) {
        let values = NoteKind::ALL.map(|kind| (format!("kind=\"{kind}\""), value(kind)));
        self.metric(of, name, help, values);
    }
}

/// All metrics as text.
// Exact up to 2^53, far above any number of notes.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn text(monitor: &Monitor, is_ready: bool, interval: Duration) -> String {
    let (status, mut text) = (monitor.status(), Text::default());
    let help = "1 if the last reading is recent enough and every filter can be sent, otherwise 0";
    text.one(GAUGE, "ready", help, f64::from(u8::from(is_ready)));
    let words = ["starting", "ok", "degraded", "failing"].map(|one| {
        let is = one == word(&status);
        (format!("status=\"{one}\""), f64::from(u8::from(is)))
    });
    let help = "1 for the current status, 0 for the others";
    text.metric(GAUGE, "status", help, words);
    let filters = &status.filters;
    let of = |kind| filters.iter().filter(move |filter| filter.kind == kind);
    let date = |filter: &FilterStatus| Some(monitor.table().get(&filter.path)?.date());
    let keysets = of(NoteKind::Spent).count() as f64;
    text.one(GAUGE, "keysets", "Number of keysets served", keysets);
    text.by_kind(GAUGE, "items", "Notes in the served filters", |kind| {
        of(kind).map(|filter| filter.items).sum::<u64>() as f64
    });
    let help = "Rows not readable since the last whole reading; the filters of their keysets stay as they are";
    text.by_kind(GAUGE, "unreadable_rows", help, |kind| {
        status.unreadable[kind as usize] as f64
    });
    let help = "Interval of refreshes";
    let seconds = interval.as_secs_f64();
    text.one(GAUGE, "refresh_interval_seconds", help, seconds);
    let name = "last_refresh_timestamp_seconds";
    let help = "Start of the last refresh that succeeded (Unix time)";
    text.one(GAUGE, name, help, status.refreshed as f64);
    if let Some(oldest) = filters.iter().filter_map(date).min() {
        let help = "Timestamp of the oldest filter (Unix time)";
        text.one(
            GAUGE,
            "oldest_filter_timestamp_seconds",
            help,
            oldest as f64,
        );
    }
    let latest = filters.iter().filter_map(date).max().unwrap_or(0);
    let help = "Seconds by which a filter is dated after the clock";
    let behind = latest.saturating_sub(now()) as f64;
    text.one(GAUGE, "clock_behind_seconds", help, behind);
    let results = ["ok", "partial", "failed"].map(|one| format!("result=\"{one}\""));
    let counts = results.into_iter().zip(status.refreshes.map(|n| n as f64));
    let help = "Refreshes by their result";
    text.metric(COUNTER, "refreshes_total", help, counts);
    let help = "Seconds that refreshes have taken, including failed ones";
    text.one(
        COUNTER,
        "refresh_duration_seconds_total",
        help,
        status.seconds,
    );
    let read = NoteKind::ALL.iter().flat_map(|kind| {
        let [whole, new] = status.read[*kind as usize];
        [("whole", whole), ("new", new)].map(|(reading, items)| {
            let labels = format!("kind=\"{kind}\",reading=\"{reading}\"");
            (labels, items as f64)
        })
    });
    let help = "Items read, by whole readings and by others";
    text.metric(COUNTER, "items_read_total", help, read);
    let help = "Readings of everything";
    let readings = status.whole_readings.iter().map(|((kind, reason), count)| {
        (
            format!("kind=\"{kind}\",reason=\"{reason}\""),
            *count as f64,
        )
    });
    text.metric(COUNTER, "whole_readings_total", help, readings);
    let help = "Items that a whole reading did not find again";
    text.one(COUNTER, "items_lost_total", help, status.items_lost as f64);
    let help = "Items that the last whole readings did not find; the filters keep them";
    text.one(GAUGE, "items_gone", help, status.items_gone as f64);
    let states = FilterState::ALL.map(|state| {
        let count = filters
            .iter()
            .filter(|filter| filter.state == state)
            .count();
        (format!("state=\"{}\"", state.as_str()), count as f64)
    });
    let help = "Filters by their state: as new as the last reading, or why not";
    text.metric(GAUGE, "filters", help, states);
    let help = "Published filters that could not be compared with the database at the start";
    text.one(
        GAUGE,
        "filters_not_compared",
        help,
        status.not_compared.len() as f64,
    );
    let help = "Rows without a valid keyset; they count in every filter of their kind";
    text.by_kind(GAUGE, "rows_without_keyset", help, |kind| {
        status.without_keyset[kind as usize] as f64
    });
    let help = "1 if no mint has had the database open for an hour, or its log is not visible here";
    text.one(
        GAUGE,
        "database_alone",
        help,
        f64::from(u8::from(status.alone)),
    );
    let help = "Filters withdrawn because the clock was set back";
    text.one(COUNTER, "withdrawn_total", help, status.withdrawn as f64);
    let help = "Failed fetches of the mint's info";
    let failures = status.info_failures as f64;
    text.one(COUNTER, "info_failures_total", help, failures);
    let named = filters.iter().filter(|filter| filter.keyset.is_some());
    let mut largest: Vec<_> = named.collect();
    largest.sort_by_key(|filter| core::cmp::Reverse(filter.items));
    largest.truncate(MAX_KEYSETS * NoteKind::ALL.len());
    let labels = |filter: &FilterStatus| {
        let keyset = filter.keyset.as_ref().map_or("", |keyset| keyset.as_str());
        let (kind, active) = (filter.kind, filter.active);
        format!("keyset=\"{keyset}\",kind=\"{kind}\",active=\"{active}\"")
    };
    let items = largest.iter().map(|one| (labels(one), one.items as f64));
    let help = "Notes in a filter; the 50 keysets with the most notes have this and the next";
    text.metric(GAUGE, "keyset_items", help, items);
    let dated = largest.iter();
    let dated = dated.filter_map(|one| Some((labels(one), date(one)? as f64)));
    let help = "Timestamp of a filter (Unix time)";
    text.metric(GAUGE, "keyset_timestamp_seconds", help, dated);
    text.0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nutfilter_objects::Table;

    use super::*;

    #[test]
    fn counters_are_0_before_the_first_event() {
        let monitor = Monitor::new(Arc::new(Table::in_memory()));
        let text = text(&monitor, false, Duration::from_secs(60));
        for line in [
            "nutfilter_items_lost_total 0",
            "nutfilter_items_read_total{kind=\"spent\",reading=\"new\"} 0",
            "nutfilter_refreshes_total{result=\"failed\"} 0",
            "nutfilter_info_failures_total 0",
            "nutfilter_status{status=\"starting\"} 1",
            "nutfilter_keysets 0",
            "nutfilter_ready 0",
            "nutfilter_refresh_interval_seconds 60",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
