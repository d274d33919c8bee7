//! Runs the binary; shared code of its tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

/// A directory of its own for each test, in which commands run.
pub(crate) struct Place {
    directory: TempDir,
}

/// Arguments of the command: a line of words, or a list of which some have spaces.
pub(crate) trait Arguments {
    fn list(&self) -> Vec<&str>;
}

impl Arguments for str {
    fn list(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Arguments for String {
    fn list(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl<T: Arguments + ?Sized> Arguments for &T {
    fn list(&self) -> Vec<&str> {
        (**self).list()
    }
}

impl<const N: usize> Arguments for [&str; N] {
    fn list(&self) -> Vec<&str> {
        self.to_vec()
    }
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
        Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).expect("a writable directory");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The names in the directory, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).expect("a readable directory");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().expect("UTF-8"))
            .collect();
        names.sort_unstable();
        names
    }

    /// The command in this directory, without variables of the tester's environment.
    pub(crate) fn command(&self, args: impl Arguments) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nutfilter"));
        command
            .args(args.list())
            .current_dir(self.directory.path())
            .env_clear();
        command
    }

    pub(crate) fn run(&self, args: impl Arguments) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs a command that must fail, with a message that contains `part`, which is returned.
    #[track_caller]
    pub(crate) fn fails(&self, args: impl Arguments, part: impl AsRef<str>) -> String {
        self.run(args).error_with(part)
    }

    /// Runs the command with this standard input.
    pub(crate) fn run_with(&self, args: impl Arguments, stdin: &[u8]) -> Ran {
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
        let args = args.list().join(" ");
        Ran {
            args,
            ..Ran::from(output)
        }
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
        assert_eq!(
            String::from_utf8_lossy(&self.stdout),
            "",
            "an error with output"
        );
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        assert!(!self.stderr.is_empty(), "an error without a word");
        self.stderr
    }

    /// As [`Ran::error`], for a message that must contain `part`.
    #[track_caller]
    pub(crate) fn error_with(self, part: impl AsRef<str>) -> String {
        let (args, part) = (self.args.clone(), part.as_ref().to_owned());
        let error = self.error();
        assert!(
            error.contains(&part),
            "{args}: {error}does not contain {part:?}"
        );
        error
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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

/// The cases of a file of this repository's own vectors.
pub(crate) fn vectors(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/vectors")
        .join(name);
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).expect("JSON")
}

#[track_caller]
pub(crate) fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in: {text}");
}
