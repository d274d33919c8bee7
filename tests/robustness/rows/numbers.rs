//! Counts and parameters that cannot be, or can just be; bytes that end too early.

use nutfilter::DecodeErrorKind::{BadParameter, TooLong, TooShort};
use nutfilter::{Params, SortedHashes};

use super::{LARGEST, M, MIB, P, Row, honest, row};

pub(super) fn counts(rows: &mut Vec<Row>) {
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

pub(super) fn parameters(rows: &mut Vec<Row>) {
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

pub(super) fn cuts(rows: &mut Vec<Row>) {
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
    let set = SortedHashes::from_items((0..20_000_u32).map(u32::to_le_bytes));
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
