//! The limits of a server, each with its reason. Each can be configured.

use std::time::Duration;

/// Maximum number of open connections. A thousand wallets need far fewer; this many idle ones take some tens of
/// MiB. A further connection is accepted and closed at once. Its client, perhaps a proxy, can then retry now or
/// elsewhere. In the backlog it would wait without notice.
pub const MAX_CONNECTIONS: usize = 4_096;

/// Time limit for a request's head. It starts when the connection opens or when the previous answer is sent. It
/// covers the whole head, so sending one byte a second does not help. Idle connections end after the same time.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for a TLS handshake, which takes a few round trips.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time in which a peer must take at least one byte while there is data to send. A slow reader is honest; one that
/// takes nothing for so long is gone. A proxy that does not buffer takes nothing while its own system holds up to 4 MB
/// for a client: at 20 kB/s for minutes.
pub const WRITE_WINDOW: Duration = Duration::from_secs(300);

/// Bytes that the system may hold unsent for a peer. By default it takes up to 4 MB at once, and a peer that reads
/// 20 kB/s then seems to take nothing for minutes.
pub const MAX_UNSENT: u32 = 128 << 10;

/// Maximum length of a request's head, in bytes. A browser sends 2 KB, or 8 KB with large cookies.
pub const MAX_HEAD: usize = 16 << 10;

/// Maximum number of request headers. A browser sends about 20, and proxies add some.
pub const MAX_HEADERS: usize = 64;

/// Maximum number of open requests on an HTTP/2 connection: the minimum that the protocol recommends.
pub const MAX_STREAMS: u32 = 100;

/// Maximum number of HTTP/2 streams that were reset before they were handled. Browsers cancel a few at a time.
pub const MAX_RESET_STREAMS: usize = 20;

/// Maximum number of HTTP/2 streams of a connection that may be reset because of protocol errors of the peer.
pub const MAX_ERROR_RESETS: usize = 100;

/// Interval of HTTP/2 pings while requests are open.
pub const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Time limit for the answer to a ping.
pub const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for open requests to finish after the shutdown signal. Service managers kill after some tens of seconds,
/// and sending a filter takes less.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// The limits of a server. The defaults are the constants of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerOptions {
    /// See [`MAX_CONNECTIONS`]. Applies to all listeners together. Each connection takes a file descriptor.
    pub max_connections: usize,
    /// See [`HEAD_TIMEOUT`].
    pub head_timeout: Duration,
    /// See [`HANDSHAKE_TIMEOUT`].
    pub handshake_timeout: Duration,
    /// See [`WRITE_WINDOW`].
    pub write_window: Duration,
    /// See [`MAX_HEAD`]. At least 8 KiB.
    pub max_head: usize,
    /// See [`MAX_HEADERS`]. Applies to HTTP/1 only; HTTP/2 is limited by length.
    pub max_headers: usize,
    /// See [`MAX_STREAMS`].
    pub max_streams: u32,
    /// See [`PING_INTERVAL`].
    pub ping_interval: Duration,
    /// See [`PING_TIMEOUT`].
    pub ping_timeout: Duration,
    /// See [`SHUTDOWN_GRACE`].
    pub shutdown_grace: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            max_connections: MAX_CONNECTIONS,
            head_timeout: HEAD_TIMEOUT,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            write_window: WRITE_WINDOW,
            max_head: MAX_HEAD,
            max_headers: MAX_HEADERS,
            max_streams: MAX_STREAMS,
            ping_interval: PING_INTERVAL,
            ping_timeout: PING_TIMEOUT,
            shutdown_grace: SHUTDOWN_GRACE,
        }
    }
}
