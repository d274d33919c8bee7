//! The rows of the table in `docs/format.md` that are bytes with numbers: what comes in, and its class.
//!
//! Held against every way to read a filter: those of the library (`ways.rs`), the wallet's and the command's, whose
//! tests include this file.

use nutfilter::DecodeErrorKind::{
    self, BadParameter, NonCanonical, OutOfRange, Padding, TooLong, TooShort, TrailingData,
};
use nutfilter::{Nut25, Params, SortedHashes};
use nutfilter_reference::encode_values;

/// An input, and what every way of reading it has to make of it.
#[derive(Clone)]
pub(crate) struct Row {
    /// The cell of the table that it belongs to.
    pub(crate) cell: &'static str,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) n: u64,
    pub(crate) p: u32,
    pub(crate) m: u64,
    pub(crate) class: Result<(), DecodeErrorKind>,
}

impl Row {
    /// The response that carries the row; written here, as the library writes none that is wrong.
    pub(crate) fn json(&self) -> Vec<u8> {
        let (n, p, m) = (self.n, self.p, self.m);
        let content = base64(&self.bytes);
        let json =
            format!(r#"{{"n":{n},"p":{p},"m":{m},"content":"{content}","timestamp":1767225600}}"#);
        json.into_bytes()
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let letter = char::from(ALPHABET[(bits >> shift) as usize % 64]);
            text.push(if place > three.len() { '=' } else { letter });
        }
    }
    text
}

const P: u32 = 19;
const M: u64 = 784_931;
const LARGEST: u64 = u32::MAX as u64;
const MIB: usize = 1 << 20;

/// All rows of up to a megabyte.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    counts(&mut rows);
    parameters(&mut rows);
    cuts(&mut rows);
    ranges(&mut rows);
    accepted(&mut rows);
    ends(&mut rows);
    rows
}

/// Puts a row behind the others.
fn row(
    rows: &mut Vec<Row>,
    cell: &'static str,
    name: impl Into<String>,
    bytes: impl Into<Vec<u8>>,
    (n, p, m): (u64, u32, u64),
    class: Result<(), DecodeErrorKind>,
) {
    let (name, bytes) = (name.into(), bytes.into());
    rows.push(Row {
        cell,
        name,
        bytes,
        n,
        p,
        m,
        class,
    });
}

/// A filter of so many items, each of 33 bytes.
fn honest(n: u8, p: u32, m: u64) -> Vec<u8> {
    let set = SortedHashes::<Nut25>::from_items((0..n).map(|i| [i; 33]));
    let params = Params::new(p, m).expect("within the limits");
    set.encode(params).expect("a small filter").into_bytes()
}

fn counts(rows: &mut Vec<Row>) {
    let cell = "N = 0 with no bytes";
    for (p, m) in [(P, M), (0, 1), (32, LARGEST)] {
        row(rows, cell, format!("P {p}"), [], (0, p, m), Ok(()));
    }
    let cell = "N = 0 with bytes";
    for len in [1, 1000, MIB] {
        row(
            rows,
            cell,
            format!("{len} zeros"),
            vec![0; len],
            (0, P, M),
            Err(TooLong),
        );
        row(
            rows,
            cell,
            format!("{len} of ones"),
            vec![0xff; len],
            (0, 0, LARGEST),
            Err(TooLong),
        );
    }
    let cell = "N >= 1 with no bytes; N = 2^32 - 1 with 3 bytes";
    for n in [1, 1000, LARGEST] {
        row(rows, cell, format!("N {n}"), [], (n, P, M), Err(TooShort));
        row(
            rows,
            cell,
            format!("N {n}, P 0"),
            [],
            (n, 0, LARGEST),
            Err(TooShort),
        );
    }
    for (p, m) in [(P, M), (0, 1), (32, LARGEST)] {
        row(
            rows,
            cell,
            format!("3 bytes, P {p}"),
            [1, 2, 3],
            (LARGEST, p, m),
            Err(TooShort),
        );
    }
    let cell = "N = 2^32; N = 2^64 - 1";
    for n in [1 << 32, u64::MAX] {
        for bytes in [&[][..], &[1, 2, 3]] {
            let name = format!("N {n}, {} bytes", bytes.len());
            row(rows, cell, name, bytes, (n, P, M), Err(BadParameter));
        }
    }
    let cell = "N = M = 2^32 - 1";
    for p in [0, P, 32] {
        for bytes in [vec![0; 16], vec![0xff; 16], vec![0xff; MIB]] {
            let name = format!("P {p}, {} bytes", bytes.len());
            row(
                rows,
                cell,
                name,
                bytes,
                (LARGEST, p, LARGEST),
                Err(TooShort),
            );
        }
    }
}

fn parameters(rows: &mut Vec<Row>) {
    let cell = "P = 0; P = 32";
    for (p, m) in [(0, 1), (0, 5), (32, 7), (32, LARGEST)] {
        row(
            rows,
            cell,
            format!("P {p}, M {m}"),
            honest(50, p, m),
            (50, p, m),
            Ok(()),
        );
    }
    let cell = "P = 33, 63, 64, 255";
    for p in [33, 63, 64, 255] {
        for (n, m) in [(1, 1), (0, M), (LARGEST, LARGEST)] {
            let name = format!("P {p}, N {n}");
            row(rows, cell, name, [0; 5], (n, p, m), Err(BadParameter));
        }
    }
    let cell = "M = 0; M = 2^32";
    for m in [0, 1 << 32, u64::MAX] {
        row(
            rows,
            cell,
            format!("M {m}"),
            [0; 3],
            (1, P, m),
            Err(BadParameter),
        );
        row(
            rows,
            cell,
            format!("M {m}, N 0"),
            [],
            (0, P, m),
            Err(BadParameter),
        );
    }
    let cell = "M = 1; M = 2^32 - 1";
    // With one item F is 1, and the only value 0.
    row(rows, cell, "one item", [0; 3], (1, P, 1), Ok(()));
    for (p, m) in [(0, 1), (P, 1), (32, 1), (31, LARGEST), (32, LARGEST)] {
        row(
            rows,
            cell,
            format!("P {p}, M {m}"),
            honest(40, p, m),
            (40, p, m),
            Ok(()),
        );
    }
}

fn cuts(rows: &mut Vec<Row>) {
    // P = 3, M = 40, N = 2: F = 80, at least one byte and at most (8 + 9) / 8, so three of them.
    let short = (2, 3, 40);
    let cell = "a cut within a run; within a remainder; at any byte";
    row(
        rows,
        cell,
        "in the run",
        [0b0000_1111],
        short,
        Err(TooShort),
    );
    row(
        rows,
        cell,
        "in the remainder",
        [0b0000_1110],
        short,
        Err(TooShort),
    );
    let whole = honest(200, P, M);
    for len in 0..whole.len() {
        row(
            rows,
            cell,
            format!("{len} bytes"),
            &whole[..len],
            (200, P, M),
            Err(TooShort),
        );
    }
    // Enough for the lanes of every kernel: cut in the middle of what they read, and behind it.
    let set = SortedHashes::<Nut25>::from_items((0..20_000_u32).map(u32::to_le_bytes));
    let whole = set.encode(Params::CASHU).expect("a filter");
    for len in [50_001, 52_000, whole.bytes().len() - 1] {
        let name = format!("{len} bytes of a large one");
        row(
            rows,
            cell,
            name,
            &whole.bytes()[..len],
            (20_000, P, M),
            Err(TooShort),
        );
    }
    row(
        rows,
        "accepted as it is",
        "20,000 items",
        whole.bytes(),
        (20_000, P, M),
        Ok(()),
    );
}

fn ranges(rows: &mut Vec<Row>) {
    let cell = "1 MiB of ones";
    let mut of_ones = |n, p, m, class| {
        row(
            rows,
            cell,
            format!("N {n}, P {p}, M {m}"),
            vec![0xff; MIB],
            (n, p, m),
            Err(class),
        );
    };
    of_ones(1, P, M, TooLong);
    of_ones(300_000, P, M, TooLong);
    of_ones(410_000, P, M, OutOfRange);
    of_ones(500_000, P, M, TooShort);
    // The bound lets it in where P is small and M large; there the first run is out of range, or does not end.
    of_ones(1, 0, 1 << 23, OutOfRange);
    of_ones(1, 0, (1 << 23) + 1, TooShort);
    of_ones(1, 0, LARGEST, TooShort);

    // P = 3, M = 20, N = 2: F = 40, so a quotient is at most 39 >> 3 = 4.
    let cell = "a run above (F - 1) >> P; a sum of F or more";
    let small = (2, 3, 20);
    for (name, values) in [
        ("a run of 5", [0, 40]),
        ("a sum of F", [20, 40]),
        ("a sum of F + 7", [39, 47]),
    ] {
        row(
            rows,
            cell,
            name,
            encode_values(&values, 3),
            small,
            Err(OutOfRange),
        );
    }
    let cell_up_to = "a sum of F - 1; a first value of 0; differences of 0";
    for values in [[0, 39], [39, 39], [0, 0]] {
        let name = format!("{values:?} below 40");
        row(
            rows,
            cell_up_to,
            name,
            encode_values(&values, 3),
            small,
            Ok(()),
        );
    }
    // As wide as a range can be: 1,000 values in one place, and one of them beyond it.
    let params = Params::new(32, LARGEST).expect("within the limits");
    let mut values = [params.range(1000) - 1; 1000];
    let wide = (1000, 32, LARGEST);
    row(
        rows,
        cell_up_to,
        "1,000 times F - 1",
        encode_values(&values, 32),
        wide,
        Ok(()),
    );
    values[999] += 1;
    row(
        rows,
        cell,
        "F behind 999 items",
        encode_values(&values, 32),
        wide,
        Err(OutOfRange),
    );
    // In the middle of what lanes read: the difference to item 5,000 is one too large for the range.
    let set = SortedHashes::<Nut25>::from_items((0..10_000_u32).map(u32::to_le_bytes));
    let filter = set.encode(Params::CASHU).expect("a filter");
    let mut values: Vec<u64> = filter.values().collect();
    let range = filter.range();
    values[5000..].fill(range);
    let coded = encode_values(&values, P);
    row(
        rows,
        cell,
        "F in the middle",
        coded,
        (10_000, P, M),
        Err(OutOfRange),
    );
    values[5000..].fill(range - 1);
    let coded = encode_values(&values, P);
    row(
        rows,
        cell_up_to,
        "F - 1 from the middle on",
        coded,
        (10_000, P, M),
        Ok(()),
    );
}

fn accepted(rows: &mut Vec<Row>) {
    let cell = "a sum of F - 1; a first value of 0; differences of 0";
    // 29 items whose hashes collide: at the start of the range, within, at its end.
    let range = 29 * M;
    for value in [0, 12_345_678, range - 1] {
        let coded = encode_values(&[value; 29], P);
        row(
            rows,
            cell,
            format!("29 times {value}"),
            coded,
            (29, P, M),
            Ok(()),
        );
    }
    let cell = "zeros of a length that fits N";
    for n in [1, 2, 8, 100, 400_000_u32] {
        let zeros = vec![0; (n as usize * 20).div_ceil(8)];
        row(
            rows,
            cell,
            format!("{n} items"),
            zeros,
            (n.into(), P, M),
            Ok(()),
        );
    }
    for n in [8, 1000, 800_000_u32] {
        let zeros = vec![0; n as usize / 8];
        row(
            rows,
            cell,
            format!("{n} items, P 0"),
            zeros,
            (n.into(), 0, LARGEST),
            Ok(()),
        );
    }
}

fn ends(rows: &mut Vec<Row>) {
    let set = (100, P, M);
    let whole = honest(100, P, M);
    row(rows, "accepted as it is", "100 items", &*whole, set, Ok(()));
    // Codes of P = 0 are as short as a bit: what is left, or lacks, may hide in the padding.
    let (one_left, none_left) = ([0b0000_1000], [0b0000_0000]);
    let cell = "N one too small";
    row(
        rows,
        cell,
        "99 of 100",
        &*whole,
        (99, P, M),
        Err(TrailingData),
    );
    row(
        rows,
        cell,
        "a run in the padding",
        one_left,
        (4, 0, 2),
        Err(Padding),
    );
    row(
        rows,
        cell,
        "a difference of 0 in the padding",
        none_left,
        (4, 0, 2),
        Ok(()),
    );
    let cell = "N one too large";
    row(
        rows,
        cell,
        "101 of 100",
        &*whole,
        (101, P, M),
        Err(TooShort),
    );
    row(
        rows,
        cell,
        "a zero of the padding",
        none_left,
        (6, 0, 2),
        Ok(()),
    );
    row(
        rows,
        cell,
        "no zero left",
        none_left,
        (9, 0, 2),
        Err(TooShort),
    );

    let cell = "padding with a one; one zero byte more";
    // One item of 20 bits: four bits of padding.
    for bit in 0..4 {
        row(
            rows,
            cell,
            format!("bit {bit}"),
            [0, 0, 1 << bit],
            (1, P, M),
            Err(Padding),
        );
    }
    // Eight items of 20 bits end with a byte; the bound lets one byte more in.
    row(
        rows,
        cell,
        "a byte more",
        [0; 21],
        (8, P, M),
        Err(TrailingData),
    );
    row(
        rows,
        cell,
        "a byte too many for the bound",
        [0; 4],
        (1, P, M),
        Err(TooLong),
    );
    let longer = [&whole[..], &[0]].concat();
    row(
        rows,
        cell,
        "a byte behind 100 items",
        longer,
        set,
        Err(TrailingData),
    );
}

/// The rows of a filter with its count in front: bytes, and N or the class.
pub(crate) fn counted_rows() -> Vec<(&'static str, Vec<u8>, Result<u32, DecodeErrorKind>)> {
    let cell = "CompactSize longer than needed; cut; 2^32 and more";
    let mut rows: Vec<(&str, Vec<u8>, Result<u32, DecodeErrorKind>)> = vec![
        ("N = 0 with no bytes", vec![0], Ok(0)),
        ("N = 0 with bytes", vec![0, 0], Err(TooLong)),
        (cell, vec![], Err(TooShort)),
        (cell, vec![0xfd, 0, 0], Err(NonCanonical)),
        (cell, vec![0xfd, 0xfc, 0], Err(NonCanonical)),
        (cell, vec![0xfe, 0xff, 0xff, 0, 0], Err(NonCanonical)),
        (cell, [&[0xff; 5][..], &[0; 4]].concat(), Err(NonCanonical)),
        (cell, vec![0xff; 9], Err(BadParameter)),
        (
            cell,
            [&[0xff; 9][..], &[0; MIB]].concat(),
            Err(BadParameter),
        ),
        (cell, vec![0xff, 0, 0, 0, 0, 1, 0, 0, 0], Err(BadParameter)),
        // 253 items in no bytes.
        (cell, vec![0xfd, 0xfd, 0], Err(TooShort)),
    ];
    for (first, width) in [(0xfd, 2), (0xfe, 4), (0xff, 8)] {
        for given in 0..width {
            rows.push((
                cell,
                [vec![first], vec![0xff; given]].concat(),
                Err(TooShort),
            ));
        }
    }
    // A count of each width that is right.
    for (count, n) in [
        (vec![1], 1),
        (vec![0xfd, 253, 0], 253),
        (vec![0xfe, 0, 0, 1, 0], 65_536_u32),
    ] {
        let zeros = vec![0; (n as usize * 20).div_ceil(8)];
        rows.push((
            "zeros of a length that fits N",
            [count, zeros].concat(),
            Ok(n),
        ));
    }
    rows
}
