//! Random histories of a mint that has its filters in its own process, as fast as they get: dates are true at any moment, and once
//! all is told, nothing is missing. `NUTFILTER_HISTORIES=300` tries that many.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nutfilter_cashu::FilterResponse;
use nutfilter_mint::{Filters, MintType, NoteKind, Options};
use nutfilter_objects::Opened;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{MintDatabase, V1, items};

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
enum Step {
    /// Notes are committed; those that are pending count later. Perhaps nobody tells.
    Add(usize, usize, bool, bool),
    Flip,
    Sleep(u64),
    /// The process dies and starts again.
    Restart,
}

struct World {
    database: MintDatabase,
    filters: Option<Filters>,
    output: Option<tempfile::TempDir>,
    /// Notes with the time at which they counted, and those that do not yet, by kind.
    counted: [Vec<(Vec<u8>, Duration)>; 2],
    pending: [Vec<Vec<u8>>; 2],
    dates: [u64; 2],
    made: u64,
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

impl World {
    fn start(&mut self) {
        self.filters = None;
        let mut options = Options::default();
        (options.interval, options.min_interval) = (Duration::from_secs(3_600), Duration::ZERO);
        options.directory = self.output.as_ref().map(|output| output.path().into());
        let start = Instant::now();
        self.filters = loop {
            // The thread of the last life may have the lock of the directory for a moment.
            match Filters::open(&self.database.location(), options.clone()) {
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
                filters => break filters.ok(),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        if self.output.is_none() {
            self.dates = [0; 2];
        }
    }

    fn happen(&mut self, step: &Step) {
        match *step {
            Step::Add(kind, count, counts, is_told) => {
                // nutshell's spent notes have no other state.
                let counts = counts || (self.database.mint, kind) == (MintType::Nutshell, 0);
                self.made += 1;
                let notes = items(self.made, count, 33);
                let state = if counts { "SPENT" } else { "PENDING" };
                let sql = self.database.insert(NoteKind::ALL[kind], V1, &notes, state);
                self.database.execute(&sql);
                match counts {
                    true => self.count(kind, notes),
                    false => self.pending[kind].extend(notes),
                }
                if is_told {
                    self.filters.iter().for_each(Filters::changed);
                }
            }
            Step::Flip => {
                for kind in NoteKind::ALL {
                    self.database.flip(kind);
                    let notes = core::mem::take(&mut self.pending[kind as usize]);
                    self.count(kind as usize, notes);
                }
                self.filters.iter().for_each(Filters::changed);
            }
            Step::Sleep(milliseconds) => std::thread::sleep(Duration::from_millis(milliseconds)),
            Step::Restart => self.start(),
        }
        self.missing();
    }

    fn count(&mut self, kind: usize, notes: Vec<Vec<u8>>) {
        // They counted before: the commit is over.
        let at = now();
        self.counted[kind].extend(notes.into_iter().map(|note| (note, at)));
    }

    /// The number of notes that the filters lack. None of them may have counted before the filter's date.
    fn missing(&mut self) -> usize {
        let mut missing = 0;
        for kind in NoteKind::ALL {
            let table = self.filters.as_ref().unwrap().site().monitor().table();
            let counted = &self.counted[kind as usize];
            let Ok(Some((_, opened))) = table.open(&format!("v1/filter/{kind}/{V1}"), false) else {
                missing += counted.len() + 1;
                continue;
            };
            let text = match opened {
                Opened::Memory(bytes) => bytes.to_vec(),
                Opened::File(mut file, _) => {
                    let mut text = vec![];
                    std::io::Read::read_to_end(&mut file, &mut text).unwrap();
                    text
                }
            };
            let response = FilterResponse::from_json(text).unwrap();
            let date = response.timestamp;
            assert!(self.dates[kind as usize] <= date && date <= now().as_secs());
            self.dates[kind as usize] = date;
            let filter = response.into_filter().unwrap();
            let notes: Vec<_> = counted.iter().map(|(note, _)| note).collect();
            for ((_, at), is_in) in counted.iter().zip(filter.matches(&notes)) {
                let is_claimed = *at < Duration::from_secs(date);
                assert!(
                    is_in || !is_claimed,
                    "{kind}: dated {date}, lacks a note of {at:?}"
                );
                missing += usize::from(!is_in);
            }
        }
        missing
    }
}

#[test]
fn filters_in_a_mints_process_lack_nothing_before_their_date() {
    let kind = || 0..2_usize;
    let step = prop_oneof![
        6 => (kind(), 1..4_usize, prop::bool::weighted(0.7), prop::bool::weighted(0.7))
            .prop_map(|(kind, count, counts, is_told)| Step::Add(kind, count, counts, is_told)),
        2 => Just(Step::Flip),
        3 => (0..250_u64).prop_map(Step::Sleep),
        1 => Just(Step::Restart),
    ];
    let histories = (
        any::<bool>(),
        any::<bool>(),
        prop::collection::vec(step, 1..25),
    );
    let cases = std::env::var("NUTFILTER_HISTORIES");
    let cases = cases.map_or(6, |cases| cases.parse().expect("a number"));
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 60,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&histories, |(is_cdk, has_output, steps)| {
        let mint = if is_cdk {
            MintType::Cdk
        } else {
            MintType::Nutshell
        };
        let mut world = World {
            database: MintDatabase::with_keyset(mint),
            filters: None,
            output: has_output.then(|| tempfile::tempdir().unwrap()),
            counted: Default::default(),
            pending: Default::default(),
            dates: [0; 2],
            made: 0,
        };
        // The mint runs.
        let _mint = world.database.running();
        world.start();
        steps.iter().for_each(|step| world.happen(step));
        world.filters.iter().for_each(Filters::changed);
        let start = Instant::now();
        while world.missing() > 0 {
            assert!(
                start.elapsed() < PATIENCE,
                "{:?}",
                world.filters.unwrap().status()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    });
    result.unwrap();
}
