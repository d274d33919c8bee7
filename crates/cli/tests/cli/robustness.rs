//! The table of `docs/format.md` as files for the command: each gives a message and exit code 2, or an answer.

use std::collections::BTreeMap;

use nutfilter::{Filter, Params};

use crate::nutfilter::{Place, Ran, lines};

#[path = "../../../../tests/robustness/rows/mod.rs"]
#[allow(
    unused_imports,
    dead_code,
    reason = "counts in front are written here, of every row"
)]
mod rows;

use rows::Row;

/// Two rows of each cell and class, because each row starts the program several times.
fn some_rows() -> Vec<Row> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut rows = rows::rows();
    rows.retain(|row| {
        let count = seen
            .entry(format!("{} {:?}", row.cell, row.class))
            .or_default();
        *count += 1;
        *count <= 2
    });
    rows
}

/// The library's error text for the row.
fn words(row: &Row) -> Option<String> {
    let params = match Params::new(row.p, row.m) {
        Ok(params) => params,
        Err(error) => return Some(error.to_string()),
    };
    let parsed = Filter::parse(&row.bytes[..], row.n, params);
    parsed.err().map(|error| error.to_string())
}

/// Checks that the result is the row's error, or complete answers about ten items.
fn assert_judged(row: &Row, way: &str, ran: Ran) {
    let what = format!("{}: {}, {way}", row.cell, row.name);
    let Some(words) = words(row) else {
        assert!(row.class.is_ok(), "{what}");
        assert!(matches!(ran.code, Some(0 | 1)), "{what}: {ran:?}");
        let text = String::from_utf8(ran.stdout).expect("text");
        if way != "a response" {
            return;
        }
        let count = |line: &str| line.split('\t').nth(1).and_then(|n| n.parse::<u32>().ok());
        let total: Option<u32> = text.lines().map(count).sum();
        assert_eq!(total, Some(10), "{what}: {text}");
        return;
    };
    assert!(row.class.is_err(), "{what}");
    ran.error_with(&words);
}

#[test]
fn every_row_is_an_error_with_its_numbers_or_an_answer() {
    let place = Place::new();
    place.write("mine.hex", lines(0..10));
    for row in some_rows() {
        place.write("filter", row.json());
        let ran = place.run("check filter mine.hex --count");
        assert_judged(&row, "a response", ran);

        let [n, p, m] = [row.n.to_string(), row.p.to_string(), row.m.to_string()];
        place.write("filter", &row.bytes);
        let raw = format!("inspect filter --raw --p {p} --m {m}");
        let ran = place.run(format!("{raw} --n {n}"));
        assert_judged(&row, "raw", ran);

        let block = nutfilter_reference::serialize_bip158(row.n, &row.bytes);
        place.write("filter", block);
        let key = "00112233445566778899aabbccddeeff";
        let ran = place.run(format!("{raw} --profile bip158 --block-hash {key}"));
        assert_judged(&row, "with its count in front", ran);
    }
}

/// The test limits address space: twice the file size plus the needs of the program and its libraries.
#[cfg(target_os = "linux")]
#[test]
fn large_file_is_read_in_twice_its_size() {
    const PROGRAM: usize = 64 << 20;

    let place = Place::new();
    place.write("mine.hex", lines(0..10));
    let zeros = vec![0; 20 << 20];
    let fitting = zeros.len() as u64 * 8 / 20;
    for (n, class) in [
        (fitting, Ok(())),
        (
            fitting - 2,
            Err(nutfilter::error::DecodeErrorKind::TrailingData),
        ),
    ] {
        let row = Row {
            cell: "zeros of a length that fits N",
            name: format!("{n} items"),
            bytes: zeros.clone(),
            n,
            p: 19,
            m: 784_931,
            class,
        };
        let json = row.json();
        let most = (2 * json.len() + PROGRAM) >> 10;
        place.write("filter", &json);
        let limited = |kib: usize| {
            let script = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
            let args = "check filter mine.hex --count";
            let command = place.command(args);
            let mut shell = std::process::Command::new("/bin/sh");
            shell
                .args(["-c", &script])
                .arg(command.get_program())
                .args(command.get_args())
                .current_dir(place.path("."))
                .env_clear()
                // One heap and few threads, because each reserves more than it uses.
                .envs([("MALLOC_ARENA_MAX", "1"), ("RAYON_NUM_THREADS", "1")]);
            Ran::from(shell.output().expect("a shell"))
        };
        assert_judged(&row, "within a limit", limited(most));
        // Checks that a smaller limit has an effect.
        let starved = limited(json.len() >> 10);
        assert!(!matches!(starved.code, Some(0 | 1)), "{starved:?}");
    }
}
