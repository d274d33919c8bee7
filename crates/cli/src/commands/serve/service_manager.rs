//! Notifies systemd, if it started this process. Failures are ignored, because the service must survive the manager.

use std::convert::Infallible;
use std::time::Duration;

/// Sends lines such as `READY=1`.
pub(super) fn tell(lines: &str) {
    #[cfg(unix)]
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Custom(lines)]) {
        tracing::debug!(%error, "could not notify the service manager");
    }
    #[cfg(not(unix))]
    let _ = lines;
}

/// Sends heartbeats, twice in each timeout of the manager's watchdog.
pub(super) async fn keep_alive() -> Infallible {
    let Some(timeout) = watchdog().filter(|timeout| !timeout.is_zero()) else {
        return std::future::pending().await;
    };
    loop {
        tell("WATCHDOG=1");
        tokio::time::sleep(timeout / 2).await;
    }
}

fn watchdog() -> Option<Duration> {
    #[cfg(unix)]
    return sd_notify::watchdog_enabled();
    #[cfg(not(unix))]
    None
}
