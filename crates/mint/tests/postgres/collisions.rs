//! Notes with equal hashes, while an open transaction causes repeated rows.

use nutfilter::{Params, SortedHashes};
use nutfilter_mint::{
    DataDirectory, FilterService, KeysetId, MintType, NoteKind, Refresher, RefresherOptions,
};

use crate::colliding::colliding_items;
use crate::support::{MintDatabase, V1, Writer, insert_keyset, insert_member, item};

struct Mint {
    database: MintDatabase,
    kind: NoteKind,
    items: Vec<Vec<u8>>,
}

impl Mint {
    fn add(&mut self, items: impl IntoIterator<Item = Vec<u8>>) {
        let writer = self.database.another_writer();
        self.add_through(&writer, items);
    }

    fn add_through(&mut self, writer: &Writer, items: impl IntoIterator<Item = Vec<u8>>) {
        for item in items {
            writer.run(&insert_member(
                self.database.mint,
                self.kind,
                V1,
                &item,
                true,
            ));
            self.items.push(item);
        }
    }

    fn refresher(&self, directory: &std::path::Path) -> Refresher {
        let options = RefresherOptions {
            data_directory: Some(DataDirectory::open(directory).unwrap()),
            ..RefresherOptions::default()
        };
        let source = self.database.source();
        Refresher::with_options(source, FilterService::default(), options)
    }

    /// Refreshes and compares the filter with that of all items. Returns whether everything was read.
    #[track_caller]
    fn refresh(&self, refresher: &mut Refresher) -> bool {
        let report = refresher.refresh().unwrap();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        let snapshot = refresher.service().snapshot().unwrap();
        let entry = snapshot.keyset(&KeysetId::parse(V1).unwrap()).unwrap();
        let expected = SortedHashes::from_items(&self.items);
        let expected = expected.encode(Params::CASHU).unwrap();
        let served = entry.filter(self.kind).unwrap();
        assert_eq!(u64::from(served.n()), self.items.len() as u64);
        assert!(served.raw()[..] == *expected.bytes());
        report.readings.iter().any(|reading| reading.whole)
    }
}

#[test]
fn colliding_notes_are_distinguished_from_repeats() {
    let colliding = colliding_items();
    for (mint, kind) in MintType::ALL
        .into_iter()
        .flat_map(|mint| NoteKind::ALL.map(|kind| (mint, kind)))
    {
        let Some(database) = MintDatabase::new(mint) else {
            return;
        };
        database.writer.run(&insert_keyset(mint, V1));
        let mut mint = Mint {
            database,
            kind,
            items: vec![],
        };
        let directory = tempfile::tempdir().unwrap();
        // From now on, all rows are repeated until this transaction has ended.
        let late = mint.database.another_writer();
        late.run("CREATE TABLE scratch (x INT); BEGIN; INSERT INTO scratch VALUES (1)");
        mint.add((0..20).map(item));
        mint.add(colliding[..1].to_vec());
        let mut refresher = mint.refresher(directory.path());
        assert!(mint.refresh(&mut refresher));
        for new in [1..2, 2..2, 2..4, 4..4, 4..20] {
            mint.add(colliding[new].to_vec());
            mint.add([item(100 + mint.items.len() as u8)]);
            assert!(!mint.refresh(&mut refresher));
        }
        // Across a restart, with notes added meanwhile, some of them written long before.
        drop(refresher);
        mint.add(colliding[20..22].to_vec());
        mint.add_through(&late, colliding[22..24].to_vec());
        late.run("COMMIT");
        let mut refresher = mint.refresher(directory.path());
        assert!(refresher.restore());
        assert!(!mint.refresh(&mut refresher));
        mint.add(colliding[24..25].to_vec());
        assert!(!mint.refresh(&mut refresher));
        assert!(!mint.refresh(&mut refresher));
    }
}

/// A rewritten row is returned again under another transaction. Only the count distinguishes it from a new one.
#[test]
fn rewritten_row_with_a_colliding_one_is_counted_right() {
    let colliding = colliding_items();
    let Some(database) = MintDatabase::new(MintType::Cdk) else {
        return;
    };
    database.writer.run(&insert_keyset(MintType::Cdk, V1));
    let mut mint = Mint {
        database,
        kind: NoteKind::Spent,
        items: vec![],
    };
    let directory = tempfile::tempdir().unwrap();
    mint.add((0..20).map(item));
    mint.add(colliding[..1].to_vec());
    let mut refresher = mint.refresher(directory.path());
    assert!(mint.refresh(&mut refresher));
    mint.database.writer.run("UPDATE proof SET witness = 'w'");
    assert!(!mint.refresh(&mut refresher));
    mint.database.writer.run("UPDATE proof SET witness = 'v'");
    mint.add(colliding[1..2].to_vec());
    // This refresh reads everything, because the new row cannot be identified. It need not if another test's
    // transaction is open.
    mint.refresh(&mut refresher);
    assert!(!mint.refresh(&mut refresher));
}
