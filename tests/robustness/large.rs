//! Rows so large that 64 KiB hide nothing.

use nutfilter::error::DecodeErrorKind::{
    self, OutOfRange, Padding, TooLong, TooShort, TrailingData,
};
use nutfilter::internals::SimdLevel;
use nutfilter::{Params, SortedHashes};

use crate::readers::{Case, READERS};
use crate::rows::Row;

const ITEMS: u32 = 1_100_000;

/// At each level. What differs between profiles, `rows` has told.
const WAYS_TRIED: [&str; 6] = [
    "check length and validate",
    "check length and match, nut25",
    "check length and look each value up",
    "check length and merge",
    "JSON",
    "with an index",
];

fn honest() -> Vec<u8> {
    let set = SortedHashes::from_items((0..ITEMS).map(u32::to_le_bytes));
    set.encode(Params::CASHU).expect("a filter").into_bytes()
}

fn row(name: &str, bytes: Vec<u8>, class: Result<(), DecodeErrorKind>) -> Row {
    Row {
        name: name.to_owned(),
        bytes,
        n: ITEMS.into(),
        p: Params::CASHU.p(),
        m: Params::CASHU.m(),
        class,
    }
}

fn damaged() -> Vec<Row> {
    let whole = honest();
    let middle = whole.len() / 2;
    let mut rows = vec![row("as it is", whole.clone(), Ok(()))];
    let mut add = |kind, name, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        rows.push(row(name, bytes, Err(kind)));
    };
    add(TooShort, "cut at the end", &|b| b.truncate(2 * middle - 1));
    add(TooShort, "cut in the middle", &|b| {
        b.truncate(middle + 200_000);
    });
    add(OutOfRange, "ones in the middle", &|b| {
        b[middle..][..250_000].fill(0xff);
    });
    add(TooShort, "ones at the end", &|b| {
        b[2 * middle - 999..].fill(0xff);
    });
    add(Padding, "padding", &|b| *b.last_mut().expect("a byte") |= 1);
    add(TrailingData, "a byte more", &|b| b.push(0));
    add(TrailingData, "zeros at the end", &|b| b[middle..].fill(0));
    add(TooLong, "far too many bytes", &|b| b.resize(3 * middle, 0));
    // Eight items a byte: what is kept of items, not of bytes, would be 64 times the input.
    for (more, class) in [(0, Ok(())), (1, Err(TooShort))] {
        rows.push(Row {
            n: (8 << 20) + more,
            p: 0,
            m: u64::from(u32::MAX),
            ..row("1 MiB of zeros, P 0", vec![0; 1 << 20], class)
        });
    }
    rows
}

/// 64 MiB of zeros, in codes of 32 bits: all items are 0.
fn zeros() -> Vec<Row> {
    let (p, m) = (31, u64::from(u32::MAX));
    let bytes = vec![0; 64 << 20];
    let fitting = bytes.len() as u64 * 8 / u64::from(p + 1);
    let of = |name: &str, n, class| Row { n, p, m, ..row(name, bytes.clone(), class) };
    vec![
        of("64 MiB of zeros", fitting, Ok(())),
        of("64 MiB of zeros, N too small", fitting - 1, Err(TrailingData)),
        of("64 MiB of zeros, N too large", fitting + 1, Err(TooShort)),
    ]
}

fn check_all(cases: &[Case], readers: &[&str]) {
    for case in cases {
        for reader in READERS.iter().filter(|reader| readers.contains(&reader.name)) {
            for level in SimdLevel::available() {
                if reader.leveled || level == SimdLevel::detect() {
                    crate::check(case, reader, level);
                }
            }
        }
    }
}

#[test]
fn damaged_large_filter_has_its_class() {
    let cases: Vec<Case> = damaged().into_iter().map(crate::case).collect();
    check_all(&cases, &WAYS_TRIED);
}

#[test]
fn large_zero_filter_takes_little_memory() {
    let case = |row: Row| {
        let values = if row.class.is_ok() { vec![0] } else { vec![] };
        Case::new(row, values)
    };
    let cases: Vec<Case> = zeros().into_iter().map(case).collect();
    check_all(&cases, &["check length and validate", "check length and merge"]);
}
