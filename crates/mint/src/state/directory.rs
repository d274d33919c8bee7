//! [`DataDirectory`]: sets that outlast the process.
//!
//! ```text
//! nutfilter-data.lock           one process at a time
//! spent.state, issued.state     what there is: see `manifest`
//! sets/KIND-ID-NUMBER           the hashes of one keyset and kind: see `file`
//! ```
//!
//! A reading adds new hashes to the files of the sets, and then replaces the state file. After a crash in between, the
//! sets are ahead of the state file. The next reading then returns these items again and finds them present. A full
//! reading creates new files, which become valid when the state file is replaced. Damaged state is discarded, logged,
//! and read again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use nutfilter::BuildError;
use nutfilter_files::make_directory;

use super::file::SetFile;
use super::manifest::{self, Recorded, RecordedSet};
use super::{KeysetHashes, KindSets};
use crate::metrics::METRICS;
use crate::source::KeysetInfo;
use crate::{KeysetId, NoteKind};

const LOCK: &str = "nutfilter-data.lock";
const SETS: &str = "sets";

/// A directory for the sets of a service. With it, a restart serves at once and reads only new items.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    /// Greater than the number of every existing set.
    next_number: u64,
    /// The sets that each state file names or may name. A restart needs them, even if newer sets exist. A kind has
    /// no entry until its state file was read or written.
    named: BTreeMap<NoteKind, Vec<String>>,
    /// Closing the file releases the lock.
    _lock: File,
}

/// Why sets could not be stored or encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another process uses the directory.
    #[error("{0}: data directory is in use by another process")]
    InUse(PathBuf),
    /// A file or directory could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A set cannot be encoded as a filter, or there is not enough memory.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A body could not be written.
    #[error("could not write data to serve: {0}")]
    Body(#[source] io::Error),
}

impl StateError {
    /// Whether a file is gone or unreadable. Then only a full reading helps.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, StateError::Io { source, .. } if nutfilter_files::is_lost(source))
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::Io { path, source }
}

impl DataDirectory {
    /// Opens and locks a directory. Creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// If it cannot be created, written to or locked, or if another process uses it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StateError> {
        let path = path.as_ref();
        let sets = path.join(SETS);
        make_directory(&sets).map_err(at(&sets))?;
        let lock_path = path.join(LOCK);
        let lock = nutfilter_files::lock(&lock_path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StateError::InUse(path.into()),
            _ => at(&lock_path)(error),
        })?;
        // A caller may never restore the existing sets. New sets must not overwrite them.
        let names = own_names(&sets).map_err(at(&sets))?;
        let latest = names.iter().filter_map(|name| number_of(name)).max();
        let mut directory = Self {
            path: path.into(),
            next_number: latest.map_or(0, |number| number.saturating_add(1)),
            named: BTreeMap::new(),
            _lock: lock,
        };
        for kind in NoteKind::ALL {
            if matches!(directory.state_path(kind).try_exists(), Ok(false)) {
                directory.named.insert(kind, vec![]);
            }
        }
        Ok(directory)
    }

    /// Whether the directory, or a part that is not created on demand, was removed.
    pub(crate) fn is_gone(&self) -> bool {
        let parts = [LOCK, SETS].map(|name| self.path.join(name));
        parts
            .iter()
            .any(|part| matches!(part.try_exists(), Ok(false)))
    }

    /// Creates the removed parts again.
    pub(crate) fn remake(&mut self) -> Result<(), StateError> {
        if matches!(self.path.join(LOCK).try_exists(), Ok(false)) {
            *self = Self::open(self.path.clone())?;
        }
        let sets = self.path.join(SETS);
        make_directory(&sets).map_err(at(&sets))
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The recorded sets of a kind, and the keysets listed at that time. If something is damaged or missing, only
    /// the intact sets are returned, without a watermark, so that everything is read again.
    pub(crate) fn restore(&mut self, kind: NoteKind) -> (KindSets, Vec<KeysetInfo>) {
        let mut state = KindSets::default();
        let path = self.state_path(kind);
        let recorded = match read_state(&path, kind) {
            Ok(Some(recorded)) => recorded,
            Ok(None) => return (state, vec![]),
            Err(reason) => {
                discard(&path, reason);
                return (state, vec![]);
            }
        };
        state.as_of = recorded.as_of;
        state.recorded = recorded.as_of;
        state.watermark = recorded.watermark;
        let named = recorded.sets.iter();
        let named = named.filter_map(|set| set.file.clone()).collect();
        self.named.insert(kind, named);
        for lost in recorded.lost {
            match KeysetId::parse(&lost) {
                Ok(keyset) => state.lose(&keyset),
                Err(_) => {
                    discard(&path, format!("invalid keyset id `{lost}`"));
                    return (KindSets::default(), vec![]);
                }
            }
        }
        for recorded in recorded.sets {
            let Ok(keyset) = KeysetId::parse(&recorded.keyset) else {
                discard(&path, format!("invalid keyset id `{}`", recorded.keyset));
                return (KindSets::default(), vec![]);
            };
            match self.restore_set(kind, &keyset, &recorded) {
                Ok(mut set) => {
                    // A set with later items keeps the date of its own commit.
                    if set.len() == recorded.items {
                        set.as_of = recorded.as_of;
                    }
                    state.sets.insert(keyset, set);
                }
                Err(reason) => {
                    state.lose(&keyset);
                    let name = recorded.file.unwrap_or_default();
                    discard(&self.path.join(SETS).join(name), reason);
                }
            }
        }
        (state, recorded.keysets)
    }

    fn restore_set(
        &self,
        kind: NoteKind,
        keyset: &KeysetId,
        recorded: &RecordedSet,
    ) -> Result<KeysetHashes, String> {
        let Some(name) = &recorded.file else {
            return Ok(KeysetHashes::default());
        };
        number_of(name).ok_or("invalid set name")?;
        let path = self.path.join(SETS).join(name);
        let read = SetFile::open(path, &label(kind, keyset));
        let (file, hashes, as_of) = read.map_err(|error| error.to_string())?;
        let (has, had) = (hashes.len() as u64, recorded.items);
        match has < had {
            true => Err(format!("has {has} intact items, expected {had}")),
            false => Ok(KeysetHashes::restored(file, hashes, as_of)),
        }
    }

    /// Adds hashes to the set of a keyset, and creates the set if necessary.
    pub(crate) fn add(
        &mut self,
        kind: NoteKind,
        keyset: &KeysetId,
        sets: &mut BTreeMap<KeysetId, KeysetHashes>,
        hashes: Vec<u64>,
        as_of: u64,
    ) -> Result<(), StateError> {
        let entry = sets.entry(keyset.clone());
        // Use the spelling that will be recorded: a file can only be opened under the name with which it was created.
        let keyset = entry.key().clone();
        let set = entry.or_default();
        if !set.has_file() && !hashes.is_empty() {
            set.set_file(self.create(kind, &keyset)?);
        }
        set.add(hashes, as_of)
    }

    /// Creates the file of an empty set.
    fn create(&mut self, kind: NoteKind, keyset: &KeysetId) -> Result<SetFile, StateError> {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        let id: String = keyset
            .as_str()
            .bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("{kind}-{id}-{number:08x}");
        let path = self.path.join(SETS).join(&name);
        SetFile::create(path.clone(), &label(kind, keyset)).map_err(at(&path))
    }

    /// Replaces the state file of a kind. From then on, a restart begins with this state.
    pub(crate) fn record(
        &mut self,
        kind: NoteKind,
        state: &KindSets,
        keysets: &[KeysetInfo],
    ) -> Result<(), StateError> {
        let sets = state.sets.iter().map(|(keyset, set)| RecordedSet {
            keyset: keyset.as_str().to_owned(),
            file: set.file_name().map(str::to_owned),
            as_of: set.as_of,
            items: set.len(),
        });
        let recorded = Recorded {
            as_of: state.as_of,
            watermark: state.watermark.clone(),
            sets: sets.collect(),
            lost: state.lost.iter().map(KeysetId::to_string).collect(),
            keysets: keysets.to_vec(),
        };
        let names = state.sets.values().filter_map(KeysetHashes::file_name);
        let names: Vec<String> = names.map(str::to_owned).collect();
        // After an error, either the old or the new sets may be valid.
        if let Some(named) = self.named.get_mut(&kind) {
            named.extend_from_slice(&names);
        }
        let path = self.state_path(kind);
        let new = path.with_extension("state.new");
        // The names of new sets must be durable before the file that names them. The file may contain notes.
        let synced = nutfilter_files::sync_directory(&self.path.join(SETS));
        let replaced =
            synced.and_then(|()| nutfilter_files::replace(&path, &new, &recorded.to_bytes(kind)));
        replaced.map_err(at(&path))?;
        self.named.insert(kind, names);
        Ok(())
    }

    /// Removes the files of sets that are not in use and that no state file names.
    pub(crate) fn remove_others<'a>(&self, kinds: impl Iterator<Item = &'a KindSets>) {
        let used: BTreeSet<&str> = kinds
            .flat_map(|state| state.sets.values())
            .filter_map(KeysetHashes::file_name)
            .chain(self.named.values().flatten().map(String::as_str))
            .collect();
        let sets = self.path.join(SETS);
        let names = own_names(&sets).unwrap_or_else(|error| {
            tracing::warn!(path = %sets.display(), %error, "could not list obsolete sets");
            vec![]
        });
        let is_known = |name: &str| self.named.keys().any(|kind| kind_of(name) == Some(*kind));
        for name in names {
            if used.contains(name.as_str()) || !is_known(&name) {
                continue;
            }
            let path = sets.join(name);
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "could not remove an obsolete set; \
                                                                retrying later");
            }
        }
    }

    fn state_path(&self, kind: NoteKind) -> PathBuf {
        self.path.join(format!("{kind}.state"))
    }
}

fn label(kind: NoteKind, keyset: &KeysetId) -> String {
    format!("{kind} {keyset}")
}

/// The number in the name of a set's file; `None` if the name is not that of a set.
fn number_of(name: &str) -> Option<u64> {
    let is_hex = |text: &str| text.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    kind_of(name)?;
    let (rest, number) = name.rsplit_once('-')?;
    let (_, id) = rest.split_once('-')?;
    let is_own = !id.is_empty() && is_hex(id) && number.len() >= 8 && is_hex(number);
    let number = u64::from_str_radix(number, 16).ok()?;
    is_own.then_some(number)
}

/// The kind in the name of a set's file.
fn kind_of(name: &str) -> Option<NoteKind> {
    let (kind, _) = name.split_once('-')?;
    NoteKind::ALL
        .into_iter()
        .find(|known| known.as_str() == kind)
}

/// The names in the directory of sets that are names of sets. Other entries are not ours.
fn own_names(sets: &Path) -> io::Result<Vec<String>> {
    let mut names = vec![];
    for entry in fs::read_dir(sets)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && number_of(&name).is_some()
            && entry.file_type()?.is_file()
        {
            names.push(name);
        }
    }
    Ok(names)
}

/// The contents of the state file; `None` if the file does not exist.
fn read_state(path: &Path, kind: NoteKind) -> Result<Option<Recorded>, String> {
    let mut bytes = vec![];
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
        Ok(file) => file
            .take(manifest::MAX_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|error| error.to_string())?,
    };
    let recorded = Recorded::from_bytes(&bytes, kind)?;
    Ok(Some(recorded))
}

fn discard(path: &Path, reason: String) {
    METRICS.data_discarded.inc();
    tracing::error!(
        path = %path.display(),
        reason,
        "discarding unusable state; rereading the full database"
    );
}
