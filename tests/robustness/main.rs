//! The result of bad input: each row of the table in `docs/format.md`, for every reader of a filter, at every
//! level of the CPU, with every byte of memory counted.
//!
//! Each reading gives the class that the row says, and that the reference finds; never a panic, never the answer
//! "no match"; and allocates at most twice the input and 64 KiB. `tests/cost.rs` and `benches/instructions.rs` hold the cost
//! of rejecting it linear. `memory.rs` bounds the memory of building and scanning.

mod allocations;
mod count_prefix;
mod large;
mod memory;
mod readers;
mod responses;
mod rows;

use allocations::peak_of;
use nutfilter::internals::SimdLevel;
use nutfilter::{Filter, Params, SipHash, bip158};
use nutfilter_harness::class_of;
use readers::{Case, READERS, Reader};
use rows::Row;

/// The row as the reference decodes it, which has to find the row's class too.
fn case(row: Row) -> Case {
    let decoded = nutfilter_reference::decode(&row.bytes, row.n, row.p, row.m);
    let what = row.name.clone();
    let class = decoded.as_ref().map(|_| ()).map_err(|&error| class_of(error));
    assert_eq!(class, row.class, "the reference finds another class of {what}");
    Case::new(row, decoded.unwrap_or_default())
}

/// Reads the row with this reader and checks the class and the peak memory.
fn check(case: &Case, reader: &Reader, level: SimdLevel) {
    let row = &case.row;
    let what = || format!("{}, {} at {level}", row.name, reader.name);
    let (class, peak) = peak_of(|| (reader.read)(case, level));
    assert_eq!(class, row.class, "{}", what());
    let most = (reader.most)(case);
    assert!(peak <= most, "{}: {peak} bytes, at most {most}", what());
}

#[test]
fn every_row_has_its_class_and_bound_for_every_reader() {
    let rows = rows::rows();
    assert!(rows.len() > 600, "{} rows", rows.len());
    for row in rows {
        let case = case(row);
        for reader in READERS {
            for level in SimdLevel::available() {
                if reader.leveled || level == SimdLevel::detect() {
                    check(&case, reader, level);
                }
            }
        }
    }
}

/// What cannot be a filter is refused before anything is allocated, however it is read, JSON included.
#[test]
fn what_the_bound_refuses_costs_no_memory() {
    for row in rows::rows() {
        let (n, p, m) = (row.n, row.p, row.m);
        let params = Params::new(p, m);
        let admitted =
            params.is_ok_and(|params| params.check_length(n, row.bytes.len() as u64).is_ok());
        if admitted {
            continue;
        }
        let case = case(row);
        for reader in READERS {
            let (class, peak) = peak_of(|| (reader.read)(&case, SimdLevel::detect()));
            assert!(class.is_err());
            assert_eq!(peak, 0, "{}, {}", case.row.name, reader.name);
        }
    }
}

#[test]
fn errors_carry_their_numbers() {
    let error =
        |bytes: &[u8], n| Filter::parse(bytes, n, Params::default()).unwrap_err().to_string();
    assert_eq!(error(&[0; 2], 812), "filter of 812 items has 2 bytes; expected at least 2030");
    assert_eq!(error(&[0; 9], 1), "filter of 1 items has 9 bytes; expected at most 3");
    assert_eq!(
        error(&[0, 0, 1], 1),
        "the padding bits of the last byte are not zero (the 1 items end at bit 20)"
    );
    let text = Params::new(33, 1).unwrap_err().to_string();
    assert_eq!(text, "P is 33; expected 0 to 32 remainder bits");
    for (count, n, width) in [
        (&[0xfd, 0xfc, 0][..], 252_u64, 3),
        (&[0xfe, 0xff, 0xff, 0, 0], 65_535, 5),
        (&[0xff, 0, 0, 1, 0, 0, 0, 0, 0], 65_536, 9),
    ] {
        let text = bip158::parse(SipHash::new(1, 2), count).unwrap_err();
        let words = format!("{n}, is encoded in {width} bytes");
        assert!(text.to_string().contains(&words), "{text}");
    }
}
