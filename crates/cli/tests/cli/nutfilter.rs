//! Runs the binary; shared code of its tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::nutfilter;

/// A directory of its own for each test, in which commands run.
pub(crate) struct Place {
    directory: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    /// What was run, for messages of failed tests.
    args: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).expect("a writable directory");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The names in the directory, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names_in(".")
    }

    pub(crate) fn names_in(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(name)).expect("a readable directory");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> =
            entries.map(|entry| name(entry).into_string().expect("UTF-8")).collect();
        names.sort_unstable();
        names
    }

    /// The command in this directory. Its arguments are separated by spaces.
    pub(crate) fn command(&self, args: impl AsRef<str>) -> Command {
        let mut command = nutfilter();
        command.args(args.as_ref().split_whitespace()).current_dir(self.root());
        command
    }

    pub(crate) fn run(&self, args: impl AsRef<str>) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs a command that must fail, with a message that contains `part`, which is returned.
    #[track_caller]
    pub(crate) fn fails(&self, args: impl AsRef<str>, part: impl AsRef<str>) -> String {
        self.run(args).error_with(part)
    }

    /// Runs commands that must fail. A line of the table has their arguments, `=>`, and a part of the message.
    #[track_caller]
    pub(crate) fn fail_each(&self, command: &str, table: &str) {
        for row in table.lines().filter(|row| !row.trim().is_empty()) {
            let (args, part) = row.split_once("=>").expect(row);
            self.fails(format!("{command} {args}"), part.trim());
        }
    }

    /// Runs the command with this standard input.
    pub(crate) fn run_with(&self, args: impl AsRef<str>, stdin: &[u8]) -> Ran {
        let mut child = self
            .command(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary");
        let mut pipe = child.stdin.take().expect("a pipe");
        let output = thread::scope(|scope| {
            // Write in another thread, so that neither end waits for the other. A command that ends without
            // reading its input is not an error.
            scope.spawn(move || {
                let _ = pipe.write_all(stdin);
            });
            child.wait_with_output().expect("an end")
        });
        Ran { args: args.as_ref().to_owned(), ..Ran::from(output) }
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            args: String::new(),
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).expect("messages in UTF-8"),
        }
    }
}

impl Ran {
    /// Standard output of a command that must succeed.
    pub(crate) fn ok(self) -> Vec<u8> {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }

    /// As [`Ran::ok`], for text.
    pub(crate) fn text(self) -> String {
        String::from_utf8(self.ok()).expect("text")
    }

    /// As [`Ran::ok`], for JSON.
    pub(crate) fn json(self) -> Value {
        serde_json::from_slice(&self.ok()).expect("JSON")
    }

    /// The message of a command that must fail and print nothing else.
    #[track_caller]
    pub(crate) fn error(self) -> String {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert_eq!(String::from_utf8_lossy(&self.stdout), "", "an error with output");
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        assert!(!self.stderr.is_empty(), "an error without a word");
        self.stderr
    }

    /// As [`Ran::error`], for a message that must contain `part`.
    #[track_caller]
    pub(crate) fn error_with(self, part: impl AsRef<str>) -> String {
        let (args, part) = (self.args.clone(), part.as_ref().to_owned());
        let error = self.error();
        assert!(error.contains(&part), "{args}: {error}does not contain {part:?}");
        error
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const_hex::encode(bytes)
}

/// 33 bytes, different for each number.
pub(crate) fn item(number: u32) -> [u8; 33] {
    let mut item = [3; 33];
    item[29..].copy_from_slice(&number.to_be_bytes());
    item
}

/// One hex line for each item of a range.
pub(crate) fn lines(numbers: std::ops::Range<u32>) -> String {
    numbers.map(|number| hex(&item(number)) + "\n").collect()
}

#[track_caller]
pub(crate) fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in: {text}");
}
