//! The metrics of the process and of its connections, in the text format of Prometheus.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::TextEncoder;

/// When the process started.
static START: LazyLock<u64> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
});

/// Begins to count the time of the process.
pub(super) fn start() {
    LazyLock::force(&START);
}

/// What belongs to no filter.
pub(super) fn text() -> String {
    let counted = TextEncoder::new().encode_to_string(&prometheus::gather());
    format!(
        "# HELP nutfilter_build_info Always 1; the version is in its label\n# TYPE nutfilter_build_info gauge\n\
         nutfilter_build_info{{version=\"{}\"}} 1\n\
         # HELP nutfilter_start_time_seconds Unix time at which the process started\n\
         # TYPE nutfilter_start_time_seconds gauge\nnutfilter_start_time_seconds {}\n{}{}",
        env!("CARGO_PKG_VERSION"),
        *START,
        process().unwrap_or_default(),
        counted.unwrap_or_else(|error| format!("# {error}\n"))
    )
}

/// The CPU time and memory of this process, under their usual names. Only Linux tells them in a file.
fn process() -> Option<String> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may contain everything.
    let fields = stat.rsplit_once(") ")?.1.split_ascii_whitespace();
    let fields: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
    let (user, system) = (fields.get(11)?, fields.get(12)?);
    // In KiB.
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let resident: u64 = resident.split_whitespace().next()?.parse().ok()?;
    // Every Linux counts 100 ticks per second for programs.
    let seconds = Duration::from_millis((user + system) * 10).as_secs_f64();
    let bytes = resident << 10;
    Some(format!(
        "# HELP process_cpu_seconds_total CPU time of this process\n# TYPE process_cpu_seconds_total counter\n\
         process_cpu_seconds_total {seconds}\n\
         # HELP process_resident_memory_bytes Resident memory of this process\n\
         # TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes {bytes}\n"
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn process_is_measured_on_linux() {
        let text = super::text();
        assert!(text.contains("\nnutfilter_start_time_seconds 1"), "{text}");
        let is_linux = cfg!(target_os = "linux");
        assert_eq!(text.contains("\nprocess_resident_memory_bytes "), is_linux);
    }
}
