//! `nutfilter serve`, as an operator starts and stops it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nutfilter_mint::Kind;
use nutfilter_mint::sample::Sample;

/// What `serve` listens to in the environment.
const VARIABLES: [&str; 6] = [
    "MINT_DATABASE",
    "MINT_TYPE",
    "MINT_API",
    "SERVER_HOST",
    "SERVER_PORT",
    "LOG_LEVEL",
];

/// The command without anything from the environment that it listens to.
fn nutfilter() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nutfilter"));
    for name in VARIABLES {
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
    /// What was in the log before it listened.
    seen: String,
}

impl Server {
    /// Waits until the first filters are built.
    fn start(command: &mut Command) -> Self {
        let mut server = Self::start_unready(command);
        server.wait_for("ready");
        server
    }

    /// Waits until it listens.
    fn start_unready(command: &mut Command) -> Self {
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
            seen: String::new(),
        };
        let seen = server.wait_for("listening on ");
        let line = seen.lines().last().unwrap();
        let base = line
            .split_once("http://")
            .unwrap()
            .1
            .split(',')
            .next()
            .unwrap();
        server.base = format!("http://{base}");
        server.seen = seen;
        server
    }

    /// Everything up to the line with `what` in it.
    fn wait_for(&mut self, what: &str) -> String {
        let mut seen = String::new();
        loop {
            let start = seen.len();
            assert!(
                self.log.read_line(&mut seen).unwrap() > 0,
                "`{what}` is not in the log:\n{seen}"
            );
            if seen[start..].contains(what) {
                return seen.trim_end().to_owned();
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
        kill(&server.child, signal);
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
    let cases: [(&[&str], &str); 13] = [
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
            &["--mint-database", "mysql://mint:secret@db/mint"],
            "mysql: is no database",
        ),
        (
            &["--mint-database", "sqlite://mint:secret@db/mint"],
            "no user or password",
        ),
        (
            &["--mint-database", database, "--log-level", "foo"],
            "[possible values: error, warn, info, debug, trace]",
        ),
        (
            &["--mint-database", database, "--log-level", "warn,axum=off"],
            "--log-level",
        ),
        (
            &["--mint-database", database, "--log-level", ""],
            "--log-level",
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

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let mut command = nutfilter();
    command.envs(VARIABLES.map(|name| (name, "")));
    let message = failure(command.arg("serve"));
    assert!(
        message.contains("required arguments were not provided")
            && message.contains("--mint-database"),
        "{message}"
    );
    // All the others have a default; only the port may be taken, and is not left to it.
    command
        .env("MINT_DATABASE", directory.path())
        .args(["--port", "0"]);
    let server = Server::start(&mut command);
    assert!(
        server.base.starts_with("http://127.0.0.1:"),
        "{}",
        server.base
    );
    assert_eq!(server.get("/v1/keysets").0, "HTTP/1.1 200 OK");
}

#[test]
fn words_of_the_environment_may_be_in_any_case() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    for (mint_type, level) in [("CDK", "WARNING"), ("Cdk", "Warn"), ("cdk", "INFO")] {
        let mut server = Server::start_unready(
            nutfilter()
                .args(["serve", "--listen", "127.0.0.1:0"])
                .env("MINT_DATABASE", directory.path())
                .env("MINT_TYPE", mint_type)
                .env("LOG_LEVEL", level),
        );
        assert!(
            server.seen.contains("nobody has the database open"),
            "{level} warns: {}",
            server.seen
        );
        // At the level `info`, and at it alone, the refresh is told of.
        let until_ready = server.wait_for("ready");
        assert_eq!(
            until_ready.contains("published"),
            level == "INFO",
            "{until_ready}"
        );
    }
}

#[test]
fn a_copy_without_its_wal_file_is_warned_of_by_build_too() {
    let directory = tempfile::tempdir().unwrap();
    let sample = sample(directory.path());
    let build = |more: &[&str]| {
        let output = nutfilter()
            .args(["build", "--kind", "spent", "--keyset"])
            .arg(sample.keyset.as_str())
            .args(["--mint-database".as_ref(), directory.path()])
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success());
        assert!(nutfilter::FilterResponse::from_json(&output.stdout).is_ok());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = build(&[]);
    assert!(
        said.contains("WARN") && said.contains("its -wal file is not visible here"),
        "{said}"
    );
    assert_eq!(build(&["--quiet"]), "");
}

/// The sample with another text in place of its only keyset's id, throughout the file.
fn sample_of_no_keyset(directory: &Path) -> Sample {
    let sample = sample(directory);
    let path = directory.join("cdk-mintd.sqlite");
    let mut bytes = std::fs::read(&path).unwrap();
    let id = sample.keyset.as_str().as_bytes();
    let places: Vec<usize> = (0..bytes.len() - id.len())
        .filter(|&at| bytes[at..].starts_with(id))
        .collect();
    for at in places {
        bytes[at..at + id.len()].copy_from_slice(b"this is no id at");
    }
    std::fs::write(&path, bytes).unwrap();
    sample
}

#[test]
fn ids_that_are_none_are_told_of_by_build_too() {
    let directory = tempfile::tempdir().unwrap();
    let sample = sample_of_no_keyset(directory.path());
    let said = failure(
        nutfilter()
            .args(["build", "--kind", "spent", "--keyset"])
            .arg(sample.keyset.as_str())
            .args(["--mint-database".as_ref(), directory.path()]),
    );
    assert!(
        said.contains("no keyset ids") && said.contains("this is no id at"),
        "{said}"
    );
}

#[test]
fn ids_that_are_none_are_told_of_once_and_not_at_every_refresh() {
    let directory = tempfile::tempdir().unwrap();
    sample_of_no_keyset(directory.path());
    let mut server = Server::start_unready(
        nutfilter()
            .args(["serve", "--listen", "127.0.0.1:0", "--refresh", "1"])
            .args(["--mint-database".as_ref(), directory.path()]),
    );
    let mut said = server.seen.clone();
    for _ in 0..2 {
        said += &server.wait_for("published");
    }
    assert_eq!(said.matches("no keyset ids").count(), 1, "{said}");
}

#[cfg(unix)]
#[test]
fn a_second_signal_does_not_wait_for_requests_under_way() {
    let directory = tempfile::tempdir().unwrap();
    let sample = sample(directory.path());
    let mut server = Server::start(
        nutfilter()
            .args(["serve", "--listen", "127.0.0.1:0", "--mint-database"])
            .arg(directory.path()),
    );
    // Somebody asks for more than a connection can hold, and does not read it.
    let address = server.base.strip_prefix("http://").unwrap();
    let mut stuck = TcpStream::connect(address).unwrap();
    stuck.set_nonblocking(true).unwrap();
    let request = format!(
        "GET /v1/filter/spent/{} HTTP/1.1\r\nhost: mint\r\n\r\n",
        sample.keyset
    );
    let requests = request.repeat(300_000);
    let (mut sent, mut progress) = (0, Instant::now());
    while progress.elapsed() < Duration::from_millis(500) {
        assert!(sent < requests.len(), "the server still reads");
        match stuck.write(&requests.as_bytes()[sent..]) {
            Ok(more) => (sent, progress) = (sent + more, Instant::now()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }

    let start = Instant::now();
    kill(&server.child, "-TERM");
    server.wait_for("waiting up to 10 s for requests under way");
    std::thread::sleep(Duration::from_millis(300));
    assert!(server.child.try_wait().unwrap().is_none(), "it waits");
    kill(&server.child, "-INT");
    server.wait_for("stopped at the second signal");
    assert_eq!(server.child.wait().unwrap().code(), Some(2));
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
}

#[cfg(unix)]
fn kill(child: &Child, signal: &str) {
    let id = child.id().to_string();
    let status = Command::new("kill").args([signal, &id]).status();
    assert!(status.unwrap().success());
}

/// A mint whose files are somebody else's, or are closed to us.
#[cfg(unix)]
mod closed_to_us {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;

    use super::*;

    /// What `nobody` is on most systems.
    const NOBODY: u32 = 65_534;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// What `serve` ends with, for a user to whom no file is opened against its mode.
    fn refusal(directory: &Path, database: &Path) -> String {
        let mut command = nutfilter();
        if fs::metadata(directory).unwrap().uid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        failure(
            command
                .args(["serve", "--listen", "127.0.0.1:0", "--mint-database"])
                .arg(database),
        )
    }

    #[test]
    fn the_file_that_may_not_be_read_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let mint = root.join("mint");
        fs::create_dir(&mint).unwrap();
        sample(&mint);
        let database = mint.join("cdk-mintd.sqlite");
        let (wal, shm) = (
            mint.join("cdk-mintd.sqlite-wal"),
            mint.join("cdk-mintd.sqlite-shm"),
        );
        set_mode(root, 0o755);
        let denied = |path: &Path| format!("{}: Permission denied", path.display());

        set_mode(&mint, 0o000);
        for given in [&mint, &database] {
            let said = refusal(root, given);
            assert!(said.contains("Permission denied"), "{said}");
            assert!(!said.contains("databases of known names"), "{said}");
        }
        set_mode(&mint, 0o555);
        set_mode(&database, 0o000);
        let said = refusal(root, &mint);
        assert!(said.contains(&denied(&database)), "{said}");
        set_mode(&database, 0o444);

        set_mode(&mint, 0o755);
        for file in [&wal, &shm] {
            fs::write(file, "").unwrap();
        }
        set_mode(&mint, 0o555);
        for file in [&wal, &shm] {
            set_mode(&wal, 0o444);
            set_mode(&shm, 0o444);
            set_mode(file, 0o000);
            let said = refusal(root, &mint);
            assert!(said.contains(&denied(file)), "{said}");
        }
        set_mode(&mint, 0o755);
        fs::remove_file(&shm).unwrap();
        set_mode(&mint, 0o555);
        let said = refusal(root, &mint);
        assert!(
            said.contains(&format!("{} is missing", shm.display())),
            "{said}"
        );
        set_mode(&mint, 0o755);
    }
}
