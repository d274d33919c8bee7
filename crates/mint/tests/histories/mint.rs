//! A mint in a process of its own, so that it can be killed: this program again, which executes SQL.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

const DATABASE: &str = "NUTFILTER_TEST_MINT";

/// The test in which the child process runs.
pub(crate) const TEST: &str = "mint_process";

/// Executes lines from stdin, if this is the child process.
pub(crate) fn serve() {
    let Some(path) = std::env::var_os(DATABASE) else {
        return;
    };
    let mut connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA busy_timeout = 5000;",
        )
        .unwrap();
    println!("\nready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let done = match line.split_once(' ') {
            Some((".backup", to)) => {
                Connection::open(to).and_then(|mut to| copy(&connection, &mut to))
            }
            Some((".restore", from)) => {
                Connection::open(from).and_then(|from| copy(&from, &mut connection))
            }
            _ => connection.execute_batch(&line),
        };
        match done {
            Ok(()) => println!("ok"),
            Err(error) => println!("{error}"),
        }
    }
}

fn copy(from: &Connection, to: &mut Connection) -> rusqlite::Result<()> {
    Backup::new(from, to)?.run_to_completion(1000, Duration::ZERO, None)
}

/// A running mint.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(database: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
            .env(DATABASE, database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, input, output };
        while process.line() != "ready" {}
        process
    }

    pub(crate) fn run(&mut self, sql: &str) {
        assert!(!sql.contains('\n'));
        writeln!(self.input.as_mut().unwrap(), "{sql}").unwrap();
        let said = self.line();
        assert_eq!(said, "ok", "{sql}");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the mint ended");
        line.trim_end().to_owned()
    }

    /// Ends in order: closes the database.
    pub(crate) fn stop(mut self) {
        self.input = None;
        assert!(self.child.wait().unwrap().success());
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One of the files of a database.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
