//! `nutfilter serve`, as an operator starts and stops it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nutfilter_mint::Kind;
use nutfilter_mint::sample::Sample;

/// The command without anything from the environment that it listens to.
fn nutfilter() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nutfilter"));
    for name in [
        "MINT_DATABASE",
        "MINT_TYPE",
        "MINT_API",
        "SERVER_HOST",
        "SERVER_PORT",
        "LOG_LEVEL",
    ] {
        command.env_remove(name);
    }
    command
}

/// A database with 300 spent and 200 issued notes, under its usual name.
fn sample(directory: &Path) -> Sample {
    let sample = Sample::new(300, 200);
    sample
        .write(&directory.join("cdk-mintd.sqlite"), &mut |_| ())
        .unwrap();
    sample
}

/// A running server, killed when dropped.
struct Server {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    /// `http://ADDRESS/BASE`
    base: String,
}

impl Server {
    /// Waits until the first filters are built.
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut server = Self {
            child,
            log,
            base: String::new(),
        };
        let line = server.wait_for("listening on ");
        let base = line
            .split_once("http://")
            .unwrap()
            .1
            .split(',')
            .next()
            .unwrap();
        server.base = format!("http://{base}");
        server.wait_for("ready");
        server
    }

    fn wait_for(&mut self, what: &str) -> String {
        let mut seen = String::new();
        loop {
            let start = seen.len();
            assert!(
                self.log.read_line(&mut seen).unwrap() > 0,
                "`{what}` is not in the log:\n{seen}"
            );
            if seen[start..].contains(what) {
                return seen[start..].trim_end().to_owned();
            }
        }
    }

    /// Status line and body.
    fn get(&self, path: &str) -> (String, String) {
        let base = self.base.strip_prefix("http://").unwrap();
        let (address, base_path) = base.split_once('/').unwrap_or((base, ""));
        let slash = if base_path.is_empty() { "" } else { "/" };
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {slash}{base_path}{path} HTTP/1.1\r\nhost: mint\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
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

#[test]
fn the_filters_of_a_mint_are_served_under_the_base_path() {
    let directory = tempfile::tempdir().unwrap();
    let sample = sample(directory.path());
    let server = Server::start(
        nutfilter()
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--base-path",
                "/Bitcoin",
            ])
            .args(["--mint-database".as_ref(), directory.path()]),
    );
    assert!(server.base.ends_with("/Bitcoin"));
    for kind in Kind::ALL {
        let (status, body) = server.get(&format!("/v1/filter/{kind}/{}", sample.keyset));
        assert_eq!(status, "HTTP/1.1 200 OK");
        let response = nutfilter::FilterResponse::from_json(body.as_bytes()).unwrap();
        let filter = response.into_filter::<nutfilter::Nut25>().unwrap();
        assert_eq!(u64::from(filter.n()), sample.count(kind));
        let notes: Vec<_> = (0..sample.count(kind))
            .map(|index| sample.note(kind, index))
            .collect();
        assert!(filter.matches(&notes).iter().all(|&matched| matched));
    }
    let (_, health) = server.get("/health");
    let health: serde_json::Value = serde_json::from_str(&health).unwrap();
    assert_eq!(
        (&health["status"], &health["spent"]),
        (&"ok".into(), &300.into())
    );
    let (status, body) = server.get("/v1/filter/spent/00ffffffffffffff");
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert!(body.contains("12001"), "{body}");
    assert_eq!(server.get("/v1/keysets").0, "HTTP/1.1 200 OK");
}

#[test]
fn everything_may_come_from_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let server = Server::start(
        nutfilter()
            .arg("serve")
            .env("MINT_DATABASE", directory.path())
            .env("MINT_TYPE", "cdk")
            .env("MINT_API", "https://mint.example")
            .env("SERVER_HOST", "localhost")
            .env("SERVER_PORT", "0")
            .env("LOG_LEVEL", "error"),
    );
    // Left to the mint, which has an URL of its own.
    assert_eq!(server.get("/v1/keysets").0, "HTTP/1.1 404 Not Found");
    assert_eq!(server.get("/health").0, "HTTP/1.1 200 OK");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_in_good_order() {
    for signal in ["-TERM", "-INT"] {
        let directory = tempfile::tempdir().unwrap();
        sample(directory.path());
        let mut server = Server::start(
            nutfilter()
                .args(["serve", "--listen", "127.0.0.1:0", "--mint-database"])
                .arg(directory.path()),
        );
        // Somebody is connected and says nothing.
        let address = server.base.strip_prefix("http://").unwrap();
        let _idle = TcpStream::connect(address).unwrap();
        let id = server.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
        server.wait_for("stopped");
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{signal}");
    }
}

/// Runs to the end, which an error brings about.
fn failure(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(stdout.is_empty());
    String::from_utf8(stderr).unwrap()
}

#[test]
fn what_cannot_be_served_is_said_at_once() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let database = directory.path().to_str().unwrap();
    let missing = directory.path().join("missing.sqlite3");
    let missing = missing.to_str().unwrap();
    let cases: [(&[&str], &str); 8] = [
        (&[], "--mint-database"),
        (
            &["--mint-database", missing],
            "missing.sqlite3: there is no such database",
        ),
        (
            &["--mint-database", "postgres://mint:secret@db/mint"],
            "not yet supported",
        ),
        (
            &["--mint-database", database, "--mint-type", "nutshell"],
            "`proofs_used`",
        ),
        (
            &["--mint-database", database, "--mint-type", "other"],
            "possible values: cdk, nutshell",
        ),
        (
            &["--mint-database", database, "--base-path", "/{id}"],
            "`/{id}` is no base path",
        ),
        (
            &["--mint-database", database, "--mint-api", "mint.example"],
            "http:// or https://",
        ),
        (
            &["--mint-database", database, "--refresh", "0"],
            "--refresh",
        ),
    ];
    for (arguments, expected) in cases {
        let message = failure(nutfilter().arg("serve").args(arguments));
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files, 1, "nothing is made beside the database");
}
