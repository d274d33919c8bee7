//! A mint that has its filters in its own process, while it writes: dates are true at any moment.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nutfilter_cashu::FilterResponse;
use nutfilter_mint::{Filters, MintType, NoteKind, Options};

use crate::support::{MintDatabase, V1, items};

const PATIENCE: Duration = Duration::from_secs(30);

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn start(database: &MintDatabase, output: Option<&tempfile::TempDir>) -> Filters {
    let mut options = Options::default();
    (options.interval, options.min_interval) = (Duration::from_secs(3_600), Duration::ZERO);
    options.directory = output.map(|output| output.path().into());
    let start = Instant::now();
    loop {
        // The thread of the last life may have the lock of the directory for a moment.
        match Filters::open(&database.location(), options.clone()) {
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
            Ok(filters) => return filters,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Notes with the time at which they counted at the latest, by kind.
type Counted = [Vec<(Vec<u8>, Duration)>; 2];

/// The number of notes that the filters lack. None of them may have counted before the filter's date.
fn missing(filters: &Filters, counted: &Counted, dates: &mut [u64; 2]) -> usize {
    let mut missing = 0;
    for kind in NoteKind::ALL {
        let (table, counted) = (filters.site().monitor().table(), &counted[kind as usize]);
        let Ok(Some((_, opened))) = table.open(&format!("v1/filter/{kind}/{V1}"), false) else {
            missing += counted.len() + 1;
            continue;
        };
        let response = FilterResponse::from_json(opened.read().unwrap()).unwrap();
        let date = response.timestamp;
        assert!(dates[kind as usize] <= date && date <= now().as_secs());
        dates[kind as usize] = date;
        let notes: Vec<_> = counted.iter().map(|(note, _)| note).collect();
        let is_in = response.into_filter().unwrap().matches(&notes);
        for ((_, at), is_in) in counted.iter().zip(is_in) {
            let is_claimed = *at < Duration::from_secs(date);
            assert!(is_in || !is_claimed, "{kind}: dated {date}, lacks {at:?}");
            missing += usize::from(!is_in);
        }
    }
    missing
}

#[test]
fn filters_in_a_mints_process_lack_nothing_before_their_date() {
    let output = tempfile::tempdir().unwrap();
    for (mint, output) in [(MintType::Cdk, None), (MintType::Nutshell, Some(&output))] {
        let database = MintDatabase::with_keyset(mint);
        let _mint = database.running();
        let (mut counted, mut dates) = (Counted::default(), [0; 2]);
        let mut filters = start(&database, output);
        for round in 0..60_u64 {
            let kind = NoteKind::ALL[round as usize % 2];
            let notes = items(round, round as usize % 3 + 1, 33);
            // They may wait for a moment, and perhaps nobody tells.
            let state = ["SPENT", "PENDING"][usize::from(round % 4 == 1)];
            database.execute(&database.insert(kind, V1, &notes, state));
            database.flip(kind);
            let at = now();
            counted[kind as usize].extend(notes.into_iter().map(|note| (note, at)));
            if round % 5 > 0 {
                filters.changed();
            }
            if round % 16 == 15 {
                drop(filters);
                filters = start(&database, output);
                dates = output.map_or([0; 2], |_| dates);
            }
            missing(&filters, &counted, &mut dates);
            std::thread::sleep(Duration::from_millis(round * 37 % 110));
        }
        filters.changed();
        let start = Instant::now();
        while missing(&filters, &counted, &mut dates) > 0 {
            assert!(start.elapsed() < PATIENCE, "{:?}", filters.status());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
