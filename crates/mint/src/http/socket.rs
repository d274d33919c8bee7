//! The socket of a connection, with accounting of its bytes.

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

/// A TCP or Unix socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// How long, and for how many bytes, to read from a peer after the last answer. Closing a socket with unread data
/// resets it. The peer might then lose the answer that explains why its request was refused.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 << 10;

/// Number of bytes that a connection may write before it yields. On a fast line, a task never has to wait for its
/// peer. It would send one body after the other while the other connections wait.
const TURN: usize = 512 << 10;

/// A socket that records its bytes in [`Activity`].
#[derive(Debug)]
pub(super) struct Watched {
    socket: Socket,
    activity: Arc<Activity>,
    /// Bytes written in this turn.
    turn: usize,
    linger: Option<Linger>,
}

/// Remaining time and bytes after the last answer.
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
            turn: 0,
            linger: None,
        }
    }

    fn took(&mut self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        if let Ok(bytes) = written {
            self.activity.wrote(bytes);
            self.turn += bytes;
        }
        Poll::Ready(written)
    }

    /// Pending if the other connections have their turn. The task is then woken after them.
    fn poll_turn(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.turn < TURN {
            return Poll::Ready(());
        }
        self.turn = 0;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.activity.is_aborted() {
            return;
        }
        // Otherwise the system would keep the unsent data for minutes, although the peer was too slow. If this
        // fails, the connection is already gone.
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
        ready!(this.poll_turn(context));
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
        ready!(this.poll_turn(context));
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

    /// Ready when the peer has closed its side too, or when its time is over.
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

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read as _;
    use std::task::Waker;

    use super::*;

    #[tokio::test]
    async fn connection_yields_after_its_turn() {
        let (ours, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = UnixStream::from_std(ours).unwrap();
        socket.writable().await.unwrap();
        let activity = Activity::new();
        let mut watched = Watched::new(Socket::Unix(socket), activity);
        // `unconstrained` disables the runtime's own budget, which counts calls and not bytes.
        let turns = tokio::task::unconstrained(async move {
            let mut context = Context::from_waker(Waker::noop());
            let (mut turns, mut written) = (vec![], 0);
            let piece = vec![b'x'; 16 << 10];
            while turns.len() < 3 {
                match Pin::new(&mut watched).poll_write(&mut context, &piece) {
                    Poll::Ready(result) => {
                        // The peer reads everything at once, so the socket is never full.
                        let mut taken = vec![0; result.unwrap()];
                        peer.read_exact(&mut taken).unwrap();
                        written += taken.len();
                        assert!(written <= TURN, "{written} bytes in one turn");
                    }
                    Poll::Pending => turns.push(core::mem::take(&mut written)),
                }
            }
            turns
        });
        assert_eq!(turns.await, [TURN; 3]);
    }
}
