//! Values at the edges of the range, and what stands behind the last of them.

use nutfilter::error::DecodeErrorKind::{OutOfRange, Padding, TooLong, TooShort, TrailingData};
use nutfilter::{Params, SortedHashes};
use nutfilter_reference::encode_values;

use super::{LARGEST, M, MIB, P, Rows, honest};

impl Rows {
    pub(super) fn ranges(&mut self) {
        self.cell = "1 MiB of ones";
        for (n, p, m, kind) in [
            (1, P, M, TooLong),
            (300_000, P, M, TooLong),
            (410_000, P, M, OutOfRange),
            (500_000, P, M, TooShort),
            // The bound lets it in where P is small and M large; there the first run is out of range, or does not end.
            (1, 0, 1 << 23, OutOfRange),
            (1, 0, (1 << 23) + 1, TooShort),
            (1, 0, LARGEST, TooShort),
        ] {
            let name = format!("N {n}, P {p}, M {m}");
            self.invalid(kind, name, vec![0xff; MIB], (n, p, m));
        }

        let (beyond, up_to) = (
            "a run above (F - 1) >> P; a sum of F or more",
            "a sum of F - 1; a first value of 0; differences of 0",
        );
        self.cell = beyond;
        // P = 3, M = 20, N = 2: F = 40, so a quotient is at most 39 >> 3 = 4.
        let small = (2, 3, 20);
        for (name, values) in [
            ("a run of 5", [0, 40]),
            ("a sum of F", [20, 40]),
            ("a sum of F + 7", [39, 47]),
        ] {
            self.invalid(OutOfRange, name, encode_values(&values, 3), small);
        }
        self.cell = up_to;
        for values in [[0, 39], [39, 39], [0, 0]] {
            let name = format!("{values:?} below 40");
            self.valid(name, encode_values(&values, 3), small);
        }
        // As wide as a range can be: 1,000 values in one place, and one of them beyond it.
        let params = Params::new(32, LARGEST).expect("within the limits");
        let mut values = [params.range(1000) - 1; 1000];
        let wide = (1000, 32, LARGEST);
        self.valid("1,000 times F - 1", encode_values(&values, 32), wide);
        values[999] += 1;
        let coded = encode_values(&values, 32);
        self.cell = beyond;
        self.invalid(OutOfRange, "F behind 999 items", coded, wide);
        // In the middle of what lanes read: the difference to item 5,000 is one too large for the range.
        let set = SortedHashes::from_items((0..10_000_u32).map(u32::to_le_bytes));
        let filter = set.encode(Params::CASHU).expect("a filter");
        let mut values: Vec<u64> = filter.values().collect();
        let range = filter.range();
        values[5000..].fill(range);
        let coded = encode_values(&values, P);
        self.invalid(OutOfRange, "F in the middle", coded, (10_000, P, M));
        values[5000..].fill(range - 1);
        let coded = encode_values(&values, P);
        self.cell = up_to;
        self.valid("F - 1 from the middle on", coded, (10_000, P, M));
    }

    pub(super) fn repeats(&mut self) {
        self.cell = "a sum of F - 1; a first value of 0; differences of 0";
        // 29 items whose hashes collide: at the start of the range, within, at its end.
        for value in [0, 12_345_678, 29 * M - 1] {
            let coded = encode_values(&[value; 29], P);
            self.valid(format!("29 times {value}"), coded, (29, P, M));
        }
        self.cell = "zeros of a length that fits N";
        for n in [1, 2, 8, 100, 400_000_u32] {
            let zeros = vec![0; (n as usize * 20).div_ceil(8)];
            self.valid(format!("{n} items"), zeros, (n.into(), P, M));
        }
        for n in [8, 1000, 800_000_u32] {
            let zeros = vec![0; n as usize / 8];
            self.valid(format!("{n} items, P 0"), zeros, (n.into(), 0, LARGEST));
        }
    }

    pub(super) fn ends(&mut self) {
        let set = (100, P, M);
        let whole = honest(100, P, M);
        self.cell = "accepted as it is";
        self.valid("100 items", &*whole, set);
        // Codes of P = 0 are as short as a bit: what is left, or lacks, may hide in the padding.
        let (one_left, none_left) = ([0b0000_1000], [0b0000_0000]);
        self.cell = "N one too small";
        self.invalid(TrailingData, "99 of 100", &*whole, (99, P, M));
        self.invalid(Padding, "a run in the padding", one_left, (4, 0, 2));
        self.valid("a difference of 0 in the padding", none_left, (4, 0, 2));
        self.cell = "N one too large";
        self.invalid(TooShort, "101 of 100", &*whole, (101, P, M));
        self.valid("a zero of the padding", none_left, (6, 0, 2));
        self.invalid(TooShort, "no zero left", none_left, (9, 0, 2));

        self.cell = "padding with a one; one zero byte more";
        // One item of 20 bits: four bits of padding.
        for bit in 0..4 {
            let bytes = [0, 0, 1 << bit];
            self.invalid(Padding, format!("bit {bit}"), bytes, (1, P, M));
        }
        // Eight items of 20 bits end with a byte; the bound lets one byte more in.
        self.invalid(TrailingData, "a byte more", [0; 21], (8, P, M));
        self.invalid(TooLong, "too many bytes for the bound", [0; 4], (1, P, M));
        let longer = [&whole[..], &[0]].concat();
        self.invalid(TrailingData, "a byte behind 100 items", longer, set);
    }
}
