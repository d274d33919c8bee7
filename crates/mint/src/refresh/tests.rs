use super::*;
use crate::source::{ItemBatch, ItemSink, Keysets, Watermark};

/// A mint with one spent note, which can be read only once.
struct OneNote;

const KEYSET: &str = "009a1f293253e41e";

impl MintSource for OneNote {
    fn mint(&self) -> &str {
        "one-note"
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        Ok(Keysets::default())
    }

    fn read(
        &mut self,
        kind: NoteKind,
        since: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        let total = u64::from(kind == NoteKind::Spent);
        if total > 0 && since.is_none() {
            let mut batch = ItemBatch::new();
            batch.push(&[2; 33]);
            assert!(sink.items(&KEYSET.parse().unwrap(), &batch).is_continue());
        }
        Ok(Reading::until(Watermark::new(vec![]), total))
    }
}

fn refresher(data: &std::path::Path) -> Refresher {
    let options = RefresherOptions {
        data_directory: Some(DataDirectory::open(data).unwrap()),
        ..RefresherOptions::default()
    };
    Refresher::with_options(OneNote, FilterService::default(), options)
}

fn spent(refresher: &Refresher) -> Option<u32> {
    let snapshot = refresher.service().snapshot()?;
    let entry = snapshot.keyset(&KEYSET.parse().unwrap())?;
    entry.spent.as_ref().map(|filter| filter.n())
}

#[test]
fn set_survives_failed_body_write_after_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (data, room) = (directory.path().join("data"), directory.path().join("room"));
    refresher(&data).refresh().unwrap();

    let mut refresher = refresher(&data);
    refresher.place = BodyPlace::Directory(room.clone());
    assert!(refresher.restore());
    assert_eq!(spent(&refresher), None);
    assert!(!refresher.service().snapshot().unwrap().is_complete());
    // Later refreshes without disk space do not discard the set, and do not publish an empty one either.
    let report = refresher.refresh().unwrap();
    assert_eq!(report.failures.len(), 2);
    assert_eq!(spent(&refresher), None);

    std::fs::create_dir(&room).unwrap();
    let report = refresher.refresh().unwrap();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert!(report.readings.iter().all(|reading| !reading.whole));
    assert_eq!(spent(&refresher), Some(1));
}
