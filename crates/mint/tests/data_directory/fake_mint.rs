//! A simulated mint: a file with one line per past state.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use nutfilter::{Params, SortedHashes};
use nutfilter_mint::source::{
    ItemBatch, ItemSink, KeysetInfo, Keysets, MintSource, Reading, SourceError, Watermark,
};
use nutfilter_mint::{FilterService, KeysetId, NoteKind, Snapshot};
use nutfilter_reference::Noise;

pub(crate) const KEYSETS: [&str; 3] = ["009a1f293253e41e", "00ad268c4d1f5826", "I2yN+iR/fkzT"];

/// The state of the mint: for each keyset and kind, the length of a prefix of a sequence of notes. Each restored
/// backup starts another sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) epoch: u64,
    pub(crate) counts: [[u64; 2]; 3],
}

impl State {
    fn to_line(self) -> String {
        let counts = self.counts.as_flattened().iter();
        let counts: Vec<String> = counts.map(u64::to_string).collect();
        format!("{} {}\n", self.epoch, counts.join(" "))
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut numbers = line.split(' ').map(|number| number.parse().ok());
        let mut state = Self {
            epoch: numbers.next()??,
            ..Self::default()
        };
        for count in state.counts.as_flattened_mut() {
            *count = numbers.next()??;
        }
        Some(state)
    }

    /// The notes of one keyset and kind.
    pub(crate) fn notes(self, keyset: usize, kind: NoteKind) -> impl Iterator<Item = [u8; 33]> {
        let stream = self.epoch << 8 | (keyset as u64) << 1 | u64::from(kind == NoteKind::Issued);
        (0..self.counts[keyset][usize::from(kind == NoteKind::Issued)])
            .map(move |i| note(stream, i))
    }

    /// Describes a served filter that does not match this state.
    pub(crate) fn difference(
        self,
        snapshot: &Snapshot,
        keyset: usize,
        kind: NoteKind,
    ) -> Option<String> {
        let id: KeysetId = KEYSETS[keyset].parse().unwrap();
        let Some(served) = snapshot.keyset(&id).and_then(|entry| entry.filter(kind)) else {
            return Some(format!("no {kind} filter of {id}"));
        };
        let expected = SortedHashes::from_items(self.notes(keyset, kind));
        let expected = expected.encode(Params::CASHU).unwrap();
        (served.raw() != expected.bytes() || served.n() != expected.n()).then(|| {
            let (n, of, as_of) = (served.n(), expected.n(), served.timestamp());
            format!("{kind} of {id}: {n} notes where {of} are right, as of {as_of}")
        })
    }
}

/// 33 bytes that look like a point.
fn note(stream: u64, index: u64) -> [u8; 33] {
    let mut bytes = [2; 33];
    for (word, number) in bytes[1..]
        .chunks_exact_mut(8)
        .zip(Noise(stream << 40 | index << 2))
    {
        word.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// The mint. Its clock shows the number of its states so far.
#[derive(Clone, Debug)]
pub(crate) struct FakeMint {
    history: PathBuf,
}

impl FakeMint {
    pub(crate) fn in_directory(directory: &Path) -> Self {
        let history = directory.join("history");
        if !history.exists() {
            File::create(&history).unwrap();
        }
        Self { history }
    }

    /// All states so far. The last line may be truncated if its writer was killed.
    pub(crate) fn states(&self) -> Vec<State> {
        let text = fs::read_to_string(&self.history).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().filter_map(State::from_line).collect()
    }

    pub(crate) fn now(&self) -> u64 {
        self.states().len() as u64
    }

    pub(crate) fn push(&self, state: State) {
        let text = fs::read_to_string(&self.history).unwrap();
        let whole = text.rfind('\n').map_or(0, |end| end + 1) as u64;
        let mut file = OpenOptions::new().append(true).open(&self.history).unwrap();
        file.set_len(whole).unwrap();
        file.write_all(state.to_line().as_bytes()).unwrap();
    }

    /// The state after second `as_of` began.
    pub(crate) fn state_at(&self, as_of: u64) -> State {
        self.states()[as_of as usize - 1]
    }

    /// Compares a snapshot with the state of the time that it names.
    #[track_caller]
    pub(crate) fn assert_right(&self, service: &FilterService, what: &str) {
        let snapshot = service.snapshot().expect("something is served");
        let mut lies = vec![];
        for (keyset, id) in KEYSETS.iter().enumerate() {
            for kind in NoteKind::ALL {
                let id: KeysetId = id.parse().unwrap();
                let entry = snapshot.keyset(&id).and_then(|entry| entry.filter(kind));
                let Some(as_of) = entry.map(|filter| filter.timestamp()) else {
                    continue;
                };
                lies.extend(self.state_at(as_of).difference(&snapshot, keyset, kind));
            }
        }
        assert_eq!(lies, Vec::<String>::new(), "{what}");
    }
}

impl MintSource for FakeMint {
    fn mint(&self) -> &str {
        "mint"
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        let ids = KEYSETS.iter().map(|id| id.parse().unwrap());
        Ok(Keysets::of(ids.map(KeysetInfo::new)))
    }

    fn read(
        &mut self,
        kind: NoteKind,
        since: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        let now = *self.states().last().unwrap_or(&State::default());
        let since = since.map(|since| {
            State::from_line(core::str::from_utf8(since.as_bytes()).unwrap().trim()).unwrap()
        });
        if since.is_some_and(|since| since.epoch != now.epoch) {
            return Err(SourceError::RescanRequired("another epoch".to_owned()));
        }
        let since = since.unwrap_or_default();
        let (mut total, of_kind) = (0, usize::from(kind == NoteKind::Issued));
        for (keyset, id) in KEYSETS.iter().enumerate() {
            total += now.counts[keyset][of_kind];
            let mut batch = ItemBatch::new();
            for note in now
                .notes(keyset, kind)
                .skip(since.counts[keyset][of_kind] as usize)
            {
                batch.push(&note);
            }
            if !batch.is_empty() && sink.items(&id.parse().unwrap(), &batch).is_break() {
                return Err(SourceError::Stopped);
            }
        }
        let watermark = Watermark::new(now.to_line().into_bytes());
        Ok(Reading::until(watermark, total))
    }
}
