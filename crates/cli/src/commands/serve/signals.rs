//! The signals that control a service.

use std::future::Future;

use crate::error::CliError;

/// Ready at the `nth` ctrl-c or SIGTERM. Both are caught from now on, even if the future is never awaited.
#[cfg(unix)]
pub(crate) fn stop_signal(nth: u32) -> Result<impl Future<Output = ()> + Send + 'static, CliError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        for _ in 0..nth {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
    })
}

/// Ready at the `nth` ctrl-c.
#[cfg(not(unix))]
pub(crate) fn stop_signal(nth: u32) -> Result<impl Future<Output = ()> + Send + 'static, CliError> {
    Ok(async move {
        for _ in 0..nth {
            // An error means that the signal does not exist on this system.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    })
}

/// SIGHUP, caught from now on. Uncaught, it would end the process.
pub(super) struct Hangup {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangup {
    pub(super) fn new() -> Result<Self, CliError> {
        Ok(Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?,
        })
    }

    /// Ready at the next SIGHUP.
    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        if self.signal.recv().await.is_some() {
            return;
        }
        std::future::pending::<()>().await;
    }
}
