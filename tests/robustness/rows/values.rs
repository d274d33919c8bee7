//! Values at the edges of the range, and what stands behind the last of them.

use nutfilter::DecodeErrorKind::{OutOfRange, Padding, TooLong, TooShort, TrailingData};
use nutfilter::{Params, SortedHashes};
use nutfilter_reference::encode_values;

use super::{LARGEST, M, MIB, P, Row, honest, row};

pub(super) fn ranges(rows: &mut Vec<Row>) {
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
    let set = SortedHashes::from_items((0..10_000_u32).map(u32::to_le_bytes));
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

pub(super) fn accepted(rows: &mut Vec<Row>) {
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

pub(super) fn ends(rows: &mut Vec<Row>) {
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
