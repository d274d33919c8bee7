//! A mint that hands its notes over: commits that cross readings, roll back, hang, are dropped and land later, or outlive
//! their process. The oracle is the list of rows, with the time at which each landed.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nutfilter_cashu::FilterResponse;
use nutfilter_mint::source::{
    AsOf, Commit, CommitToken, ItemBatch, ItemSink, KeysetInfo, Keysets, Notes, NotesSource,
    Reading, Result, SourceError,
};
use nutfilter_mint::{
    KeysetId, MintSource, Monitor, NoteKind, RefreshError, RefreshOptions, Refresher,
};
use nutfilter_objects::{Opened, Table};
use proptest::prelude::*;

use crate::service::paths;
use crate::world::{Item, KEYSETS, bytes};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Step(Step),
    /// A refresh, perhaps of everything. Wherever other threads may run, one of these lists happens.
    Refresh(bool, Vec<Vec<Step>>),
    /// The process dies. Its transactions do so, too, or they may still land.
    Crash(bool),
}

/// A number chooses one of the commits for which a step is possible.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// With notes of both kinds in a keyset, which are handed over at once, after landing, or at both times.
    Begin(usize, [bool; 2]),
    /// The store commits, or undoes everything.
    Land(usize, bool),
    /// The handle tells what the store did.
    Word(usize),
    /// The handle tells that it has ended.
    Unsure(usize),
    Drop(usize),
    /// A token tells that it has ended.
    Ended(usize),
    /// The next reading of the store fails halfway, or the next hashes are not taken.
    Fail(bool),
}

fn steps() -> impl Strategy<Value = Step> {
    let which = || 0..6_usize;
    prop_oneof![
        6 => (0..3_usize, any::<[bool; 2]>()).prop_map(|(keyset, when)| Step::Begin(keyset, when)),
        6 => (which(), prop::bool::weighted(0.7)).prop_map(|(which, lands)| Step::Land(which, lands)),
        4 => which().prop_map(Step::Word),
        1 => which().prop_map(Step::Unsure),
        3 => which().prop_map(Step::Drop),
        4 => which().prop_map(Step::Ended),
        1 => any::<bool>().prop_map(Step::Fail),
    ]
}

pub(crate) fn histories() -> impl Strategy<Value = Vec<Op>> {
    let during = prop::collection::vec(prop::collection::vec(steps(), 0..4), 0..6);
    let op = prop_oneof![
        12 => steps().prop_map(Op::Step),
        6 => (prop::bool::weighted(0.1), during).prop_map(|(whole, during)| Op::Refresh(whole, during)),
        1 => any::<bool>().prop_map(Op::Crash),
    ];
    prop::collection::vec(op, 1..30)
}

pub(crate) fn happen(ops: &[Op]) {
    let mint = Arc::new(Mutex::new(Mint::default()));
    let mut process = Process::start(&mint);
    for op in ops {
        match op {
            Op::Step(step) => lock(&mint).step(*step),
            Op::Refresh(whole, during) => {
                lock(&mint).during = during.clone().into();
                process.refresh(*whole);
            }
            Op::Crash(may_land) => {
                drop(process);
                lock(&mint).crash(*may_land);
                process = Process::start(&mint);
            }
        }
    }
    lock(&mint).settle();
    process.refresh(false);
    let (mint, process) = (lock(&mint), &process);
    assert!(
        mint.notes.as_ref().unwrap().status().open == 0
            && mint.claims.iter().all(|claim| claim.is_present)
    );
    for row in &mint.rows {
        assert!(process.has(row), "{row:?} is missing in the end");
    }
}

fn lock(mint: &Mutex<Mint>) -> std::sync::MutexGuard<'_, Mint> {
    mint.lock().unwrap()
}

#[derive(Clone, Copy, Debug)]
struct Row {
    kind: usize,
    keyset: usize,
    item: Item,
    landed: Instant,
}

/// What the last reading of a kind says.
#[derive(Clone, Copy)]
struct Claim {
    complete_until: Instant,
    date: Duration,
    is_present: bool,
}

/// A transaction, with its notes of both kinds.
struct Transaction {
    keyset: usize,
    items: [Item; 2],
    when: [bool; 2],
    is_over: bool,
    has_landed: bool,
    /// `None` once it has a word or was dropped.
    handle: Option<Commit>,
    /// `None` in a process that has died.
    token: Option<CommitToken>,
}

#[derive(Default)]
struct Mint {
    rows: Vec<Row>,
    transactions: Vec<Transaction>,
    next: Item,
    notes: Option<Notes>,
    /// Registered at the start, while transactions of an earlier process may land.
    earlier: Option<Commit>,
    during: VecDeque<Vec<Step>>,
    fails: [bool; 2],
    claims: Vec<Claim>,
}

impl Mint {
    /// Another thread may run here.
    fn yields(&mut self) {
        for step in self.during.pop_front().unwrap_or_default() {
            self.step(step);
        }
    }

    fn step(&mut self, step: Step) {
        let one = |all: &mut Vec<Transaction>, which: usize, can: fn(&Transaction) -> bool| {
            let can: Vec<usize> = (0..all.len()).filter(|&at| can(&all[at])).collect();
            Some(can[which.checked_rem(can.len())?])
        };
        let all = &mut self.transactions;
        match step {
            Step::Begin(keyset, when) => {
                let items = [self.next + 1, self.next + 2];
                self.next += 2;
                let mut commit = self.notes.as_ref().unwrap().begin();
                if when[0] {
                    hand_over(&mut commit, keyset, items);
                }
                let token = Some(commit.token());
                let handle = Some(commit);
                all.push(Transaction {
                    keyset,
                    items,
                    when,
                    is_over: false,
                    has_landed: false,
                    handle,
                    token,
                });
            }
            Step::Land(which, lands) => {
                let Some(at) = one(all, which, |one| !one.is_over) else {
                    return;
                };
                let one = &mut all[at];
                (one.is_over, one.has_landed) = (true, lands);
                if lands {
                    let (keyset, landed) = (one.keyset, Instant::now());
                    let rows = one.items.into_iter().enumerate();
                    self.rows.extend(rows.map(|(kind, item)| Row {
                        kind,
                        keyset,
                        item,
                        landed,
                    }));
                }
            }
            Step::Word(which) => {
                let Some(at) = one(all, which, |one| one.is_over && one.handle.is_some()) else {
                    return;
                };
                let one = &mut all[at];
                let mut commit = one.handle.take().unwrap();
                if one.when[1] || !one.when[0] {
                    hand_over(&mut commit, one.keyset, one.items);
                }
                if one.has_landed {
                    commit.done()
                } else {
                    commit.rolled_back()
                }
            }
            Step::Unsure(which) => {
                if let Some(at) = one(all, which, |one| one.is_over && one.handle.is_some()) {
                    all[at].handle.take().unwrap().ended();
                }
            }
            Step::Drop(which) => {
                if let Some(at) = one(all, which, |one| one.handle.is_some()) {
                    all[at].handle = None;
                }
            }
            Step::Ended(which) => {
                if let Some(at) = one(all, which, |one| one.is_over && one.token.is_some()) {
                    all[at].token.as_ref().unwrap().ended();
                }
                if all.iter().all(|one| one.is_over || one.token.is_some()) {
                    self.earlier.take().into_iter().for_each(Commit::ended);
                }
            }
            Step::Fail(in_store) => self.fails[usize::from(in_store)] = true,
        }
    }

    fn crash(&mut self, may_land: bool) {
        for one in &mut self.transactions {
            (one.handle, one.token) = (None, None);
            one.is_over |= !may_land;
        }
        (self.earlier, self.notes) = (None, None);
        self.claims.clear();
    }

    /// Everything ends.
    fn settle(&mut self) {
        self.fails = [false; 2];
        self.during.clear();
        for number in 0..self.transactions.len() {
            self.step(Step::Land(0, number % 3 > 0));
        }
        for number in 0..self.transactions.len() {
            self.step(if number % 4 > 0 {
                Step::Word(0)
            } else {
                Step::Drop(0)
            });
            self.step(Step::Ended(number));
        }
        let tokens = self
            .transactions
            .iter()
            .filter_map(|one| one.token.as_ref());
        tokens.for_each(CommitToken::ended);
        self.earlier.take().into_iter().for_each(Commit::ended);
    }
}

fn id(keyset: usize) -> KeysetId {
    KeysetId::parse(KEYSETS[keyset]).unwrap()
}

fn hand_over(commit: &mut Commit, keyset: usize, [spent, issued]: [Item; 2]) {
    commit.spent(&id(keyset), [bytes(spent)]);
    commit.issued(&id(keyset), [bytes(issued)]);
}

/// The mint's store: a reading sees the rows of one moment.
struct Store(Arc<Mutex<Mint>>);

impl MintSource for Store {
    fn mint(&self) -> &str {
        "own"
    }

    fn keysets(&mut self) -> Result<Keysets> {
        Ok(Keysets::of(
            (0..3).map(|keyset| KeysetInfo::new(id(keyset))),
        ))
    }

    fn read(&mut self, kind: NoteKind, _whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
        lock(&self.0).yields();
        let (rows, fails) = {
            let mut mint = lock(&self.0);
            (mint.rows.clone(), std::mem::take(&mut mint.fails[1]))
        };
        lock(&self.0).yields();
        let rows: Vec<Row> = rows
            .into_iter()
            .filter(|row| row.kind == kind as usize)
            .collect();
        let count = if fails { rows.len() / 2 } else { rows.len() };
        for row in &rows[..count] {
            let mut batch = ItemBatch::new();
            batch.push(&bytes(row.item));
            if sink.items(Some(&id(row.keyset)), &batch).is_break() {
                return Err(SourceError::Stopped);
            }
        }
        match fails {
            true => Err(SourceError::Other("away".into())),
            false => Ok(Reading::whole()),
        }
    }
}

/// Notes what each reading claims, and lets other threads run around it.
struct Watched {
    source: NotesSource<Store>,
    mint: Arc<Mutex<Mint>>,
}

impl MintSource for Watched {
    fn mint(&self) -> &str {
        self.source.mint()
    }

    fn keysets(&mut self) -> Result<Keysets> {
        self.source.keysets()
    }

    fn read(&mut self, kind: NoteKind, whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
        lock(&self.mint).yields();
        let (began, wall) = (Instant::now(), SystemTime::now());
        let mut sink = Yielding(sink, &self.mint);
        let reading = self.source.read(kind, whole, &mut sink)?;
        let age = match reading.as_of {
            AsOf::Beginning => Duration::ZERO,
            AsOf::Before(age) => age,
            other => panic!("{other:?}"),
        };
        let claim = Claim {
            complete_until: began - age,
            date: wall.duration_since(UNIX_EPOCH).unwrap() - age,
            is_present: age.is_zero(),
        };
        lock(&self.mint).claims.push(claim);
        Ok(reading)
    }
}

struct Yielding<'s>(&'s mut dyn ItemSink, &'s Mutex<Mint>);

impl ItemSink for Yielding<'_> {
    fn items(&mut self, keyset: Option<&KeysetId>, items: &ItemBatch) -> ControlFlow<()> {
        self.0.items(keyset, items)
    }

    fn hashes(&mut self, keyset: &KeysetId, hashes: &[u64]) -> ControlFlow<()> {
        lock(self.1).yields();
        match std::mem::take(&mut lock(self.1).fails[0]) {
            true => ControlFlow::Break(()),
            false => self.0.hashes(keyset, hashes),
        }
    }

    fn bad_row(&mut self, _: Option<&KeysetId>, error: SourceError) -> ControlFlow<()> {
        panic!("{error}");
    }
}

struct Process {
    refresher: Refresher,
    mint: Arc<Mutex<Mint>>,
    /// The latest claim of the served filters, by kind.
    claimed: [Option<Claim>; 2],
}

impl Process {
    fn start(mint: &Arc<Mutex<Mint>>) -> Self {
        let (notes, source) = Notes::new(Store(Arc::clone(mint)));
        {
            let mut mint = lock(mint);
            let may_land = mint.transactions.iter().any(|one| !one.is_over);
            mint.earlier = may_land.then(|| notes.begin());
            mint.notes = Some(notes);
        }
        let source = Watched {
            source,
            mint: Arc::clone(mint),
        };
        let monitor = Monitor::new(Arc::new(Table::in_memory()));
        Self {
            refresher: Refresher::new(source, monitor, RefreshOptions::default()),
            mint: Arc::clone(mint),
            claimed: [None; 2],
        }
    }

    fn refresh(&mut self, whole: bool) {
        lock(&self.mint).claims.clear();
        match self.refresher.refresh(whole) {
            Ok(report) if report.is_complete() => {
                let claims = lock(&self.mint).claims.clone();
                for (claimed, claim) in self.claimed.iter_mut().zip(claims) {
                    let before =
                        claimed.filter(|before| before.complete_until > claim.complete_until);
                    *claimed = Some(before.unwrap_or(claim));
                }
            }
            Ok(_) | Err(RefreshError::Source(SourceError::Stopped | SourceError::Other(_))) => {}
            Err(error) => panic!("{error}"),
        }
        self.check();
    }

    fn filter(&self, kind: usize, keyset: usize) -> Option<FilterResponse> {
        let opened = self
            .refresher
            .monitor()
            .table()
            .open(&paths()[kind][keyset], false)
            .unwrap();
        let Opened::Memory(text) = opened?.1 else {
            unreachable!()
        };
        Some(FilterResponse::from_json(text.to_vec()).unwrap())
    }

    fn has(&self, row: &Row) -> bool {
        let filter = self
            .filter(row.kind, row.keyset)
            .unwrap()
            .into_filter()
            .unwrap();
        filter.matches(&[bytes(row.item)])[0]
    }

    /// No filter lacks a row that landed before its date, and none has a row that has not landed.
    fn check(&self) {
        let mint = lock(&self.mint);
        for (kind, claim) in self.claimed.iter().enumerate() {
            let Some(claim) = claim else { continue };
            for keyset in 0..3 {
                let response = self.filter(kind, keyset).expect("a filter");
                let date = response.timestamp;
                assert!(
                    date <= claim.date.as_secs(),
                    "dated {date}, true until {:?}",
                    claim.date
                );
                let filter = response.into_filter().unwrap();
                let rows = mint
                    .rows
                    .iter()
                    .filter(|row| row.kind == kind && row.keyset == keyset);
                let (here, absent): (Vec<&Row>, Vec<&Row>) =
                    rows.partition(|row| filter.matches(&[bytes(row.item)])[0]);
                let missed = absent.iter().find(|row| row.landed < claim.complete_until);
                assert!(missed.is_none(), "missed {missed:?}");
                assert_eq!(
                    filter.n() as usize,
                    here.len(),
                    "a note that does not count, kind {kind}, keyset {keyset}"
                );
            }
        }
    }
}
