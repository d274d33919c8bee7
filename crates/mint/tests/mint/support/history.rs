//! Random histories of a mint's database, and a consumer that follows them.
//!
//! This file does not depend on the others, so that the tests of any database can include it.

use core::ops::ControlFlow;
use std::collections::{BTreeMap, BTreeSet};

use nutfilter_mint::source::{ItemBatch, ItemSink, MintSource, SourceError, Watermark};
use nutfilter_mint::{KeysetId, MintType, NoteKind};
use nutfilter_reference::Noise;

/// Keyset ids as they occur in notes: two ids with two spellings each, and an invalid one.
pub(crate) const IDS: [&str; 6] = [
    "009a1f293253e41e",
    "009A1F293253E41E",
    "01c9c20fb8b348b389e296227c6cc7a63f77354b7388c720dbba6218f720f9b785",
    "I2yN+iR/fkzT",
    "I2yN-iR_fkzT",
    "not an id",
];

/// One note in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) kind: NoteKind,
    /// As spelled in the database.
    pub(crate) keyset: &'static str,
    pub(crate) item: Vec<u8>,
    pub(crate) amount: i64,
    /// Whether it is spent or signed, rather than pending.
    pub(crate) counts: bool,
}

/// A change of a database.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Insert(Note),
    /// A pending note begins to count.
    Flip(Note),
    Delete(Note),
    /// Any maintenance of the database (`VACUUM`).
    Tidy,
    /// A copy is saved; it replaces the previous copy.
    Save,
    /// The copy replaces the database.
    Restore,
}

/// A mint's database of any kind.
pub(crate) trait Database {
    fn mint(&self) -> MintType;

    /// Applies these events in order. For CDK, the totals are updated as by the mint.
    fn apply(&mut self, events: &[Event]);

    fn source(&self) -> Box<dyn MintSource>;
}

/// Counts the kinds of readings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) whole: u64,
    pub(crate) increments: u64,
    /// The reasons for starting over, without the numbers in them.
    pub(crate) started_over: BTreeMap<String, u64>,
}

/// Runs `NUTFILTER_HISTORIES` random histories, or `default`, each in the database that `make` makes for its seed.
pub(crate) fn run_all<D: Database>(mint: MintType, default: u64, mut make: impl FnMut(u64) -> D) {
    let histories = std::env::var("NUTFILTER_HISTORIES");
    let histories = histories.map_or(default, |count| count.parse().expect("a number"));
    let mut tally = Tally::default();
    for seed in 0..histories {
        run(seed, &mut make(seed), &mut tally);
    }
    eprintln!("{mint}: {tally:#?}");
    assert!(
        tally.increments > tally.whole,
        "too few incremental readings: {tally:?}"
    );
}

/// Runs a random history and reads now and then. After each reading, the consumer's contents must equal those of
/// the database, and those of a full reading by another consumer.
fn run(seed: u64, database: &mut dyn Database, tally: &mut Tally) {
    let mut random = Random::new(seed);
    let mut model = Model {
        mint: database.mint(),
        notes: vec![],
        saved: None,
        gone: vec![],
        next: 0,
    };
    let mut source = database.source();
    let mut consumer = Consumer::default();
    let bulk = if random.one_in(4) { 400 } else { 10 };
    let events = model.bulk(&mut random, bulk);
    database.apply(&events);
    let mut log = vec![];
    for round in 0..8 {
        let count = random.below(7);
        let events: Vec<Event> = (0..count)
            .filter_map(|_| model.happen(&mut random))
            .collect();
        database.apply(&events);
        log.push(events);
        if random.one_in(4) {
            source = database.source();
        }
        for kind in NoteKind::ALL {
            consumer.refresh(&mut source, kind, tally);
            let held = consumer.of(kind);
            let expected = model.items(kind);
            let context = || format!("seed {seed}, round {round}, {kind}, {log:#?}");
            assert!(held.items == expected, "{}", context());
            assert_eq!(held.total, Some(count_of(&expected)), "{}", context());
            if random.one_in(4) {
                let mut fresh = Consumer::default();
                fresh.refresh(&mut database.source(), kind, &mut Tally::default());
                assert!(fresh.of(kind).items == expected, "{}", context());
                assert_eq!(fresh.of(kind).unservable, held.unservable, "{}", context());
            }
        }
    }
}

/// The items of each keyset, sorted.
pub(crate) type Items = BTreeMap<KeysetId, Vec<Vec<u8>>>;

pub(crate) fn count_of(items: &Items) -> u64 {
    items.values().map(|items| items.len() as u64).sum()
}

/// The state of a consumer that reads repeatedly, for both kinds.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    spent: Held,
    issued: Held,
}

/// The result of the readings of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(crate) items: Items,
    pub(crate) total: Option<u64>,
    /// Sorted.
    pub(crate) unservable: Vec<String>,
    pub(crate) bad: usize,
    pub(crate) watermark: Option<Watermark>,
}

impl Consumer {
    pub(crate) fn of(&self, kind: NoteKind) -> &Held {
        match kind {
            NoteKind::Spent => &self.spent,
            NoteKind::Issued => &self.issued,
        }
    }

    /// Reads new items, or everything if the source requires it. The watermark is serialized each time.
    pub(crate) fn refresh<S: MintSource>(
        &mut self,
        source: &mut S,
        kind: NoteKind,
        tally: &mut Tally,
    ) {
        let held = match kind {
            NoteKind::Spent => &mut self.spent,
            NoteKind::Issued => &mut self.issued,
        };
        if let Some(watermark) = &held.watermark {
            let watermark = Watermark::new(watermark.as_bytes().to_vec());
            match held.continued(source, kind, &watermark) {
                Ok(continued) => {
                    tally.increments += 1;
                    *held = continued;
                    return;
                }
                Err(SourceError::RescanRequired(reason)) => {
                    let reason = reason
                        .chars()
                        .filter(|digit| !digit.is_ascii_digit())
                        .collect();
                    *tally.started_over.entry(reason).or_default() += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        tally.whole += 1;
        *held = Held::whole(source, kind).unwrap();
    }
}

impl Held {
    /// The result of a full reading.
    pub(crate) fn whole<S: MintSource + ?Sized>(
        source: &mut S,
        kind: NoteKind,
    ) -> Result<Self, SourceError> {
        Held::default().read(source, kind, None)
    }

    /// The contents after an incremental reading.
    fn continued<S: MintSource + ?Sized>(
        &self,
        source: &mut S,
        kind: NoteKind,
        since: &Watermark,
    ) -> Result<Self, SourceError> {
        let held = self.clone().read(source, kind, Some(since))?;
        if held
            .total
            .is_some_and(|total| total != count_of(&held.items))
        {
            let reason = "the consumer counts otherwise".to_owned();
            return Err(SourceError::RescanRequired(reason));
        }
        Ok(held)
    }

    fn read<S: MintSource + ?Sized>(
        mut self,
        source: &mut S,
        kind: NoteKind,
        since: Option<&Watermark>,
    ) -> Result<Self, SourceError> {
        let mut new = NewItems::default();
        source.verify_next();
        let reading = source.read(kind, since, &mut new)?;
        for (keyset, items) in new.items {
            let held = self.items.entry(keyset).or_default();
            if since.is_none() {
                held.extend(items);
            } else {
                // Earlier items may be repeated.
                let before: BTreeSet<Vec<u8>> = held.iter().cloned().collect();
                let items: BTreeSet<Vec<u8>> = items.into_iter().collect();
                held.extend(items.difference(&before).cloned());
            }
            held.sort();
        }
        self.total = reading.total;
        self.unservable = reading.unservable;
        self.unservable.sort();
        self.bad = new.bad.len();
        self.watermark = reading.watermark;
        Ok(self)
    }
}

#[derive(Default)]
pub(crate) struct NewItems {
    pub(crate) items: Items,
    /// The errors of unreadable rows.
    pub(crate) bad: Vec<String>,
}

impl ItemSink for NewItems {
    fn items(&mut self, keyset: &KeysetId, items: &ItemBatch) -> ControlFlow<()> {
        let of_keyset = self.items.entry(keyset.clone()).or_default();
        of_keyset.extend(items.items().map(<[u8]>::to_vec));
        ControlFlow::Continue(())
    }

    fn bad_row(&mut self, _keyset: &KeysetId, error: SourceError) -> ControlFlow<()> {
        self.bad.push(error.to_string());
        ControlFlow::Continue(())
    }
}

/// The expected contents of a database.
struct Model {
    mint: MintType,
    /// In order of arrival.
    notes: Vec<Note>,
    saved: Option<Vec<Note>>,
    /// Deleted notes, which may be added again.
    gone: Vec<Note>,
    next: u64,
}

impl Model {
    fn bulk(&mut self, random: &mut Random, most: u64) -> Vec<Event> {
        (0..random.below(most + 1))
            .map(|_| self.insert(random))
            .collect()
    }

    /// Makes one random change; `None` if it does not apply to any note.
    fn happen(&mut self, random: &mut Random) -> Option<Event> {
        match random.below(32) {
            0..12 => Some(self.insert(random)),
            12..20 => self.flip(random),
            20..24 => {
                let place = self.pick(random, |note| !note.counts)?;
                Some(self.delete(place))
            }
            24 => {
                let place = self.pick(random, |note| note.counts)?;
                Some(self.delete(place))
            }
            25..27 => {
                let place = self.notes.len().checked_sub(1)?;
                Some(self.delete(place))
            }
            27 => Some(Event::Tidy),
            28..30 => {
                self.saved = Some(self.notes.clone());
                Some(Event::Save)
            }
            _ => {
                let saved = self.saved.clone()?;
                for lost in core::mem::replace(&mut self.notes, saved) {
                    if self.notes.iter().all(|note| note.item != lost.item) {
                        self.gone.push(lost);
                    }
                }
                let notes = &self.notes;
                self.gone
                    .retain(|gone| notes.iter().all(|note| note.item != gone.item));
                Some(Event::Restore)
            }
        }
    }

    fn insert(&mut self, random: &mut Random) -> Event {
        let kind = NoteKind::ALL[usize::from(random.one_in(2))];
        let mut note = Note {
            kind,
            keyset: IDS[random.below(IDS.len() as u64) as usize],
            item: vec![],
            amount: 1 << random.below(4),
            counts: false,
        };
        let again = random.below(self.gone.len().max(1) as u64) as usize;
        match self.gone.get(again) {
            Some(_) if random.one_in(3) => note = self.gone.swap_remove(again),
            _ => {
                self.next += 1;
                note.item = item_of(self.next);
            }
        }
        // nutshell stores a spent note only when it is spent.
        let always = (self.mint, note.kind) == (MintType::Nutshell, NoteKind::Spent);
        note.counts = always || !random.one_in(3);
        self.notes.push(note.clone());
        Event::Insert(note)
    }

    fn flip(&mut self, random: &mut Random) -> Option<Event> {
        let place = self.pick(random, |note| !note.counts)?;
        self.notes[place].counts = true;
        Some(Event::Flip(self.notes[place].clone()))
    }

    fn delete(&mut self, place: usize) -> Event {
        let note = self.notes.remove(place);
        self.gone.push(note.clone());
        Event::Delete(note)
    }

    fn pick(&self, random: &mut Random, wanted: impl Fn(&Note) -> bool) -> Option<usize> {
        let places: Vec<usize> = (0..self.notes.len())
            .filter(|&place| wanted(&self.notes[place]))
            .collect();
        let chosen = random.below(places.len().max(1) as u64) as usize;
        places.get(chosen).copied()
    }

    /// The items that count and can be served.
    fn items(&self, kind: NoteKind) -> Items {
        let mut items = Items::new();
        for note in &self.notes {
            if note.kind == kind
                && note.counts
                && let Ok(keyset) = KeysetId::parse(note.keyset)
            {
                items.entry(keyset).or_default().push(note.item.clone());
            }
        }
        items.values_mut().for_each(|items| items.sort());
        items
    }
}

fn item_of(number: u64) -> Vec<u8> {
    let mut item = vec![2; 33];
    item[25..].copy_from_slice(&number.to_be_bytes());
    item
}

/// Choices that depend on a seed.
pub(crate) struct Random(Noise);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Noise(seed))
    }

    /// Returns a number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.number() % end
    }

    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
