//! The metrics of the service, in the text format of Prometheus. The libraries count for themselves; the gauges here are set at
//! each scrape.

use std::time::{SystemTime, UNIX_EPOCH};

use nutfilter_mint::{FilterService, NoteKind, Status};
use prometheus::{
    Gauge, GaugeVec, TextEncoder, register_gauge, register_gauge_vec, register_int_gauge_vec,
};

use crate::error::CliError;

/// The keysets with metrics of their own. A mint has a few; the ones with the most notes count.
const MAX_KEYSETS: usize = 50;

/// The gauges of what is served.
pub(super) struct Metrics {
    status: GaugeVec,
    keysets: Gauge,
    keyset_items: GaugeVec,
    keyset_bytes: GaugeVec,
    keyset_timestamp: GaugeVec,
}

impl Metrics {
    /// Registers the metrics of the process.
    ///
    /// # Errors
    ///
    /// If the process has them already.
    pub(super) fn register() -> Result<Self, CliError> {
        let metrics = Self::registered().map_err(CliError::failed)?;
        nutfilter_mint::register_metrics();
        Ok(metrics)
    }

    fn registered() -> prometheus::Result<Self> {
        let version = env!("CARGO_PKG_VERSION");
        let help = "Always 1; the version is in its label";
        let build = register_int_gauge_vec!("nutfilter_build_info", help, &["version"])?;
        build.with_label_values(&[version]).set(1);
        let help = "Unix time at which the process started";
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        register_gauge!("nutfilter_start_time_seconds", help)?
            .set(now.unwrap_or_default().as_secs_f64());
        let by_keyset = |name, help| register_gauge_vec!(name, help, &["keyset", "kind", "active"]);
        Ok(Self {
            status: register_gauge_vec!(
                "nutfilter_status",
                "1 for the current status, 0 for the others",
                &["status"]
            )?,
            keysets: register_gauge!("nutfilter_keysets", "Number of keysets served")?,
            keyset_items: by_keyset(
                "nutfilter_keyset_items",
                "Notes in a filter; the 50 keysets with the most notes have this and the next two",
            )?,
            keyset_bytes: by_keyset("nutfilter_keyset_bytes", "Length of a filter, without JSON")?,
            keyset_timestamp: by_keyset(
                "nutfilter_keyset_timestamp_seconds",
                "Timestamp of a filter (Unix time)",
            )?,
        })
    }

    /// All metrics as text, with the current state of the service.
    // Exact up to 2^53, far above any number of notes.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn text(&self, service: &FilterService) -> String {
        let now = service.status();
        for status in [
            Status::Starting,
            Status::Ok,
            Status::Degraded,
            Status::Failing,
        ] {
            let is = if status == now { 1.0 } else { 0.0 };
            self.status.with_label_values(&[status.as_str()]).set(is);
        }
        let snapshot = service.snapshot();
        let keysets = snapshot.iter().flat_map(|snapshot| snapshot.keysets());
        let mut filters: Vec<_> = keysets
            .flat_map(|keyset| NoteKind::ALL.map(|kind| (keyset, kind, keyset.filter(kind))))
            .filter_map(|(keyset, kind, filter)| Some((keyset, kind, filter?)))
            .collect();
        let keysets = snapshot.as_ref().map_or(0, |one| one.keysets().len());
        self.keysets.set(keysets as f64);
        filters.sort_by_key(|(_, _, filter)| core::cmp::Reverse(filter.n()));
        filters.truncate(MAX_KEYSETS * NoteKind::ALL.len());
        // Those of vanished keysets vanish too.
        let by_keyset = [
            &self.keyset_items,
            &self.keyset_bytes,
            &self.keyset_timestamp,
        ];
        for gauge in by_keyset {
            gauge.reset();
        }
        for (keyset, kind, filter) in filters {
            let active = keyset.info.active.to_string();
            let labels = [keyset.info.id.as_str(), kind.as_str(), &active];
            let values = [
                u64::from(filter.n()),
                filter.filter_bytes() as u64,
                filter.timestamp(),
            ];
            for (gauge, value) in by_keyset.iter().zip(values) {
                gauge.with_label_values(&labels).set(value as f64);
            }
        }
        let text = TextEncoder::new().encode_to_string(&prometheus::gather());
        text.unwrap_or_else(|error| format!("# {error}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_0_before_the_first_event() {
        let metrics = Metrics::register().unwrap();
        let text = metrics.text(&FilterService::default());
        for line in [
            "nutfilter_shrunk_total{kind=\"spent\"} 0",
            "nutfilter_items_lost_total{kind=\"issued\"} 0",
            "nutfilter_items_read_total{kind=\"spent\",reading=\"new\"} 0",
            "nutfilter_refreshes_total{result=\"failed\"} 0",
            "nutfilter_data_discarded_total 0",
            "nutfilter_info_failures_total 0",
            "nutfilter_status{status=\"starting\"} 1",
            "nutfilter_keysets 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(metrics.text(&FilterService::default()), text);
    }
}
