//! The socket of a connection, and what passes through it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::time::{Sleep, sleep};

use super::activity::Activity;

/// A socket of either kind.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// How long, and for how many bytes, a peer is listened to after the last word to it. To close a socket
/// with something unread in it is to reset it, and then the peer may lose the answer that says why its
/// request was refused.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 << 10;

/// A socket that tells what it takes and gives.
#[derive(Debug)]
pub(super) struct Watched {
    socket: Socket,
    activity: Arc<Activity>,
    linger: Option<Linger>,
}

/// What is left of the time and the bytes after the last word.
#[derive(Debug)]
struct Linger {
    end: Pin<Box<Sleep>>,
    bytes: usize,
}

impl Watched {
    pub(super) fn new(socket: Socket, activity: Arc<Activity>) -> Self {
        Self {
            socket,
            activity,
            linger: None,
        }
    }

    fn took(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        if let Ok(bytes) = written {
            self.activity.wrote(bytes);
        }
        Poll::Ready(written)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.activity.is_aborted() {
            return;
        }
        // Otherwise the system would keep for minutes what the peer has not taken in all its time. If this
        // fails the connection is gone already.
        if let Socket::Tcp(stream) = &self.socket {
            let _ = stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = match &mut this.socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            #[cfg(unix)]
            Socket::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        this.activity.read(buffer.filled().len() - before);
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(match &mut this.socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(unix)]
            Socket::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        });
        this.took(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(match &mut this.socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            #[cfg(unix)]
            Socket::Unix(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        });
        this.took(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Tcp(stream) => stream.is_write_vectored(),
            #[cfg(unix)]
            Socket::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(unix)]
            Socket::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    /// Ready when the peer has ended its side too, or has had its time.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.linger.is_none() {
            ready!(match &mut this.socket {
                Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
                #[cfg(unix)]
                Socket::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            })?;
        }
        let linger = this.linger.get_or_insert_with(|| Linger {
            end: Box::pin(sleep(LINGER)),
            bytes: LINGER_BYTES,
        });
        while linger.bytes > 0 && linger.end.as_mut().poll(context).is_pending() {
            let mut room = [0; 4 << 10];
            let mut unread = ReadBuf::new(&mut room);
            let read = ready!(match &mut this.socket {
                Socket::Tcp(stream) => Pin::new(stream).poll_read(context, &mut unread),
                #[cfg(unix)]
                Socket::Unix(stream) => Pin::new(stream).poll_read(context, &mut unread),
            });
            let length = unread.filled().len();
            if read.is_err() || length == 0 {
                break;
            }
            linger.bytes = linger.bytes.saturating_sub(length);
        }
        Poll::Ready(Ok(()))
    }
}
