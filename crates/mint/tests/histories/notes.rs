//! A mint that hands its notes over: commits that cross readings, roll back, hang, are dropped and land later, or outlive
//! their process. The oracle is the list of rows, with the time at which each landed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nutfilter_cashu::FilterResponse;
use nutfilter_mint::source::{
    AsOf, Commit, CommitToken, ItemBatch, ItemSink, KeysetInfo, Keysets, Notes, NotesSource,
    Reading, Result, SourceError,
};
use nutfilter_mint::{
    KeysetId, MintSource, Monitor, NoteKind, RefreshError, RefreshOptions, Refresher,
};
use nutfilter_objects::Table;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::service::paths;
use crate::world::{Item, KEYSETS, bytes};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Step(Step),
    /// A refresh, perhaps of everything. Wherever it waits for the store, one of these lists happens.
    Refresh(bool, Vec<Vec<Step>>),
    /// The process dies. Its transactions do so, too, or they may still land.
    Crash(bool),
}

/// A number chooses one of the transactions for which a step is possible.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A note is issued, and one that was issued before is spent, if a client has any. They are handed over at once, after
    /// landing, or at both times.
    Begin([bool; 2]),
    /// The store commits, or undoes everything.
    Land(usize, bool),
    Say(usize, Word),
    /// The next reading of the store fails halfway.
    Fail,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Outcome,
    Ended,
    /// The handle is dropped without a word.
    Drop,
    TokenEnded,
}

fn steps() -> impl Strategy<Value = Step> {
    use Word::{Drop, Ended, Outcome, TokenEnded};
    const WORDS: [Word; 9] =
        [Outcome, Outcome, Outcome, Ended, Drop, Drop, TokenEnded, TokenEnded, TokenEnded];
    let (which, lands) = (0..6_usize, prop::bool::weighted(0.7));
    prop_oneof![
        6 => any::<[bool; 2]>().prop_map(Step::Begin),
        6 => (which.clone(), lands).prop_map(|(which, lands)| Step::Land(which, lands)),
        12 => (which, select(&WORDS)).prop_map(|(which, word)| Step::Say(which, word)),
        1 => Just(Step::Fail),
    ]
}

pub(crate) fn histories() -> impl Strategy<Value = Vec<Op>> {
    let refresh = (prop::bool::weighted(0.1), vec(vec(steps(), 0..9), 0..6));
    let op = prop_oneof![
        12 => steps().prop_map(Op::Step),
        6 => refresh.prop_map(|(whole, during)| Op::Refresh(whole, during)),
        1 => any::<bool>().prop_map(Op::Crash),
    ];
    vec(op, 1..30)
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
    let settled = Instant::now();
    process.refresh(false);
    for claim in process.claimed.iter_mut() {
        let claim = claim.as_mut().unwrap();
        assert!(claim.until >= settled, "a date that does not go on");
        claim.until = Instant::now();
    }
    process.check();
}

fn lock(mint: &Mutex<Mint>) -> MutexGuard<'_, Mint> {
    mint.lock().unwrap()
}

#[derive(Clone, Copy, Debug)]
struct Row {
    kind: usize,
    item: Item,
    landed: Instant,
}

/// Until when a reading says that it is complete, and the same as Unix time.
#[derive(Clone, Copy)]
struct Claim {
    until: Instant,
    date: Duration,
}

struct Transaction {
    /// What it spends, and what it issues.
    items: [Option<Item>; 2],
    when: [bool; 2],
    /// Whether it landed, once it is over.
    outcome: Option<bool>,
    /// `None` once it has said a word or was dropped.
    handle: Option<Commit>,
    /// `None` if its process has died.
    token: Option<CommitToken>,
}

#[derive(Default)]
struct Mint {
    rows: Vec<Row>,
    transactions: Vec<Transaction>,
    notes: Option<Notes>,
    /// Registered at the start, while transactions of an earlier process may land.
    earlier: Option<CommitToken>,
    during: VecDeque<Vec<Step>>,
    fails: bool,
    claims: Vec<Claim>,
}

impl Mint {
    /// Other threads run.
    fn yields(&mut self) {
        let steps = self.during.pop_front().unwrap_or_default();
        steps.into_iter().for_each(|step| self.step(step));
    }

    fn one(&mut self, which: usize, can: fn(&Transaction) -> bool) -> Option<&mut Transaction> {
        let mut can: Vec<_> = self.transactions.iter_mut().filter(|one| can(one)).collect();
        let at = which.checked_rem(can.len())?;
        Some(can.swap_remove(at))
    }

    fn step(&mut self, step: Step) {
        let is_over = |one: &Transaction| one.outcome.is_some();
        match step {
            Step::Begin(when) => {
                let all = &self.transactions;
                let is_spent = |item| all.iter().any(|one| one.items[0] == item);
                // A client has what a handler or a restore gave it.
                let has = |one: &&Transaction| one.outcome == Some(true) && one.handle.is_none();
                let mut spendable = all.iter().filter(has).map(|one| one.items[1]);
                let spends = spendable.find(|item| !is_spent(*item)).flatten();
                let issues = Some(all.len() as Item + 1);
                let handle = self.notes.as_ref().unwrap().begin();
                let mut one = Transaction {
                    items: [spends, issues],
                    when,
                    outcome: None,
                    token: Some(handle.token()),
                    handle: Some(handle),
                };
                one.hand_over(when[0]);
                self.transactions.push(one);
            }
            Step::Land(which, lands) => {
                let Some(one) = self.one(which, |one| one.outcome.is_none()) else {
                    return;
                };
                one.outcome = Some(lands);
                let (landed, items) = (Instant::now(), one.items.into_iter().enumerate());
                let rows = items.filter(|_| lands).filter_map(|(kind, item)| {
                    let item = item?;
                    Some(Row { kind, item, landed })
                });
                self.rows.extend(rows);
            }
            Step::Say(which, Word::TokenEnded) => {
                let one = self.one(which, |one| one.outcome.is_some() && one.token.is_some());
                one.into_iter().for_each(|one| one.token.as_ref().unwrap().ended());
                if self.transactions.iter().all(|one| is_over(one) || one.token.is_some()) {
                    self.earlier.take().inspect(CommitToken::ended);
                }
            }
            Step::Say(which, Word::Drop) => {
                let one = self.one(which, |one| one.handle.is_some());
                one.into_iter().for_each(|one| one.handle = None);
            }
            Step::Say(which, word) => {
                let Some(one) =
                    self.one(which, |one| one.outcome.is_some() && one.handle.is_some())
                else {
                    return;
                };
                one.hand_over(one.when[1] || !one.when[0]);
                let commit = one.handle.take().unwrap();
                match (word, one.outcome) {
                    (Word::Ended, _) => commit.ended(),
                    (_, Some(true)) => commit.done(),
                    _ => commit.rolled_back(),
                }
            }
            Step::Fail => self.fails = true,
        }
    }

    fn crash(&mut self, may_land: bool) {
        for one in &mut self.transactions {
            (one.handle, one.token) = (None, None);
            one.outcome = one.outcome.or((!may_land).then_some(false));
        }
        (self.earlier, self.notes) = (None, None);
    }

    /// Everything ends.
    fn settle(&mut self) {
        (self.fails, self.during) = (false, VecDeque::new());
        for number in 0..self.transactions.len() {
            self.step(Step::Land(0, number % 3 > 0));
        }
        for number in 0..self.transactions.len() {
            let word = if number % 4 > 0 { Word::Outcome } else { Word::Drop };
            self.step(Step::Say(0, word));
        }
        for number in 0..=self.transactions.len() {
            self.step(Step::Say(number, Word::TokenEnded));
        }
    }
}

impl Transaction {
    fn hand_over(&mut self, now: bool) {
        let commit = self.handle.as_mut().filter(|_| now);
        if let Some(commit) = commit {
            commit.spent(&keyset(), self.items[0].map(bytes));
            commit.issued(&keyset(), self.items[1].map(bytes));
        }
    }
}

fn keyset() -> KeysetId {
    KeysetId::parse(KEYSETS[0]).unwrap()
}

/// The mint's store: a reading sees the rows of one moment.
struct Store(Arc<Mutex<Mint>>);

impl MintSource for Store {
    fn mint(&self) -> &str {
        "own"
    }

    fn keysets(&mut self) -> Result<Keysets> {
        Ok(Keysets::of([KeysetInfo::new(keyset())]))
    }

    fn read(&mut self, kind: NoteKind, _whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
        let mut mint = lock(&self.0);
        mint.yields();
        let mut rows = mint.rows.clone();
        let fails = std::mem::take(&mut mint.fails);
        mint.yields();
        rows.retain(|row| row.kind == kind as usize);
        rows.truncate(if fails { rows.len() / 2 } else { rows.len() });
        for row in rows {
            let mut batch = ItemBatch::new();
            batch.push(&bytes(row.item));
            assert!(sink.items(Some(&keyset()), &batch).is_continue());
        }
        match fails {
            true => Err(SourceError::Other("away".into())),
            false => Ok(Reading::whole()),
        }
    }
}

/// Keeps what each reading claims.
struct Watched(NotesSource<Store>, Arc<Mutex<Mint>>);

impl MintSource for Watched {
    fn mint(&self) -> &str {
        self.0.mint()
    }

    fn keysets(&mut self) -> Result<Keysets> {
        self.0.keysets()
    }

    fn read(&mut self, kind: NoteKind, whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
        lock(&self.1).yields();
        let (began, wall) = (Instant::now(), SystemTime::now());
        let reading = self.0.read(kind, whole, sink)?;
        let age = match reading.as_of {
            AsOf::Beginning => Duration::ZERO,
            AsOf::Before(age) => age,
            other => panic!("{other:?}"),
        };
        lock(&self.1).claims.push(Claim {
            until: began - age,
            date: wall.duration_since(UNIX_EPOCH).unwrap() - age,
        });
        Ok(reading)
    }
}

struct Process {
    refresher: Refresher,
    mint: Arc<Mutex<Mint>>,
    /// The latest claim of the served filters, by kind.
    claimed: [Option<Claim>; 2],
}

impl Process {
    fn start(shared: &Arc<Mutex<Mint>>) -> Self {
        let (notes, source) = Notes::new(Store(Arc::clone(shared)));
        let mut mint = lock(shared);
        let may_land = mint.transactions.iter().any(|one| one.outcome.is_none());
        mint.earlier = may_land.then(|| notes.begin().token());
        mint.notes = Some(notes);
        let source = Watched(source, Arc::clone(shared));
        let monitor = Monitor::new(Arc::new(Table::in_memory()));
        Self {
            refresher: Refresher::new(source, monitor, RefreshOptions::default()),
            mint: Arc::clone(shared),
            claimed: [None; 2],
        }
    }

    fn refresh(&mut self, whole: bool) {
        lock(&self.mint).claims.clear();
        match self.refresher.refresh(whole) {
            Ok(report) if report.is_complete() => {
                for (before, claim) in self.claimed.iter_mut().zip(&lock(&self.mint).claims) {
                    let is_later = before.is_none_or(|before| before.until < claim.until);
                    *before = if is_later { Some(*claim) } else { *before };
                }
            }
            Ok(_) | Err(RefreshError::Source(SourceError::Other(_))) => {}
            Err(error) => panic!("{error}"),
        }
        self.check();
    }

    /// No filter lacks a row that landed before its date, none has a row that has not landed, and nothing is spent that was not
    /// issued.
    fn check(&self) {
        let table = self.refresher.monitor().table();
        let mut spent_here = vec![];
        for (kind, claim) in self.claimed.iter().enumerate() {
            let (Some(claim), path) = (claim, &paths()[kind][0]) else {
                continue;
            };
            let (_, opened) = table.open(path, false).unwrap().expect("a filter");
            let response = FilterResponse::from_json(opened.read().unwrap()).unwrap();
            let (date, until) = (response.timestamp, claim.date);
            assert!(date <= until.as_secs(), "dated {date}, true until {until:?}");
            let filter = response.into_filter().unwrap();
            let is_here = |row: &Row| filter.matches(&[bytes(row.item)])[0];
            let mut rows = lock(&self.mint).rows.clone();
            rows.retain(|row| row.kind == kind);
            let mut due = rows.iter().filter(|row| row.landed < claim.until);
            let missed = due.find(|row| !is_here(row));
            assert!(missed.is_none(), "{path}: missed {missed:?}");
            rows.retain(is_here);
            let count = filter.n() as usize;
            assert_eq!(count, rows.len(), "{path}: a note that does not count");
            let items = Vec::from_iter(rows.iter().map(|row| row.item));
            let odd = spent_here.iter().find(|item| !items.contains(item));
            assert!(odd.is_none(), "{odd:?} is spent and not issued");
            spent_here = items;
        }
    }
}
