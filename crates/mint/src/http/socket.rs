//! The socket of a connection, and what passes through it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use super::activity::Activity;

/// A socket of either kind.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// A socket that tells what it takes and gives.
#[derive(Debug)]
pub(super) struct Watched {
    socket: Socket,
    activity: Arc<Activity>,
}

impl Watched {
    pub(super) fn new(socket: Socket, activity: Arc<Activity>) -> Self {
        Self { socket, activity }
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

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(unix)]
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
