//! Notes with equal 64-bit hashes. Anyone can make such points, so they must not cost a full reread.

use nutfilter_mint::{MintType, NoteKind, RefreshReport, Refresher};

use crate::support::{
    MintDatabase, V1, assert_served, colliding_items, items, refresh, tables_of_notes,
};

/// A mint's database, and the items that it should contain.
struct Mint {
    database: MintDatabase,
    kind: NoteKind,
    items: Vec<Vec<u8>>,
}

impl Mint {
    fn new(mint: MintType, kind: NoteKind) -> Self {
        let database = MintDatabase::with_keyset(mint);
        Self {
            database,
            kind,
            items: vec![],
        }
    }

    fn add(&mut self, items: &[Vec<u8>]) {
        self.database.insert(self.kind, V1, items);
        self.items.extend_from_slice(items);
    }

    /// Refreshes, and compares the filter with a full build by the reference implementation.
    #[track_caller]
    fn refresh(&self, refresher: &mut Refresher) -> RefreshReport {
        let report = refresh(refresher);
        assert_served(refresher, self.kind, &self.items);
        report
    }

    #[track_caller]
    fn refresh_without_reread(&self, refresher: &mut Refresher) {
        let readings = self.refresh(refresher).readings;
        assert!(readings.iter().all(|one| !one.whole), "{readings:?}");
    }
}

#[test]
fn colliding_notes_are_added_without_a_full_reread() {
    let colliding = colliding_items();
    for (mint, kind) in tables_of_notes() {
        for on_disk in [false, true] {
            let mut mint = Mint::new(mint, kind);
            let data = mint.database.directory().join("data");
            let open = |mint: &Mint| match on_disk {
                true => mint.database.refresher_on_disk(&data),
                false => mint.database.refresher(),
            };
            mint.add(&items(1, 100, 33));
            mint.add(&colliding[..1]);
            let mut refresher = open(&mint);
            mint.refresh(&mut refresher);
            // One that collides with a known item; two at once; and later a repetition of all of this.
            for new in [1..2, 2..2, 2..4, 4..4, 4..20] {
                mint.add(&colliding[new]);
                mint.refresh_without_reread(&mut refresher);
            }
            if on_disk {
                drop(refresher);
                refresher = open(&mint);
                assert!(refresher.restore());
                mint.refresh_without_reread(&mut refresher);
                drop(refresher);
                // Some were added while the service was stopped.
                mint.add(&colliding[20..22]);
                refresher = open(&mint);
                assert!(refresher.restore());
                mint.refresh_without_reread(&mut refresher);
            }
            mint.add(&items(2, 5, 33));
            mint.refresh_without_reread(&mut refresher);
        }
    }
}

#[test]
fn colliding_new_notes_are_all_counted() {
    let colliding = colliding_items();
    for (mint, kind) in tables_of_notes() {
        let mut mint = Mint::new(mint, kind);
        mint.add(&items(1, 10, 33));
        let mut refresher = mint.database.refresher();
        mint.refresh(&mut refresher);
        mint.add(&colliding[..3]);
        mint.refresh_without_reread(&mut refresher);
        mint.refresh_without_reread(&mut refresher);
    }
}
