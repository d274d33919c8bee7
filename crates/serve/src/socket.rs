//! A connection on which the system sends a file itself, without a copy in this process (`sendfile`).
//!
//! A body is bytes to hyper. So the body of a file is pieces of one static block, which stand for the file that the
//! connection's task sends at the time: hyper counts them, and the socket sends so much of the file in their place. Nothing
//! is ever read from the block. Without this connection, as below another server, pieces are read into memory.

use core::cell::RefCell;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use futures_util::stream::{self, Stream};
use rustix::io::ReadWriteFlags;
use rustix::net::SendFlags;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// So much is sent at once, as by other servers.
const PIECE: u64 = 2 << 20;

/// Bytes of a file that the system may hold unsent. They are not copied for a client, and with the limit of other answers a
/// file takes 2.5 times as long. A client that takes half of it in the time limit, at 3.5 kB/s, is not cut.
const MAX_UNSENT: u32 = 2 << 20;

/// Memory that is never touched, so the system never gives it.
static BLOCK: LazyLock<&[u8]> = LazyLock::new(|| vec![0; PIECE as usize].leak());

tokio::task_local! {
    /// The part of a file that this connection still has to send. One answer ends before the next one begins.
    static SENDS: RefCell<Option<(Arc<File>, Range<u64>)>>;
}

/// Runs a connection that can send files.
pub(crate) fn with_files<F: Future>(connection: F) -> impl Future<Output = F::Output> {
    SENDS.scope(RefCell::new(None), connection)
}

/// Whether this task is such a connection.
pub(crate) fn sends_files() -> bool {
    SENDS.try_with(|_| ()).is_ok()
}

/// The body of a file: the system has each piece in memory before it is sent, so that the socket waits for no disk.
pub(crate) fn pieces(file: File, length: u64) -> impl Stream<Item = io::Result<Bytes>> {
    let file = Arc::new(file);
    stream::try_unfold(0, move |at| {
        let file = Arc::clone(&file);
        async move {
            let next = (length - at).min(PIECE);
            if next == 0 {
                return Ok(None);
            }
            if ![at, at + next - 1].iter().all(|&at| is_cached(&file, at)) {
                let file = Arc::clone(&file);
                tokio::task::spawn_blocking(move || load(&file, at..at + next)).await??;
            }
            if at == 0 {
                SENDS.with(|sends| *sends.borrow_mut() = Some((file, 0..length)));
            }
            Ok(Some((Bytes::from_static(&BLOCK[..next as usize]), at + next)))
        }
    })
}

/// Whether the system has a page of a file in memory.
fn is_cached(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let parts = &mut [io::IoSliceMut::new(&mut byte)];
    rustix::io::preadv2(file, parts, at, ReadWriteFlags::NOWAIT).is_ok_and(|read| read == 1)
}

fn load(file: &File, mut part: Range<u64>) -> io::Result<()> {
    let mut room = vec![0; 32 << 10];
    while !part.is_empty() {
        match file.read_at(&mut room, part.start)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => part.start += read as u64,
        }
    }
    Ok(())
}

#[derive(Debug)]
pub(crate) struct Socket(pub(crate) TcpStream);

fn is_file(bytes: &[u8]) -> bool {
    BLOCK.as_ptr_range().contains(&bytes.as_ptr())
}

impl Socket {
    fn poll_io(
        &self,
        context: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_io(Interest::WRITABLE, || write(&self.0)) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_file(&self, context: &mut Context<'_>, length: usize) -> Poll<io::Result<usize>> {
        self.poll_io(context, |socket| {
            SENDS.with(|sends| {
                let mut sends = sends.borrow_mut();
                let Some((file, rest)) = &mut *sends else {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                };
                if rest.start == 0 {
                    SockRef::from(socket).set_tcp_notsent_lowat(MAX_UNSENT)?;
                }
                let sent = rustix::fs::sendfile(socket, file, Some(&mut rest.start), length)?;
                if rest.is_empty() {
                    *sends = None;
                }
                match sent {
                    // Somebody cut the file.
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    sent => Ok(sent),
                }
            })
        })
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match is_file(bytes) {
            true => self.poll_file(context, bytes.len()),
            false => Pin::new(&mut self.0).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match parts.iter().position(|part| is_file(part)) {
            None => Pin::new(&mut self.0).poll_write_vectored(context, parts),
            Some(0) => self.poll_file(context, parts[0].len()),
            // The head goes into one packet with the beginning of the file.
            Some(_) => self.poll_io(context, |socket| {
                Ok(rustix::net::send(socket, &parts[0], SendFlags::MORE | SendFlags::NOSIGNAL)?)
            }),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, room)
    }
}
