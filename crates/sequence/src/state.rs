//! The state file: JSON in one line, and its SHA-256 in hex in a second one.

use std::io;
use std::path::Path;

use data_encoding::HEXLOWER;
use nutfilter::segment::Universe;
use nutfilter_cashu::state_filters::Event;
use nutfilter_cashu::state_filters::manifest::{Hash, hash};
use serde::{Deserialize, Serialize};

use crate::blocks::RecordedBlocks;
use crate::error::{Error, at};
use crate::sequence::Options;

const VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    version: u32,
    kind: String,
    pub(crate) states: Vec<String>,
    pub(crate) universe: u32,
    /// The number of times that this file was replaced.
    pub(crate) commits: u64,
    pub(crate) manifest: Option<RecordedManifest>,
    /// Segments that were merged and are still listed.
    pub(crate) retired: Vec<Retired>,
    pub(crate) blocks: Option<RecordedBlocks>,
    /// The number of reported events that are published.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) reported: u64,
}

/// A state without reported events has the bytes that it had before there were any.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RecordedManifest {
    pub(crate) number: u64,
    pub(crate) sha256: Hash,
}

/// A segment that leaves the manifest some time after its merge.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Retired {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// When it leaves the manifest, in Unix seconds.
    pub(crate) until: u64,
}

impl State {
    pub(crate) fn new(
        kind: Event,
        states: &[&'static str],
        universe: u32,
        blocks: Option<RecordedBlocks>,
    ) -> Self {
        Self {
            version: VERSION,
            kind: kind.to_string(),
            states: states.iter().map(|&state| state.to_owned()).collect(),
            universe,
            commits: 0,
            manifest: None,
            retired: vec![],
            blocks,
            reported: 0,
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Strings and numbers: this cannot fail.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        let sum = hash(&bytes);
        bytes.push(b'\n');
        bytes.extend(HEXLOWER.encode(&sum).bytes().chain([b'\n']));
        bytes
    }

    /// Reads the state of a sequence, which must be of this kind; `None` if there is no file.
    pub(crate) fn read(path: &Path, kind: Option<Event>) -> Result<Option<Self>, Error> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(at(path))?,
        };
        let state = Self::parse(&bytes).map_err(|what| Error::damaged(path, what))?;
        if state.version != VERSION {
            return Err(Error::differs(path, "version", state.version, VERSION));
        }
        if let Some(kind) = kind.filter(|kind| state.kind != kind.as_str()) {
            return Err(Error::differs(path, "kind", state.kind, kind));
        }
        Ok(Some(state))
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let json = bytes
            .split(|&byte| byte == b'\n')
            .next()
            .unwrap_or_default();
        let state: Self =
            serde_json::from_slice(json).map_err(|_| "the state file is malformed")?;
        match state.to_bytes() == bytes {
            true => Ok(state),
            false => Err("the state file has another checksum"),
        }
    }

    /// The options of the sequence; `None` if a kind, a state or a width is unknown.
    pub(crate) fn options(&self) -> Option<Options> {
        let kind = Event::from_name(&self.kind)?;
        let states = self.states.iter().map(|state| {
            let mut known = kind.states().iter();
            known.find(|known| *known == state).copied()
        });
        let universe = Universe::new(self.universe).ok()?;
        let mut options = Options::new(kind, &states.collect::<Option<Vec<_>>>()?, universe);
        options.blocks = self.blocks.as_ref().map(RecordedBlocks::options);
        Some(options)
    }
}
