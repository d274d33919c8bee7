//! Putting a router on the network.

use core::future::Future;
use core::pin::pin;
use std::io;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long requests under way may take to end after the shutdown signal: service managers kill after
/// some tens of seconds, and a filter is sent in less.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// Serves until `shutdown` is ready, then lets the requests under way end, within 10 s.
///
/// # Errors
///
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (began, begins) = oneshot::channel();
    let signal = async move {
        shutdown.await;
        // An error would mean that the server is gone already.
        let _ = began.send(());
    };
    let server = axum::serve(listener, router).with_graceful_shutdown(signal);
    let mut server = pin!(server.into_future());
    tokio::select! {
        result = &mut server => return result,
        _ = begins => {}
    }
    tracing::info!(
        "waiting up to {} s for requests under way",
        SHUTDOWN_GRACE.as_secs()
    );
    match timeout(SHUTDOWN_GRACE, server).await {
        Ok(result) => result,
        Err(_) => {
            tracing::warn!("some requests did not end in time and are cut");
            Ok(())
        }
    }
}
