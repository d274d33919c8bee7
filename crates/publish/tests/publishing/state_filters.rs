//! Sequences of state filters, published and followed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
use nutfilter_mint::{
    DataDirectory, Event, FilterService, NotSuccessor, NoteKind, Object, Refresher,
    RefresherOptions, StateFilterOptions,
};
use nutfilter_publish::{Destination, PublishError, Report};
use nutfilter_sample::Sample;
use nutfilter_wallet::follow::{Follower, Progress, SequenceFormat};
use nutfilter_wallet::{MintClient, Policy};

use super::file_server::serve_files;
use super::support::{MemoryStore, now};

const KINDS: [Event; 2] = [Event::ProofState, Event::BlindSignature];

pub(crate) const READERS: [(Event, SequenceFormat); 3] = [
    (Event::ProofState, SequenceFormat::Segments),
    (Event::BlindSignature, SequenceFormat::Segments),
    (Event::BlindSignature, SequenceFormat::Blocks),
];

/// A mint's database with as many spent as issued notes, and data directories next to it.
pub(crate) struct Mint {
    directory: tempfile::TempDir,
    sample: Sample,
    time: u64,
}

impl Mint {
    /// With 30 notes of each kind: one block is sealed, and the next one is open.
    pub(crate) fn new() -> Self {
        let mint = Self {
            directory: tempfile::tempdir().unwrap(),
            sample: Sample::new(30, 30),
            // Within an hour, so that a minute later no segments are merged.
            time: (now() - 30 * 86_400) / 3_600 * 3_600 + 600,
        };
        mint.sample.write(&mint.path("db"), &mut |_| ()).unwrap();
        mint
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Lets time pass, and reads new notes of each kind into the data directory `data`.
    pub(crate) fn grow(&mut self, notes: u64, seconds: u64) {
        for kind in NoteKind::ALL {
            self.sample.grow(&self.path("db"), kind, notes).unwrap();
        }
        self.time += seconds;
        self.filters("data");
    }

    /// What is served of a data directory after a restart and a refresh.
    pub(crate) fn filters(&self, data: &str) -> Vec<Arc<[Object]>> {
        let service = FilterService::default();
        let time = UNIX_EPOCH + Duration::from_secs(self.time);
        let mut options = StateFilterOptions::new(&KINDS);
        // 22 events.
        options.block_width = 9;
        let data = DataDirectory::open(self.path(data)).unwrap();
        let options = RefresherOptions {
            data_directory: Some(data),
            state_filters: Some(options),
            clock: Some(Box::new(move || time)),
            ..RefresherOptions::default()
        };
        let source = SqliteSource::open(&DatabaseLocation::from(&*self.path("db")), None);
        let refresher = Refresher::with_options(source.unwrap(), service.clone(), options);
        let mut refresher = refresher.unwrap();
        refresher.restore();
        refresher.refresh().unwrap();
        let mut objects = service.objects();
        // The filters.
        objects.pop();
        objects
    }

    /// The indices of all notes.
    pub(crate) fn all(&self) -> BTreeSet<usize> {
        self.new_since(0)
    }

    pub(crate) fn new_since(&self, first: usize) -> BTreeSet<usize> {
        (first..self.sample.spent as usize).collect()
    }
}

pub(crate) fn publish(
    destination: &mut Destination,
    objects: &[Arc<[Object]>],
) -> Result<Report, PublishError> {
    let mut report = Report::default();
    for objects in objects {
        report.merge(destination.publish(objects)?);
    }
    Ok(report)
}

fn publish_to(store: &MemoryStore, filters: &[Arc<[Object]>]) -> Result<Report, PublishError> {
    publish(&mut Destination::new(store.clone()), filters)
}

/// A wallet that follows all notes.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    kind: Event,
    format: SequenceFormat,
    progress: Progress,
}

impl Reader {
    pub(crate) fn new(kind: Event, format: SequenceFormat) -> Self {
        let progress = Progress::default();
        Self {
            kind,
            format,
            progress,
        }
    }

    /// The notes that were found since the last time.
    pub(crate) fn follow(&mut self, url: &str, mint: &Mint) -> BTreeSet<usize> {
        let (notes, states) = match self.kind {
            Event::ProofState => (NoteKind::Spent, &["SPENT"][..]),
            _ => (NoteKind::Issued, &[][..]),
        };
        let count = mint.sample.count(notes);
        let ids: Vec<_> = (0..count)
            .map(|index| mint.sample.note(notes, index))
            .collect();
        let client = MintClient::new(url, Policy::default()).unwrap();
        let follower = Follower::new(client, self.kind, states, &ids).unwrap();
        let bookmark = self.progress.bookmark.clone();
        let plan = follower.plan(Some(self.format), None, bookmark.as_ref());
        let (plan, progress) = (plan.unwrap(), self.progress.clone());
        let mut found = BTreeSet::new();
        let progress = follower.run(&plan, progress, None, &mut |one| {
            found.insert(one.candidate);
        });
        self.progress = progress.unwrap();
        found
    }
}

#[test]
fn any_crash_leaves_the_old_or_the_new_sequence() {
    let (mut mint, store) = (Mint::new(), MemoryStore::default());
    publish_to(&store, &mint.filters("data")).unwrap();
    let (url, old) = (serve_files(store.clone()), store.contents());
    let mut readers = READERS.map(|(kind, format)| Reader::new(kind, format));
    for reader in &mut readers {
        assert_eq!(reader.follow(&url, &mint), mint.all(), "{reader:?}");
    }
    // Segments are merged. The open block is filled a little, and then folded when its week is over.
    mint.grow(2, 60);
    mint.grow(30, 8 * 86_400);
    let (new, filters) = (mint.new_since(30), mint.filters("data"));
    let puts = publish_to(&store, &filters).unwrap().written;
    assert!(puts > 10, "{puts}");
    for crash_at in 0..=puts {
        store.set_contents(old.clone());
        store.fail_at(crash_at);
        assert_eq!(publish_to(&store, &filters).is_err(), crash_at < puts);
        let mut readers = readers.clone();
        let mut found = Vec::new();
        for reader in &mut readers {
            let now = reader.follow(&url, &mint);
            let is_whole = now.is_empty() || now.is_superset(&new);
            // An open block is read again, so it may have more than its list says.
            let is_open = reader.format == SequenceFormat::Blocks;
            assert!(
                is_whole || is_open,
                "{reader:?} after {crash_at} puts: {now:?}"
            );
            found.push(now);
        }
        store.fail_at(usize::MAX);
        assert_eq!(
            publish_to(&store, &filters).unwrap().written,
            puts - crash_at
        );
        for (reader, mut found) in readers.iter_mut().zip(found) {
            found.extend(reader.follow(&url, &mint));
            assert!(found.is_superset(&new), "{reader:?} after {crash_at} puts");
        }
    }
}

#[test]
fn sequence_without_news_costs_nothing() {
    let (mint, store) = (Mint::new(), MemoryStore::default());
    let mut destination = Destination::new(store.clone());
    let filters = mint.filters("data");
    publish(&mut destination, &filters).unwrap();
    assert_eq!(
        publish(&mut destination, &filters).unwrap(),
        Report::default()
    );
    // A restart makes a copy of the open block that is not due, and reads the lists.
    let report = publish_to(&store, &mint.filters("data")).unwrap();
    assert_eq!((report.written, report.unchanged), (0, 9));
}

#[test]
fn damaged_objects_are_replaced_and_damaged_files_never_published() {
    let (mut mint, store) = (Mint::new(), MemoryStore::default());
    let good = mint.filters("data");
    publish_to(&store, &good).unwrap();
    let published = store.contents();
    let sealed: Vec<&String> = published.keys().filter(|path| is_sealed(path)).collect();
    assert_eq!(sealed.len(), 3, "two segments and a block");
    for path in &sealed {
        // As a publisher that did not check its files has left them; without the manifest, as after its remedy.
        for without_lists in [false, true] {
            let mut contents = published.clone();
            contents.get_mut(*path).unwrap().damage();
            if without_lists {
                contents.retain(|path, _| is_sealed(path));
            }
            store.set_contents(contents);
            publish_to(&store, &good).unwrap();
            assert!(store.contents() == published, "{path}");
        }
    }

    let segments = mint.path("data/state-filters/proof_state/segments");
    mint.grow(5, 60);
    let new = mint.filters("data");
    let file = std::fs::read_dir(segments)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    for file in file {
        let good = std::fs::read(&file).unwrap();
        for damaged in [vec![], vec![0; good.len()]] {
            std::fs::write(&file, damaged).unwrap();
            store.set_contents(published.clone());
            let result = publish_to(&store, &new).map_err(|error| error.to_string());
            // One that is published already is not read.
            let path = format!("v1/filters/segments/proof_state/{}", name(&file));
            assert_eq!(result.is_ok(), published.contains_key(&path), "{result:?}");
            assert!(result.err().is_none_or(|error| error.contains("damaged")));
            for (path, stored) in store.contents() {
                assert!(!is_sealed(&path) || published.get(&path).is_none_or(|one| *one == stored));
            }
        }
        std::fs::write(&file, good).unwrap();
    }
    publish_to(&store, &new).unwrap();
}

fn name(file: &std::path::Path) -> &str {
    file.file_name().unwrap().to_str().unwrap()
}

fn is_sealed(path: &str) -> bool {
    path.contains("/segments/") || path.ends_with("/blocks/blind_signature/0")
}

pub(crate) fn is_older(error: &PublishError) -> bool {
    let PublishError::Succession { source, .. } = error else {
        return false;
    };
    matches!(source, NotSuccessor::Older { .. })
}

#[test]
fn older_and_other_sequences_are_refused() {
    let (mut mint, store) = (Mint::new(), MemoryStore::default());
    let (older, first) = (mint.filters("data"), MemoryStore::default());
    publish_to(&first, &older).unwrap();
    mint.grow(5, 60);
    let newer = mint.filters("data");
    publish_to(&store, &newer).unwrap();
    let published = store.contents();
    let error = publish_to(&store, &older).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the published number is 1, that of the data directory is only 0"),
        "{error}"
    );
    let other = mint.filters("other");
    let error = publish_to(&first, &other).unwrap_err();
    assert!(
        error.to_string().contains("the SHA-256 of manifest 0 is "),
        "{error}"
    );
    assert_eq!(store.contents(), published);

    // The newer one appears after the older one has looked, and before it writes.
    let late = MemoryStore::default();
    late.appear_before_next_put(published.clone());
    let error = publish_to(&late, &older).unwrap_err();
    assert!(is_older(&error), "{error}");
    assert_eq!(late.contents(), published);
}
