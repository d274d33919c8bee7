//! A program that routes statements, like pgpool-II: it sends those of one kind to another server.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Its directory, for `host=`, at port 5432, and whether it has ended.
pub(crate) struct Router(tempfile::TempDir, Arc<AtomicBool>);

impl Router {
    /// Statements that contain a word go to the second one of two sockets, what begins or ends a transaction goes to both, and
    /// others to the first one.
    pub(crate) fn start(sockets: [PathBuf; 2], word: &'static str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join(".s.PGSQL.5432")).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&ended);
        thread::spawn(move || {
            let clients = listener.incoming();
            for client in clients.take_while(|_| !has_ended.load(Ordering::Relaxed)) {
                let (client, sockets) = (client.unwrap(), sockets.clone());
                thread::spawn(move || route(client, sockets, word));
            }
        });
        Self(directory, ended)
    }

    pub(crate) fn directory(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
        let _ = UnixStream::connect(self.0.path().join(".s.PGSQL.5432"));
    }
}

/// Ends with the connection.
fn route(mut client: UnixStream, sockets: [PathBuf; 2], word: &str) -> Option<()> {
    let mut servers = sockets.map(|socket| UnixStream::connect(socket).unwrap());
    let start = message(&mut client, 0)?;
    for (at, server) in servers.iter_mut().enumerate() {
        server.write_all(&start).ok()?;
        answer(server, (at == 0).then_some(&mut client))?;
    }
    // Messages up to a query, or to the end of a step of a prepared one, which stays where it was prepared.
    let (mut step, mut at_second) = (vec![], false);
    loop {
        let message = message(&mut client, 1)?;
        let text = String::from_utf8_lossy(&message);
        let both = text.contains("BEGIN ISO") || text.contains("COMMIT");
        if b"QP".contains(&message[0]) {
            at_second = text.contains(word);
        }
        let kind = message[0];
        step.extend(message);
        if !b"QS".contains(&kind) {
            continue;
        }
        for (at, server) in servers.iter_mut().enumerate() {
            if both || at_second == (at == 1) {
                server.write_all(&step).ok()?;
                answer(server, (!both || at == 0).then_some(&mut client))?;
            }
        }
        step.clear();
    }
}

/// A message behind a head of so many bytes and its length.
fn message(from: &mut UnixStream, head: usize) -> Option<Vec<u8>> {
    let mut message = vec![0; head + 4];
    from.read_exact(&mut message).ok()?;
    let length = u32::from_be_bytes(message[head..].try_into().unwrap());
    message.resize(head + length as usize, 0);
    from.read_exact(&mut message[head + 4..]).ok()?;
    Some(message)
}

/// Passes on all messages up to *ready for a query*.
fn answer(from: &mut UnixStream, mut to: Option<&mut UnixStream>) -> Option<()> {
    loop {
        let message = message(from, 1)?;
        if let Some(to) = &mut to {
            to.write_all(&message).ok()?;
        }
        if message[0] == b'Z' {
            return Some(());
        }
    }
}
