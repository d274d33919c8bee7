//! What a server puts up with. Each limit has a reason, and each can be set.

use std::time::Duration;

/// How many connections are held at once. A thousand wallets are served with far fewer; this many idle ones
/// cost some tens of MiB. One more is accepted and closed at once: its client, which may be a proxy, learns
/// now that it has to try again or elsewhere, where in the backlog it would wait without a word.
pub const MAX_CONNECTIONS: usize = 4_096;

/// Time for a request's head, from the moment in which the connection is open or the answer before it is
/// sent: for all of it, so that a byte a second does not help. Idle connections end after the same time.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a TLS handshake, which takes a few round trips.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time in which a peer has to take [`WRITE_LEAST`] while there is something to send to it.
pub const WRITE_WINDOW: Duration = Duration::from_secs(10);

/// What a peer has to take in each [`WRITE_WINDOW`], in bytes: 6.5 KB a second, less than any line that
/// still brings a filter of some MB in the time for which a wallet waits.
pub const WRITE_LEAST: u64 = 64 << 10;

/// The longest head, in bytes: a browser's has 2 KB, one with large cookies 8.
pub const MAX_HEAD: usize = 16 << 10;

/// How many headers a request may have: a browser sends about 20, proxies add some.
pub const MAX_HEADERS: usize = 64;

/// How many requests an HTTP/2 connection may have open: the least that the protocol recommends.
pub const MAX_STREAMS: u32 = 100;

/// How many streams of an HTTP/2 connection may have been opened and reset before they were looked at.
/// Browsers cancel a few at a time.
pub const MAX_RESET_STREAMS: usize = 20;

/// How many streams of an HTTP/2 connection may have been reset for errors of the peer.
pub const MAX_ERROR_RESETS: usize = 100;

/// How often the peer of an HTTP/2 connection is asked whether it is still there, while it has requests open.
pub const PING_INTERVAL: Duration = Duration::from_secs(20);

/// How long it may take to say so.
pub const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long requests under way may take to end after the shutdown signal: service managers kill after
/// some tens of seconds, and a filter is sent in less.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// The limits of a server; the default is the constants of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerOptions {
    /// See [`MAX_CONNECTIONS`]. For all listeners together. Each connection is a file descriptor.
    pub max_connections: usize,
    /// See [`HEAD_TIMEOUT`].
    pub head_timeout: Duration,
    /// See [`HANDSHAKE_TIMEOUT`].
    pub handshake_timeout: Duration,
    /// See [`WRITE_WINDOW`].
    pub write_window: Duration,
    /// See [`WRITE_LEAST`].
    pub write_least: u64,
    /// See [`MAX_HEAD`]. Not less than 8 KiB.
    pub max_head: usize,
    /// See [`MAX_HEADERS`]. For HTTP/1; over HTTP/2 the length limits them.
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
            write_least: WRITE_LEAST,
            max_head: MAX_HEAD,
            max_headers: MAX_HEADERS,
            max_streams: MAX_STREAMS,
            ping_interval: PING_INTERVAL,
            ping_timeout: PING_TIMEOUT,
            shutdown_grace: SHUTDOWN_GRACE,
        }
    }
}
