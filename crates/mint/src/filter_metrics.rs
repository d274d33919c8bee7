//! The metrics of the filters, in the text format of Prometheus.

use std::fmt::Write as _;
use std::time::Duration;

use nutfilter_cashu::NoteKind;

use crate::status::{FilterState, FilterStatus, Monitor, Status};
use crate::status::{now, word};

/// The keysets with metrics of their own. A mint has a few; the ones with the most notes count.
const MAX_KEYSETS: usize = 50;

/// The type of a metric.
const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

/// A metric that is a number of the status: type, name, help, and value.
type Number = (&'static str, &'static str, &'static str, fn(&Status) -> f64);

#[rustfmt::skip]
// Exact up to 2^53, far above any number of notes.
#[allow(clippy::cast_precision_loss)]
const NUMBERS: [Number; 8] = [
    (GAUGE, "last_refresh_timestamp_seconds", "Start of the last refresh that succeeded (Unix time)", |status| status.refreshed as f64),
    (COUNTER, "refresh_duration_seconds_total", "Seconds that refreshes have taken, including failed ones", |status| status.seconds),
    (COUNTER, "items_lost_total", "Items that a whole reading did not find again", |status| status.items_lost as f64),
    (GAUGE, "items_gone", "Items that the last whole readings did not find; the filters keep them", |status| status.items_gone as f64),
    (GAUGE, "filters_not_compared", "Published filters that could not be compared with the database at the start", |status| status.not_compared.len() as f64),
    (GAUGE, "database_alone", "1 if no mint has had the database open for an hour, or its log is not visible here", |status| is(status.alone)),
    (COUNTER, "withdrawn_total", "Filters withdrawn because the clock was set back", |status| status.withdrawn as f64),
    (COUNTER, "info_failures_total", "Failed fetches of the mint's info", |status| status.info_failures as f64),
];

fn is(condition: bool) -> f64 {
    f64::from(u8::from(condition))
}

/// One metric after the other.
#[derive(Default)]
struct Text(String);

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
        let _ = writeln!(self.0, "# HELP nutfilter_{name} {help}\n# TYPE nutfilter_{name} {of}");
        for (labels, value) in values {
            let _ = match labels.as_ref() {
                "" => writeln!(self.0, "nutfilter_{name} {value}"),
                labels => writeln!(self.0, "nutfilter_{name}{{{labels}}} {value}"),
            };
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.metric(GAUGE, name, help, [("", value)]);
    }

    fn by_kind(&mut self, name: &str, help: &str, value: impl Fn(NoteKind) -> f64) {
        let values = NoteKind::ALL.map(|kind| (format!("kind=\"{kind}\""), value(kind)));
        self.metric(GAUGE, name, help, values);
    }
}

/// All metrics as text.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn text(monitor: &Monitor, is_ready: bool, interval: Duration) -> String {
    let (status, mut text) = (monitor.status(), Text::default());
    for (of, name, help, value) in NUMBERS {
        text.metric(of, name, help, [("", value(&status))]);
    }
    let help = "1 if the last reading is recent enough and every filter can be sent, otherwise 0";
    text.gauge("ready", help, is(is_ready));
    let words = ["starting", "ok", "degraded", "failing"];
    let words = words.map(|one| (format!("status=\"{one}\""), is(one == word(&status))));
    let help = "1 for the current status, 0 for the others";
    text.metric(GAUGE, "status", help, words);
    let filters = &status.filters;
    let of = |kind| filters.iter().filter(move |filter| filter.kind == kind);
    let date = |filter: &FilterStatus| Some(monitor.table().get(&filter.path)?.date());
    let keysets = of(NoteKind::Spent).count() as f64;
    text.gauge("keysets", "Number of keysets served", keysets);
    text.by_kind("items", "Notes in the served filters", |kind| {
        of(kind).map(|filter| filter.items).sum::<u64>() as f64
    });
    let help = "Rows not readable since the last whole reading; the filters of their keysets stay as they are";
    text.by_kind("unreadable_rows", help, |kind| status.unreadable[kind as usize] as f64);
    let help = "Rows without a valid keyset; they count in every filter of their kind";
    text.by_kind("rows_without_keyset", help, |kind| status.without_keyset[kind as usize] as f64);
    let (help, seconds) = ("Interval of refreshes", interval.as_secs_f64());
    text.gauge("refresh_interval_seconds", help, seconds);
    if let Some(oldest) = filters.iter().filter_map(date).min() {
        let help = "Timestamp of the oldest filter (Unix time)";
        text.gauge("oldest_filter_timestamp_seconds", help, oldest as f64);
    }
    let latest = filters.iter().filter_map(date).max().unwrap_or(0);
    let help = "How far the newest filter's timestamp is ahead of the system clock, in seconds";
    let behind = latest.saturating_sub(now()) as f64;
    text.gauge("clock_behind_seconds", help, behind);
    let results = ["ok", "partial", "failed"].map(|one| format!("result=\"{one}\""));
    let counts = results.into_iter().zip(status.refreshes.map(|n| n as f64));
    let help = "Refreshes by their result";
    text.metric(COUNTER, "refreshes_total", help, counts);
    let read = NoteKind::ALL.iter().flat_map(|kind| {
        let readings = ["whole", "new"].into_iter().zip(status.read[*kind as usize]);
        readings.map(move |(reading, items)| {
            let labels = format!("kind=\"{kind}\",reading=\"{reading}\"");
            (labels, items as f64)
        })
    });
    let help = "Items read, by whole readings and by others";
    text.metric(COUNTER, "items_read_total", help, read);
    let readings = status.whole_readings.iter().map(|((kind, reason), count)| {
        let labels = format!("kind=\"{kind}\",reason=\"{reason}\"");
        (labels, *count as f64)
    });
    let help = "Readings of everything";
    text.metric(COUNTER, "whole_readings_total", help, readings);
    let states = FilterState::ALL.map(|state| {
        let count = filters.iter().filter(|one| one.state == state).count();
        (format!("state=\"{}\"", state.as_str()), count as f64)
    });
    let help = "Filters by their state: as new as the last reading, or why not";
    text.metric(GAUGE, "filters", help, states);
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
    let labels = |one: &FilterStatus| format!("{},state=\"{}\"", labels(one), one.state.as_str());
    let dated = dated.filter_map(|one| Some((labels(one), date(one)? as f64)));
    let help = "Timestamp of a filter (Unix time), with its state";
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
