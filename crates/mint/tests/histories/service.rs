//! The service that is tried: a refresher in this process, or the program that `NUTFILTER_BINARY` names, which is killed at any
//! moment, and is stopped (`SIGSTOP`) while the database changes, so that it reads when a history says.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nutfilter_cashu::FilterResponse;
use nutfilter_mint::source::{DatabaseLocation, open};
use nutfilter_mint::{FilterState, Loss, MintType, Monitor, NoteKind, RefreshOptions, Refresher};
use nutfilter_objects::Table;

use crate::world::{KEYSETS, seconds};

/// How long a refresh of a few rows may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the last reading was whole, by kind; `None` where it failed.
pub(crate) type Whole = [Option<bool>; 2];

pub(crate) enum Service {
    InProcess(Box<Refresher>),
    Program(Box<Program>),
}

impl Service {
    pub(crate) fn start(location: &str, mint: MintType, output: &Path, accepted: &[Loss]) -> Self {
        if let Some(binary) = std::env::var_os("NUTFILTER_BINARY") {
            let mut command = Command::new(binary);
            for name in ["BINARY", "HISTORIES", "POSTGRES"] {
                command.env_remove(format!("NUTFILTER_{name}"));
            }
            let losses =
                accepted.iter().flat_map(|loss| ["--accept-loss".to_owned(), loss.to_string()]);
            command.args("serve --quiet --refresh 1 --mint-type".split(' '));
            command.arg(mint.as_str()).args(losses);
            command.arg("--mint-database").arg(location);
            command.arg("--output").arg(output);
            return Self::Program(Box::new(Program::new(command)));
        }
        let check = |path: &str, text: &[u8]| match path.starts_with("v1/filter/") {
            true => FilterResponse::from_json(text)
                .map(|response| ("application/json", response.timestamp))
                .map_err(|error| error.to_string()),
            false => Ok(("application/json", 0)),
        };
        let table = Table::in_directory(output, 0o644, check).unwrap();
        let monitor = Monitor::new(Arc::new(table));
        let mut options = RefreshOptions::default();
        options.accepted = accepted.to_vec();
        let source = open(&DatabaseLocation::parse(location).unwrap(), Some(mint)).unwrap();
        Self::InProcess(Box::new(Refresher::new(source, monitor, options)))
    }

    /// Refreshes. An error says why nothing could be read.
    pub(crate) fn refresh(&mut self, whole: bool) -> Result<Whole, String> {
        match self {
            Self::InProcess(refresher) => match refresher.refresh(whole) {
                Ok(report) => Ok(report.whole),
                Err(error) => Err(error.to_string()),
            },
            Self::Program(program) => program.refresh(whole),
        }
    }

    pub(crate) fn held(&self) -> Vec<Loss> {
        match self {
            Self::InProcess(refresher) => refresher.monitor().status().held,
            Self::Program(program) => {
                let held = program.health["held"].as_array().cloned().unwrap_or_default();
                held.iter().map(|loss| loss.as_str().unwrap().parse().unwrap()).collect()
            }
        }
    }

    /// `None` if no filter has that path.
    pub(crate) fn state(&self, path: &str) -> Option<FilterState> {
        match self {
            Self::InProcess(refresher) => {
                let status = refresher.monitor().status();
                Some(status.filters.iter().find(|filter| filter.path == *path)?.state)
            }
            Self::Program(program) => {
                let other = program.health["not_current"][path].as_str();
                let current = program.bodies.contains_key(path).then_some(FilterState::Current);
                let named =
                    |word| FilterState::ALL.into_iter().find(|state| state.as_str() == word);
                other.map_or(current, named)
            }
        }
    }

    /// What is served at a path.
    pub(crate) fn body(&self, path: &str) -> Option<Vec<u8>> {
        match self {
            Self::InProcess(refresher) => {
                let opened = refresher.monitor().table().open(path, false).unwrap();
                opened.map(|(_, opened)| opened.read().unwrap())
            }
            Self::Program(program) => program.bodies.get(path).cloned(),
        }
    }

    /// Whether it was killed at a moment that nobody knows, so that it may have read and published more than it told.
    pub(crate) fn end(self, moment: Duration) -> bool {
        match self {
            Self::InProcess(_) => false,
            Self::Program(program) => program.kill(moment),
        }
    }
}

/// The program, which is stopped but for a refresh.
pub(crate) struct Program {
    command: Command,
    child: Option<Child>,
    port: u16,
    /// The refreshes that were counted, the readings of everything by kind, and the seconds that refreshes took.
    counts: [f64; 4],
    health: serde_json::Value,
    bodies: BTreeMap<String, Vec<u8>>,
}

impl Program {
    /// It begins to read at once, so it starts at the first refresh.
    fn new(mut command: Command) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        command.args(["--listen", &format!("127.0.0.1:{port}")]).stderr(Stdio::inherit());
        let (health, bodies) = (serde_json::Value::Null, BTreeMap::new());
        Self { command, child: None, port, counts: [0.0; 4], health, bodies }
    }

    fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            let done = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
            assert!(done.unwrap().success());
        }
    }

    fn refresh(&mut self, whole: bool) -> Result<Whole, String> {
        if self.child.is_none() {
            self.child = Some(self.command.spawn().unwrap());
        } else if whole {
            self.signal("HUP");
        }
        let (start, before) = (Instant::now(), self.counts);
        let is_done = |counts: &[f64; 4]| {
            let read = [1, 2].map(|kind| counts[kind] > before[kind]);
            !whole || read == [true; 2] || counts[0] > before[0] + 2.0
        };
        // It must be stopped before the next refresh begins: that would hold locks, and know nothing of what comes meanwhile. Refreshes
        // begin at full seconds, so it is stopped in a second in which the last one was seen not to have ended.
        let (mut last, mut undone) = (before, seconds());
        self.signal("CONT");
        loop {
            loop {
                let (now, counts) = (seconds(), self.count());
                if counts[0] > last[0] && is_done(&counts) {
                    break;
                }
                undone = now;
                assert!(start.elapsed() < PATIENCE, "no refresh: {counts:?} after {before:?}");
                let ended = self.child.as_mut().unwrap().try_wait().unwrap();
                assert!(ended.is_none(), "the service ended: {ended:?}");
                std::thread::sleep(Duration::from_millis(3));
            }
            self.look();
            let counts = self.count();
            self.signal("STOP");
            let took = counts[3] - last[3];
            last = counts;
            if undone == seconds() && took < 1.0 {
                self.counts = counts;
                break;
            }
            self.signal("CONT");
        }
        match self.health["status"].as_str() {
            Some("ok" | "degraded") => {
                Ok([1, 2].map(|kind| Some(self.counts[kind] > before[kind])))
            }
            _ => Err(self.health["reason"].to_string()),
        }
    }

    /// Takes what it serves.
    fn look(&mut self) {
        self.health = serde_json::from_slice(&self.get("health").unwrap()).unwrap();
        let body = |path: String| self.get(&path).map(|body| (path, body));
        self.bodies = paths().into_iter().flatten().filter_map(body).collect();
    }

    fn count(&self) -> [f64; 4] {
        let text = self.get("metrics").unwrap_or_default();
        let text = String::from_utf8(text).unwrap();
        let sum = |name: &str| {
            let lines = text.lines().filter(|line| line.starts_with(name));
            lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
        };
        [
            sum("nutfilter_refreshes_total{"),
            sum("nutfilter_whole_readings_total{kind=\"spent\""),
            sum("nutfilter_whole_readings_total{kind=\"issued\""),
            sum("nutfilter_refresh_duration_seconds_total "),
        ]
    }

    /// The body of an answer with status 200.
    fn get(&self, path: &str) -> Option<Vec<u8>> {
        let answer = ureq::get(format!("http://127.0.0.1:{}/{path}", self.port)).call();
        answer.ok()?.body_mut().read_to_vec().ok()
    }

    fn kill(mut self, moment: Duration) -> bool {
        let was_there = self.child.is_some();
        self.signal("CONT");
        std::thread::sleep(moment);
        self.end();
        was_there
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// The paths of all filters, by kind and keyset.
pub(crate) fn paths() -> [[String; 4]; 2] {
    NoteKind::ALL.map(|kind| KEYSETS.map(|keyset| format!("v1/filter/{kind}/{keyset}")))
}
