//! Counts and parameters that cannot be, or can just be; bytes that end too early.

use nutfilter::error::DecodeErrorKind::{BadParameter, TooLong, TooShort};
use nutfilter::{Params, SortedHashes};

use super::{LARGEST, M, MIB, P, Rows, honest};

impl Rows {
    pub(super) fn counts(&mut self) {
        self.cell = "N = 0 with no bytes";
        for (p, m) in [(P, M), (0, 1), (32, LARGEST)] {
            self.valid(format!("P {p}"), [], (0, p, m));
        }
        self.cell = "N = 0 with bytes";
        for len in [1, 1000, MIB] {
            self.invalid(TooLong, format!("{len} zeros"), vec![0; len], (0, P, M));
            let ones = vec![0xff; len];
            self.invalid(TooLong, format!("{len} of ones"), ones, (0, 0, LARGEST));
        }
        self.cell = "N >= 1 with no bytes; N = 2^32 - 1 with 3 bytes";
        for n in [1, 1000, LARGEST] {
            self.invalid(TooShort, format!("N {n}"), [], (n, P, M));
            self.invalid(TooShort, format!("N {n}, P 0"), [], (n, 0, LARGEST));
        }
        for (p, m) in [(P, M), (0, 1), (32, LARGEST)] {
            let name = format!("3 bytes, P {p}");
            self.invalid(TooShort, name, [1, 2, 3], (LARGEST, p, m));
        }
        self.cell = "N = 2^32; N = 2^64 - 1";
        for n in [1 << 32, u64::MAX] {
            for bytes in [&[][..], &[1, 2, 3]] {
                let name = format!("N {n}, {} bytes", bytes.len());
                self.invalid(BadParameter, name, bytes, (n, P, M));
            }
        }
        self.cell = "N = M = 2^32 - 1";
        for p in [0, P, 32] {
            for bytes in [vec![0; 16], vec![0xff; 16], vec![0xff; MIB]] {
                let name = format!("P {p}, {} bytes", bytes.len());
                self.invalid(TooShort, name, bytes, (LARGEST, p, LARGEST));
            }
        }
    }

    pub(super) fn parameters(&mut self) {
        self.cell = "P = 0; P = 32";
        for (p, m) in [(0, 1), (0, 5), (32, 7), (32, LARGEST)] {
            self.valid(format!("P {p}, M {m}"), honest(50, p, m), (50, p, m));
        }
        self.cell = "P = 33, 63, 64, 255";
        for p in [33, 63, 64, 255] {
            for (n, m) in [(1, 1), (0, M), (LARGEST, LARGEST)] {
                let name = format!("P {p}, N {n}");
                self.invalid(BadParameter, name, [0; 5], (n, p, m));
            }
        }
        self.cell = "M = 0; M = 2^32";
        for m in [0, 1 << 32, u64::MAX] {
            self.invalid(BadParameter, format!("M {m}"), [0; 3], (1, P, m));
            self.invalid(BadParameter, format!("M {m}, N 0"), [], (0, P, m));
        }
        self.cell = "M = 1; M = 2^32 - 1";
        // With one item F is 1, and the only value 0.
        self.valid("one item", [0; 3], (1, P, 1));
        for (p, m) in [(0, 1), (P, 1), (32, 1), (31, LARGEST), (32, LARGEST)] {
            self.valid(format!("P {p}, M {m}"), honest(40, p, m), (40, p, m));
        }
    }

    pub(super) fn cuts(&mut self) {
        // P = 3, M = 40, N = 2: F = 80, at least one byte and at most (8 + 9) / 8, so three of them.
        let short = (2, 3, 40);
        self.cell = "a cut within a run; within a remainder; at any byte";
        self.invalid(TooShort, "in the run", [0b0000_1111], short);
        self.invalid(TooShort, "in the remainder", [0b0000_1110], short);
        let whole = honest(200, P, M);
        for len in 0..whole.len() {
            self.invalid(TooShort, format!("{len} bytes"), &whole[..len], (200, P, M));
        }
        // Enough for the lanes of every kernel: cut in the middle of what they read, and behind it.
        let set = SortedHashes::from_items((0..20_000_u32).map(u32::to_le_bytes));
        let whole = set.encode(Params::CASHU).expect("a filter").into_bytes();
        for len in [50_001, 52_000, whole.len() - 1] {
            let name = format!("{len} bytes of a large one");
            self.invalid(TooShort, name, &whole[..len], (20_000, P, M));
        }
        self.cell = "accepted as it is";
        self.valid("20,000 items", whole, (20_000, P, M));
    }
}
