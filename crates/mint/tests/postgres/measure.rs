//! Measures the cost of readings. This is not a test; run it by hand:
//!
//! ```text
//! NUTFILTER_ROWS=1000000 cargo test --release -p nutfilter-mint --test postgres -- --ignored --nocapture measure
//! ```

use std::time::{Duration, Instant};

use nutfilter_mint::{MintType, NoteKind};

use crate::support::{Cluster, Noted, V1, Writer, open, tables};

/// Inserts notes `from..=to` of a mint, not in the order of their points, with a transaction per 1,000.
fn insert(writer: &Writer, mint: MintType, from: u64, to: u64) {
    let (table, item, more, values) = match mint {
        MintType::Nutshell => ("proofs_used", "", "id, y", ""),
        _ => ("proof", "decode", "keyset_id, state, y", "'SPENT',"),
    };
    let signature = if item.is_empty() {
        "repeat('0', 66)"
    } else {
        "'\\x02'"
    };
    let decode = |hex: &str| match item {
        "" => hex.to_owned(),
        _ => format!("decode({hex}, 'hex')"),
    };
    let point = decode("'02' || encode(sha256(i::text::bytea), 'hex')");
    let mut at = from;
    while at <= to {
        let end = to.min(at + 99_999);
        writer.run(&format!(
            "INSERT INTO {table} (amount, c, secret, {more})
             SELECT 1, {signature}, encode(sha256(i::text::bytea), 'hex'), '{V1}', {values} {point}
             FROM generate_series({at}, {end}) AS i"
        ));
        at = end + 1;
    }
}

/// The fastest of several runs, and its result.
fn least(mut run: impl FnMut() -> u64) -> (Duration, u64) {
    let times = (0..5).map(|_| {
        let start = Instant::now();
        let count = run();
        (start.elapsed(), count)
    });
    times.min().unwrap()
}

#[test]
#[ignore = "a measurement"]
fn measure() {
    let rows = std::env::var("NUTFILTER_ROWS").map_or(1_000_000, |rows| rows.parse().unwrap());
    for mint in MintType::ALL {
        let Some(cluster) = Cluster::start(None, &[]) else {
            return;
        };
        Writer::connect(&cluster.url("postgres")).run("CREATE DATABASE mint");
        let writer = Writer::connect(&cluster.url("mint"));
        writer.run(tables(mint));
        insert(&writer, mint, 1, rows);
        writer.run("VACUUM ANALYZE");
        let mut source = open(&cluster.url("mint"), None).unwrap();
        let (whole, count) = least(|| {
            Noted::read(&mut source, NoteKind::Spent, None)
                .unwrap()
                .0
                .count
        });
        assert_eq!(count, rows);
        let (_, reading) = Noted::read(&mut source, NoteKind::Spent, None).unwrap();
        let since = reading.watermark.as_ref();
        let (nothing, _) = least(|| {
            Noted::read(&mut source, NoteKind::Spent, since)
                .unwrap()
                .0
                .count
        });
        insert(&writer, mint, rows + 1, rows + 10_000);
        let (increment, count) = least(|| {
            Noted::read(&mut source, NoteKind::Spent, since)
                .unwrap()
                .0
                .count
        });
        assert_eq!(count, 10_000);
        let rate = rows as f64 / whole.as_secs_f64() / 1e6;
        eprintln!(
            "{mint}: {rows} rows whole {whole:?}, {rate:.2} million a second; 10000 more {increment:?}; \
             none {nothing:?}"
        );
        let (table, keyset, member) = match mint {
            MintType::Nutshell => ("proofs_used", "id", "true"),
            _ => ("proof", "keyset_id", "state = 'SPENT'"),
        };
        for (what, sql) in [
            (
                "count",
                format!("SELECT {keyset}, count(*) FROM {table} WHERE {member} GROUP BY 1"),
            ),
            (
                "what is new",
                format!(
                    "SELECT {keyset}, y, xmin FROM {table} WHERE {member}
                     AND age(xmin) <= (SELECT age('5'::xid) - 1000000)"
                ),
            ),
            (
                "all",
                format!("SELECT {keyset}, y, xmin FROM {table} WHERE {member}"),
            ),
        ] {
            let explain = format!("EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) {sql}");
            let plan = (0..3).map(|_| writer.column(&explain)).last().unwrap();
            eprintln!("{mint}, server alone, {what}: {}", plan.join(" | "));
        }
    }
}
