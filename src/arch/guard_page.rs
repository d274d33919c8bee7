//! Memory that ends at an inaccessible page: a read or a write one byte beyond it crashes the test program.
//!
//! The callers of a kernel compute which memory it may touch. These tests check those computations. No other
//! test could: bits beyond the end change no answer, because scalar code decodes every position beyond the end
//! again.

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr;

/// The largest page of Arm 64, a multiple of that of x86-64.
const PAGE: usize = 64 << 10;

/// Types for which any bits are a valid value.
pub(crate) trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u32 {}
impl Plain for u64 {}

// The C library that `std` is linked with.
unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        len: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn mprotect(at: *mut c_void, len: usize, protection: c_int) -> c_int;
    fn munmap(at: *mut c_void, len: usize) -> c_int;
}

/// A slice that ends at the end of its page. The next page is inaccessible.
pub(crate) struct Guarded<T: Plain> {
    pages: *mut c_void,
    bytes: usize,
    len: usize,
    plain: PhantomData<T>,
}

impl<T: Plain> Guarded<T> {
    /// A copy of `items`.
    pub(crate) fn new(items: &[T]) -> Self {
        const NONE: c_int = 0;
        const READ_AND_WRITE: c_int = 3;
        /// `MAP_PRIVATE | MAP_ANONYMOUS`.
        const ANONYMOUS: c_int = 0x22;
        let bytes = size_of_val(items).next_multiple_of(PAGE) + PAGE;
        // SAFETY: requests new memory at an address that the system chooses.
        let pages = unsafe { mmap(ptr::null_mut(), bytes, READ_AND_WRITE, ANONYMOUS, -1, 0) };
        assert!(pages.addr() != usize::MAX, "no memory");
        // SAFETY: the last of the new pages, which is unused.
        let guarded = unsafe { mprotect(pages.byte_add(bytes - PAGE), PAGE, NONE) };
        assert_eq!(guarded, 0);
        let mut guarded = Self { pages, bytes, len: items.len(), plain: PhantomData };
        guarded.copy_from_slice(items);
        guarded
    }

    fn start(&self) -> *mut T {
        let end = self.pages.wrapping_byte_add(self.bytes - PAGE);
        end.wrapping_byte_sub(self.len * size_of::<T>()).cast()
    }
}

impl<T: Plain> Deref for Guarded<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the numbers lie between the start and the last page. The system initialised the pages to zeros, any
        // bits are a valid number, and the end of a page is aligned for all types.
        unsafe { core::slice::from_raw_parts(self.start(), self.len) }
    }
}

impl<T: Plain> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the pages belong to this value alone.
        unsafe { core::slice::from_raw_parts_mut(self.start(), self.len) }
    }
}

impl<T: Plain> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: the pages belong to this value alone, which is being dropped.
        unsafe { munmap(self.pages, self.bytes) };
    }
}

mod tests {
    use super::*;
    #[cfg(target_arch = "x86_64")]
    use crate::arch::lanes::Point;
    use crate::arch::lanes::{GROUP, Lanes, Scalar, decode_groups, decode_groups_into};
    use crate::arch::{Baseline, Kind, SimdLevel};
    #[cfg(target_arch = "x86_64")]
    use crate::arch::{hash, lookup_lanes, x86_64::CodeStream};
    use crate::tests::spread;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Short codes, endless runs, and random bytes.
    fn streams(len: usize) -> [Vec<u8>; 4] {
        [
            vec![0; len],
            vec![0xff; len],
            (0..len as u64).map(|i| spread(i) as u8).collect(),
            // Short codes, then an endless run.
            (0..len).map(|i| if i + 300 < len { 0x11 } else { 0xff }).collect(),
        ]
    }

    /// One lane at `foremost`, the others before it.
    fn lanes<const N: usize>(foremost: u64) -> Lanes<N> {
        Lanes {
            positions: core::array::from_fn(|lane| {
                foremost.saturating_sub((lane as u64 * 7) % N as u64 * 5)
            }),
            values: [0; N],
        }
    }

    /// Runs both lane kernels of a token from all positions near and beyond the end of `bytes`.
    macro_rules! advance_near_the_end {
        ($token:expr, $lanes:expr, $bytes:expr) => {
            let bytes: &[u8] = $bytes;
            let bits = bytes.len() as u64 * 8;
            let mut out = Guarded::new(&vec![0_u64; $lanes * 3 * GROUP]);
            let places = core::array::from_fn(|lane| lane * 3 * GROUP);
            let before = (0..400).chain((400..12_000).step_by(53));
            let beyond = [bits + 1, bits + 64, 1 << 40, u64::MAX - 4, u64::MAX];
            let positions = before.map(|before| bits.saturating_sub(before));
            for position in positions.chain(beyond) {
                for p in [0, 1, 3, 19, 27, 28, 32] {
                    for groups in [1, 2, usize::MAX / 64] {
                        let mut lanes = lanes::<{ $lanes }>(position);
                        decode_groups($token, bytes, p, &mut lanes, groups);
                    }
                    let mut lanes = lanes::<{ $lanes }>(position);
                    decode_groups_into($token, bytes, p, &mut lanes, 3, &mut out, &places);
                }
            }
        };
    }

    #[test]
    fn lanes_read_and_write_nothing_beyond_the_end() {
        for len in [0, 1, 7, 8, 9, 64, 105, 106, 107, 108, 109, 110, 200, 1300, 3000] {
            for stream in streams(len) {
                let bytes = Guarded::new(&stream);
                for level in SimdLevel::available() {
                    match level.kind() {
                        Kind::Baseline(Baseline::Scalar) => {
                            advance_near_the_end!(Scalar, 4, &bytes);
                        }
                        #[cfg(target_arch = "aarch64")]
                        Kind::Baseline(Baseline::Neon(neon)) => {
                            advance_near_the_end!(neon, 12, &bytes);
                        }
                        #[cfg(target_arch = "x86_64")]
                        Kind::Avx2(avx2) => {
                            advance_near_the_end!(avx2, 16, &bytes);
                        }
                        #[cfg(target_arch = "x86_64")]
                        Kind::Avx512(avx512) => {
                            advance_near_the_end!(avx512, 32, &bytes);
                        }
                    }
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn look_ups_read_nothing_beyond_the_end() {
        fn look_up_near_the_end<const N: usize>(simd: impl lookup_lanes::LookUp<N>) {
            for len in [0, 1, 7, 8, 9, 20, 100, 200, 1_000] {
                for stream in streams(len) {
                    let bytes = Guarded::new(&stream);
                    let bits = len as u64 * 8;
                    for count in (0..=70).chain([255, 256]) {
                        let position = |i: u64| match i % 5 {
                            4 => spread(i),
                            3 => (bits + 70).saturating_sub(i * 37),
                            _ => (bits + 70).saturating_sub(i * 3 % 200),
                        };
                        let point = |i| Point { position: position(i), base: 0 };
                        let points: Vec<Point> = (0..count).map(point).collect();
                        let targets = Guarded::new(&vec![u64::MAX >> 2; count as usize]);
                        let mut answers = Guarded::new(&vec![0_u8; count as usize]);
                        for p in [0, 3, 19, 27, 32] {
                            for in_pairs in [false, true] {
                                let code = (p, in_pairs);
                                lookup_lanes::look_up(
                                    simd,
                                    &bytes,
                                    code,
                                    &points,
                                    &targets,
                                    &mut answers,
                                );
                            }
                        }
                    }
                }
            }
        }

        for level in SimdLevel::available() {
            match level.kind() {
                Kind::Baseline(_) => (),
                Kind::Avx2(avx2) => look_up_near_the_end(avx2),
                Kind::Avx512(avx512) => look_up_near_the_end(avx512),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn lanes_of_filters_read_nothing_beyond_their_bytes_and_targets() {
        use crate::arch::x86_64::side_by_side::{Decodes, LANES, LOADED, NEXT, SideBySide};

        fn advance_to_the_end(simd: impl Decodes, round: u64) {
            // One lane comes to its end; where another one stops, all do.
            let short = round as usize % LANES;
            let bytes: [_; LANES] = core::array::from_fn(|lane| {
                let random = spread(round << 8 | lane as u64);
                if lane == short {
                    let len = LOADED + (random >> 8) as usize % 300;
                    Guarded::new(&streams(len)[(random % 4) as usize])
                } else {
                    Guarded::new(&[0; 3000])
                }
            });
            let targets: [_; LANES] = core::array::from_fn(|lane| {
                let random = spread(round << 8 | lane as u64 | 1 << 32);
                let mut numbers: Vec<u32> =
                    (0..random % 40).map(|i| spread(random + i) as u32 >> 10).collect();
                numbers.extend([u32::MAX; NEXT]);
                numbers.sort_unstable();
                Guarded::new(&numbers)
            });
            let random = |lane| spread(round << 8 | lane as u64 | 1 << 33);
            let mut lanes = SideBySide {
                positions: core::array::from_fn(|lane| {
                    random(lane) % ((bytes[short].len() - LOADED + 1) as u64 * 8)
                }),
                sums: core::array::from_fn(|lane| random(lane) >> 44),
                active: u32::MAX ^ (1_u64 << (round % 64)) as u32,
                at_target: core::array::from_fn(|lane| {
                    (random(lane) >> 20) as u32 % (targets[lane].len() - NEXT + 1) as u32
                }),
                dropped: core::array::from_fn(|lane| random(lane) % 4),
                found: [0; LANES / 4],
            };
            let targets = targets.each_ref().map(|targets| &**targets);
            lanes.decode_groups(simd, &bytes.each_ref().map(|bytes| &**bytes), 100, targets);
            for (at, targets) in lanes.at_target.iter().zip(targets) {
                assert!(*at as usize + NEXT <= targets.len());
            }
        }

        for round in 0..1000 {
            for level in SimdLevel::available() {
                match level.kind() {
                    Kind::Baseline(_) => (),
                    Kind::Avx2(avx2) => advance_to_the_end(avx2, round),
                    Kind::Avx512(avx512) => advance_to_the_end(avx512, round),
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn hashing_reads_and_writes_nothing_beyond_its_records() {
        const KEY: [u64; 4] = [1, 2, 3, 4];
        for width in (1..=70).chain([96, 127, 128, 129, 160, 257]) {
            for count in [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 127, 128, 129, 150] {
                let records: Vec<u8> =
                    (0..width as u64 * count as u64).map(|i| spread(i) as u8).collect();
                let records = Guarded::new(&records);
                let mut out = Guarded::new(&vec![0_u64; count]);
                let rows = hash::Records::new(&records, width);
                let points = if width == 33 { records.as_chunks().0 } else { &[] };
                let points: Vec<&[u8; 33]> = points.iter().collect();
                let out_of_points = ..points.len();
                for level in SimdLevel::available() {
                    match level.kind() {
                        Kind::Baseline(_) => (),
                        Kind::Avx2(avx2) => {
                            hash::nut25::<_, 4>(avx2, rows, &mut out);
                            hash::nut23(avx2, rows, &mut out);
                            hash::nut25::<_, 4>(avx2, &points[..], &mut out[out_of_points]);
                            hash::siphash::<_, 3, 2, 2>(avx2, KEY, &records, width, &mut out);
                            hash::map_to_range(avx2, &mut out, u64::MAX >> (width % 30));
                        }
                        Kind::Avx512(avx512) => {
                            hash::nut25::<_, 8>(avx512, rows, &mut out);
                            hash::nut23(avx512, rows, &mut out);
                            hash::nut25::<_, 8>(avx512, &points[..], &mut out[out_of_points]);
                            hash::siphash::<_, 4, 0, 4>(avx512, KEY, &records, width, &mut out);
                            hash::map_to_range(avx512, &mut out, u64::MAX >> (width % 30));
                        }
                    }
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn codes_are_written_within_the_room() {
        for (p, more) in (3..=24_u64).flat_map(|p| [(p, 0), (p, 1)]) {
            // Each lane has the maximum length, or one bit more.
            let most = 57 - 2 * (p + 1) + more;
            let steps = (0..64).map(|i| if i % 2 == 1 { most << p } else { 0 });
            let hashes: Vec<u64> = steps
                .scan(0, |value, step| {
                    *value += step << 14;
                    Some(*value)
                })
                .collect();
            let (p, hashes) = (p as u32, Guarded::new(&hashes));
            for len in 0..260 {
                let mut room = Guarded::new(&vec![0_u8; len]);
                for (level, position) in
                    SimdLevel::available().flat_map(|level| (0..8).map(move |at| (level, at)))
                {
                    let mut stream = CodeStream { previous: 0, bits: 0, position };
                    match level.kind() {
                        Kind::Baseline(_) => 0,
                        Kind::Avx2(avx2) => {
                            avx2.encode_pairs(1 << 50, p, &hashes, &mut stream, &mut room)
                        }
                        Kind::Avx512(avx512) => {
                            avx512.encode_pairs(1 << 50, p, &hashes, &mut stream, &mut room)
                        }
                    };
                    assert!(stream.position <= len as u64 * 8 + 7);
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn cells_are_written_within_the_room() {
        let Kind::Avx512(avx512) = SimdLevel::detect().kind() else {
            return;
        };
        for len in 0..70 {
            let mut places = [[u64::MAX; 256]; 16];
            let mut next: [u16; 256] = core::array::from_fn(|cell| cell as u16);
            for (cell, next) in next.iter_mut().enumerate() {
                // Some cells claim to hold more than they have places for.
                *next += 256 * (cell as u16 * 5 % 23);
            }
            let mut out = Guarded::new(&vec![0_u64; len]);
            avx512.drain_cells(&mut places, &next, &mut out);
            avx512.drain_float_cells(&mut places, &next, 5, &mut out);
        }
    }
}
