//! A mint, and a service for it.

use std::borrow::BorrowMut;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nutfilter_testing::Sample;

use crate::nutfilter::Place;

/// The command, without any configuring variables in its environment.
pub(crate) fn nutfilter() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nutfilter"));
    command.env_clear().env("RUST_BACKTRACE", "0");
    command
}

/// `serve` on a free port.
pub(crate) fn serve(options: &str) -> Command {
    let mut command = nutfilter();
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(options.split_whitespace());
    command
}

/// `serve` on a free port, for this database.
pub(crate) fn serve_from(database: &Path, options: &str) -> Command {
    let mut command = serve(options);
    command.arg("--mint-database").arg(database);
    command
}

/// A directory with the database of [`sample`].
pub(crate) fn mint() -> (Place, Sample) {
    let place = Place::new();
    let sample = sample(place.root());
    (place, sample)
}

/// Replaces that database with the one of another mint, which has one note more of each kind.
pub(crate) fn replace(place: &Place) -> Sample {
    let database = place.path("cdk-mintd.sqlite");
    std::fs::remove_file(&database).unwrap();
    let larger = Sample::new(301, 201);
    larger.write(&database).unwrap();
    larger
}

/// Writes a database with 300 spent and 200 issued notes, under its usual name.
pub(crate) fn sample(directory: &Path) -> Sample {
    let sample = Sample::new(300, 200);
    sample.write(&directory.join("cdk-mintd.sqlite")).unwrap();
    sample
}

/// Maximum wait for a line of the log, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running server, killed when dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    log: Receiver<String>,
    /// `http://ADDRESS`.
    pub(crate) base: String,
    /// The log before the service listened.
    pub(crate) seen: String,
    /// The log read so far.
    pub(crate) all: String,
}

impl Server {
    /// Starts `serve` for the mint in this directory, and waits until the first filters are built.
    pub(crate) fn of(mint: &Place, options: &str) -> Self {
        Self::start(serve_from(mint.root(), options))
    }

    /// Waits until the first filters are built.
    pub(crate) fn start(command: impl BorrowMut<Command>) -> Self {
        let mut server = Self::start_unready(command);
        server.wait_for("ready");
        server
    }

    /// Waits until the service listens.
    pub(crate) fn start_unready(command: impl BorrowMut<Command>) -> Self {
        let mut server = Self::watch(command);
        let seen = server.wait_for("listening on ");
        let (_, base) = seen.split_once("listening on ").unwrap();
        let end = base.find([' ', '"']).unwrap();
        server.base = base[..end].to_owned();
        server.seen = seen;
        server
    }

    /// Starts a process that need not listen.
    pub(crate) fn watch(mut command: impl BorrowMut<Command>) -> Self {
        let mut child = command
            .borrow_mut()
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (line, log) = mpsc::channel();
        // The thread ends with the process. A missing line fails the test with a message instead of hanging it.
        thread::spawn(move || {
            for text in stderr.lines() {
                let _ = line.send(text.unwrap() + "\n");
            }
        });
        Self { child, log, base: String::new(), seen: String::new(), all: String::new() }
    }

    /// Returns everything up to the line that contains `what`. Panics if it does not come in time.
    pub(crate) fn wait_for(&mut self, what: &str) -> String {
        let mut seen = String::new();
        loop {
            let line = match self.log.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(error) => panic!("`{what}` is not in the log ({error}):\n{seen}"),
            };
            self.all += &line;
            seen += &line;
            if line.contains(what) {
                return seen.trim_end().to_owned();
            }
        }
    }

    /// Waits for a line that may have come already.
    pub(crate) fn has_said(&mut self, what: &str) {
        if !self.all.contains(what) {
            self.wait_for(what);
        }
    }

    /// Makes the service reread everything. Returns the log of that.
    #[cfg(unix)]
    pub(crate) fn reread(&mut self) -> String {
        kill(&self.child, "-HUP");
        self.wait_for("refreshed")
    }

    /// Ends the service cleanly, and reads the log to its end.
    #[cfg(unix)]
    pub(crate) fn stop(&mut self) {
        kill(&self.child, "-TERM");
        self.wait_for("stopped");
        self.all.extend(self.log.iter());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }

    /// Status line and body.
    pub(crate) fn get(&self, path: &str) -> (String, String) {
        self.request(&format!("GET {path} HTTP/1.1"))
    }

    /// Waits until the status or the body of a path contains `part`, and returns the body.
    pub(crate) fn until(&self, path: &str, part: &str) -> String {
        let start = Instant::now();
        loop {
            let (status, body) = self.get(path);
            if status.contains(part) || body.contains(part) {
                return body;
            }
            assert!(start.elapsed() < PATIENCE, "no {part:?}: {status}, {body}");
        }
    }

    /// The answer to a request with this head.
    pub(crate) fn request(&self, head: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.base["http://".len()..]).unwrap();
        write!(stream, "{head}\r\nhost: mint\r\nconnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
pub(crate) fn kill(child: &Child, signal: &str) {
    let id = child.id().to_string();
    let status = Command::new("kill").args([signal, &id]).status();
    assert!(status.unwrap().success());
}
