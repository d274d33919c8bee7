//! Compares every way to decode a whole filter with the serial scan at the portable level: all must give its
//! errors and values. The scan itself is compared with the bit-by-bit reference.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::arch::lanes::{self as kernels, Lanes, Simd};
use crate::cost;
use crate::params::Params;
use crate::tests::Noise;

fn coded(differences: impl IntoIterator<Item = u64>, p: u32) -> Vec<u8> {
    let sums = differences.into_iter().scan(0, |sum, difference| {
        *sum += difference;
        Some(*sum)
    });
    nutfilter_reference::encode_values(&sums.collect::<Vec<u64>>(), p)
}

fn differences(values: &[u64]) -> impl Iterator<Item = u64> {
    let before = [0].into_iter().chain(values.iter().copied());
    values.iter().zip(before).map(|(value, before)| value - before)
}

fn of(level: SimdLevel, bytes: &[u8], n: u32, params: Params) -> Coded<'_> {
    Coded { level, bytes, n, params }
}

type Outcome = Result<u64, DecodeError>;

/// The result of the serial scan, value by value.
fn serial(bytes: &[u8], n: u32, params: Params) -> (Vec<u64>, Outcome) {
    let mut scanner = Scanner::new(SimdLevel::SCALAR, bytes, n, params);
    let mut values = Vec::new();
    loop {
        match scanner.next_value() {
            Ok(Some(value)) => values.push(value),
            Ok(None) => return (values, scanner.finish()),
            Err(error) => return (values, Err(error)),
        }
    }
}

/// Checks that all functions at every level equal the serial scan, and returns its result.
fn check(what: &str, bytes: &[u8], n: u32, params: Params) -> Outcome {
    let (values, expected) = serial(bytes, n, params);
    for level in SimdLevel::available() {
        let what = format!("{what}: {n} items, {params:?}, {level}");
        let coded = of(level, bytes, n, params);
        assert_eq!(validate(coded), expected, "{what}");
        check_visit(&what, coded, &values, expected);
        check_lanes(&what, coded, &values, expected);
        check_ahead(&what, coded, &values, expected);
        for step in [1, 16, 100] {
            let table = seek_table(coded, step, u64::MAX);
            check_table(&what, &table, step, params, &values, expected);
        }
    }
    expected
}

fn check_visit(what: &str, coded: Coded<'_>, values: &[u64], expected: Outcome) {
    let mut seen = 0;
    // What an earlier filter left.
    let (mut memory, mut all) = (vec![7; 100], vec![7]);
    let read = append_values(&mut memory, &mut all, coded);
    assert_eq!(read, expected.map(drop), "{what}");
    if read.is_ok() {
        assert_eq!(all[1..], *values, "{what}");
    }
    let visited = visit(coded, |slice| {
        assert!(!slice.is_empty(), "{what}");
        assert_eq!(slice, &values[seen..][..slice.len()], "{what}, item {seen}");
        seen += slice.len();
        ControlFlow::Continue(())
    });
    assert_eq!(visited, expected.map(ControlFlow::Continue), "{what}");
    if expected.is_ok() {
        assert_eq!(seen, values.len(), "{what}");
        // It must also stop where it is asked to.
        let mut slices = 0;
        let stopped = visit(coded, |_| {
            slices += 1;
            if slices == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let stops = if slices < 3 {
            expected.map(ControlFlow::Continue)
        } else {
            Ok(ControlFlow::Break(()))
        };
        assert_eq!(stopped, stops, "{what}");
        assert!(slices <= 3, "{what}");
    }
}

/// Values that an iterator decodes ahead, and then the rest one after another.
fn check_ahead(what: &str, coded: Coded<'_>, values: &[u64], expected: Outcome) {
    let mut scanner = coded.scanner(Boundary::START);
    // What an earlier filter left.
    let (mut memory, mut seen) = (vec![7; 1000], Vec::new());
    let mut more = Ok(true);
    while more == Ok(true) {
        more = append_ahead(&mut memory, &mut seen, &mut scanner, coded);
    }
    if let Err(error) = more {
        assert_eq!(Err(error), expected, "{what}");
        return;
    }
    while let Ok(Some(value)) = scanner.next_value() {
        seen.push(value);
    }
    assert!(seen == values, "{what}: {} values", seen.len());
}

/// Values from lanes, also for few items, for which [`visit`] would use none.
fn check_lanes(what: &str, coded: Coded<'_>, values: &[u64], expected: Outcome) {
    let mut seen = 0;
    // What an earlier filter left.
    let mut memory = vec![7; 1000];
    let mut each = |slice: &[u64], base| {
        let slice: Vec<u64> = slice.iter().map(|value| value + base).collect();
        assert_eq!(slice, &values[seen..][..slice.len()], "{what}, item {seen}");
        seen += slice.len();
        ControlFlow::Continue(())
    };
    let mut visit = Visit::new(&mut memory, &mut each);
    let driven = drive!(coded, Boundary::START, BUFFERED_LANE, &mut visit);
    assert_eq!(driven, expected.map(ControlFlow::Continue), "{what}");
    if expected.is_ok() {
        assert_eq!(seen, values.len(), "{what}");
    }
}

fn check_table(
    what: &str,
    table: &Result<SeekTable, DecodeError>,
    step: u32,
    params: Params,
    values: &[u64],
    expected: Outcome,
) {
    let table = match (table, expected) {
        (Ok(table), Ok(end)) => {
            assert_eq!(table.end, end, "{what}");
            table
        }
        _ => {
            assert_eq!(table.as_ref().map(|table| table.end), expected.as_ref().copied(), "{what}");
            return;
        }
    };
    let p = params.p();
    let mut position = 0;
    let mut base = 0;
    let mut at = 0;
    let mut since = 0;
    for (item, difference) in differences(values).enumerate() {
        if table.positions.get(at) == Some(&position) {
            assert_eq!(table.bases[at], base, "{what}, place {at}");
            at += 1;
            since = 0;
        }
        assert!(since < step, "{what}: no place near item {item}, step {step}");
        assert!(item > 0 || at == 1, "{what}: no first place");
        since += 1;
        position += (difference >> p) + 1 + u64::from(p);
        base += difference;
    }
    assert_eq!(at, table.positions.len(), "{what}: unexpected places");
    assert_eq!(at, table.bases.len(), "{what}");
    let most = 2 * values.len() / (step as usize) + 40 * (1 + values.len() / 2048);
    assert!(at <= most, "{what}: {at} places, step {step}");
}

/// An M that suits P.
fn fitting(p: u32) -> u64 {
    (3 << p >> 1).clamp(1, u64::from(u32::MAX))
}

#[test]
fn uniform_values_are_decoded_for_every_p() {
    let mut random = Noise::of(1);
    for p in 0..=32 {
        for m in [fitting(p), fitting(p) * 5 / 2 + 1, fitting(p) / 8 + 1, fitting(p) / 1000 + 1, 1]
        {
            let params = Params::new(p, m.min(u64::from(u32::MAX))).unwrap();
            for n in [100, 9001] {
                let values = random.sorted(n, params.range(n));
                let bytes = coded(differences(&values), p);
                assert!(check("uniform", &bytes, n, params).is_ok());
                let reference = nutfilter_reference::decode(&bytes, u64::from(n), p, params.m());
                assert_eq!(reference.as_ref(), Ok(&values));
                assert_eq!(serial(&bytes, n, params).0, values);
            }
        }
    }
}

#[test]
fn numbers_of_items_around_every_border_are_decoded() {
    let mut random = Noise::of(2);
    for (p, m) in [(19, 784_931), (6, 100), (0, 1)] {
        let params = Params::new(p, m).unwrap();
        let few = 0..70;
        let some = (1..130).map(|i| i * 61);
        let many =
            (0..40).flat_map(|i| [32 * 2048 + 20 - i, 32 * 2048 - 97 * i, 4 * 8192 - 20 + i]);
        for n in few.chain(some).chain(many.step_by(7)) {
            let values = random.sorted(n, params.range(n));
            let bytes = coded(differences(&values), p);
            assert!(check("uniform", &bytes, n, params).is_ok());
        }
    }
}

/// Parameters with which these differences do not exceed the range.
fn params_for(p: u32, differences: &[u64]) -> Params {
    let total: u64 = differences.iter().sum();
    let m = (total + 1).div_ceil(differences.len() as u64);
    Params::new(p, m.clamp(1, u64::from(u32::MAX))).unwrap()
}

#[test]
fn differences_that_never_fall_into_step_are_decoded() {
    for p in [0, 1, 2, 3, 5, 8, 13, 19, 24, 28, 32] {
        let unit = 1_u64 << p;
        let patterns: [&[u64]; 9] = [
            &[0],
            &[1],
            &[unit - 1],
            &[unit],
            &[3 * unit + unit / 3],
            &[2 * unit, 0],
            &[unit / 2, 5 * unit, unit - 1],
            // As bits: zeros, ones, and what shifts of itself look like.
            &[0xaaaa_aaaa_aaaa & (unit - 1)],
            &[0x5555_5555_5555 & (unit - 1), unit],
        ];
        for pattern in patterns {
            let n = 30_011;
            if pattern.iter().sum::<u64>() / pattern.len() as u64 >= u64::from(u32::MAX) {
                continue; // more than any M allows
            }
            let differences: Vec<u64> = pattern.iter().copied().cycle().take(n).collect();
            let params = params_for(p, &differences);
            let bytes = coded(differences, p);
            let outcome = check(&format!("cycle of {pattern:?}"), &bytes, n as u32, params);
            assert!(outcome.is_ok(), "{outcome:?}");
        }
    }
}

#[test]
fn streams_that_fall_out_of_step_halfway_are_decoded() {
    let mut random = Noise::of(3);
    for p in [4, 10, 19] {
        let m = fitting(p);
        let n = 40_000;
        let values = random.sorted(n, m * u64::from(n));
        let mut steps: Vec<u64> = differences(&values).collect();
        for (from, to) in [(10_000, 15_000), (30_000, 30_200), (38_000, 40_000)] {
            steps[from..to].fill(m);
        }
        let params = params_for(p, &steps);
        let outcome = check("stretches of equal differences", &coded(steps, p), n, params);
        assert!(outcome.is_ok());
    }
}

#[test]
fn long_runs_are_decoded_wherever_they_are() {
    let mut random = Noise::of(4);
    for p in [0, 3, 12, 19, 25] {
        for run in [10, 40, 57, 58, 64, 100, 1000, 4095, 4096, 4097, 100_000] {
            let n = 20_000_u32;
            let values = random.sorted(n, fitting(p) * u64::from(n));
            let mut steps: Vec<u64> = differences(&values).collect();
            let often = if run < 100 { 300 } else { 5 };
            for _ in 0..often {
                let at = random.below(u64::from(n)) as usize;
                steps[at] += run << p;
            }
            steps[0] += run << p;
            steps[n as usize - 1] += run << p;
            let params = params_for(p, &steps);
            let outcome = check(&format!("runs of {run}"), &coded(steps, p), n, params);
            assert!(outcome.is_ok());
        }
    }
}

/// Invalid bytes and numbers, each with a description.
fn damaged(
    random: &mut Noise,
    bytes: &[u8],
    n: u32,
    params: Params,
) -> Vec<(String, Vec<u8>, u32, Params)> {
    let mut all = Vec::new();
    let mut add = |what: String, bytes: Vec<u8>, n: u32, m: u64| {
        let params = Params::new(params.p(), m.clamp(1, u64::from(u32::MAX))).unwrap();
        all.push((what, bytes, n, params));
    };
    let m = params.m();
    for cut in [1, 2, 7, 8, 9, 100, 600, bytes.len() / 2, bytes.len() - 1] {
        let len = bytes.len().saturating_sub(cut);
        add(format!("cut to {len}"), bytes[..len].to_vec(), n, m);
    }
    for more in [1, 8, 9, 1000] {
        let longer = [bytes, &vec![0; more]].concat();
        add(format!("{more} zeros added"), longer, n, m);
        let longer = [bytes, &vec![0xff; more]].concat();
        add(format!("{more} ones added"), longer, n, m);
    }
    for by in [1, 2, 7, 300] {
        add(format!("{by} items more"), bytes.to_vec(), n + by, m);
        add(format!("{by} items fewer"), bytes.to_vec(), n.saturating_sub(by), m);
    }
    for divisor in [2, 10, 1000] {
        add(String::from("M too small"), bytes.to_vec(), n, m / divisor);
    }
    add(String::from("M a little too small"), bytes.to_vec(), n, m - m / 50);
    for _ in 0..12 {
        let mut flipped = bytes.to_vec();
        let bit = random.below(bytes.len() as u64 * 8) as usize;
        flipped[bit / 8] ^= 1 << (bit % 8);
        add(format!("bit {bit} flipped"), flipped, n, m);
    }
    for _ in 0..4 {
        let mut burnt = bytes.to_vec();
        let from = random.below(bytes.len() as u64) as usize;
        let to = (from + random.below(3000) as usize).min(bytes.len());
        let byte = [0, 0xff, 0x55][random.below(3) as usize];
        burnt[from..to].fill(byte);
        add(format!("bytes {from} to {to} made {byte:#x}"), burnt, n, m);
    }
    all
}

#[test]
fn damage_gets_the_error_that_the_serial_scan_gives() {
    let mut random = Noise::of(5);
    let (mut right, mut wrong) = (0, 0);
    for p in [0, 1, 4, 9, 19, 22, 25, 32] {
        let n = 12_000;
        let params = Params::new(p, fitting(p)).unwrap();
        let values = random.sorted(n, params.range(n));
        let bytes = coded(differences(&values), p);
        for (what, bytes, n, params) in damaged(&mut random, &bytes, n, params) {
            match check(&what, &bytes, n, params) {
                Ok(_) => right += 1,
                Err(_) => wrong += 1,
            }
        }
    }
    assert!(right > 10 && wrong > 150, "{right} right, {wrong} wrong");
}

/// All values of the last lanes are the largest one, or one above.
#[test]
fn range_is_a_value_too_large_in_every_lane() {
    for (p, m) in [(19, 784_931), (6, 100)] {
        let n = 20_000;
        let params = Params::new(p, m).unwrap();
        for (more, is_good) in [(0, true), (1, false)] {
            let mut steps = vec![0; n as usize];
            steps[..n as usize / 2].fill(2 * m);
            steps[9] = 2 * m - 1 + more;
            assert_eq!(steps.iter().sum::<u64>(), params.range(n) - 1 + more);
            assert_eq!(check("largest values", &coded(steps, p), n, params).is_ok(), is_good);
        }
    }
}

#[test]
fn sums_in_lanes_that_overflow_64_bits_are_out_of_range() {
    let params = Params::new(32, u64::from(u32::MAX)).unwrap();
    let n = u32::MAX;
    let largest = params.range(n) - 1;
    let items = 9000;
    for (step, below) in
        [(0, 0), (1, 5000), (1, 1000), (3 << 32, 100 << 32), (9 << 32, 80_000 << 32)]
    {
        let steps = vec![step; items];
        let bytes = coded(steps, 32);
        // From here it is `below` to the largest value, which is far below the added sum.
        let place = Boundary { position: 0, value: largest - below, item: n - items as u32 };
        let coded = |level| of(level, &bytes, n, params);
        let expected = coded(SimdLevel::SCALAR).scanner(place).finish();
        assert_eq!(expected.is_ok(), step * items as u64 <= below);
        for level in SimdLevel::available() {
            let coded = coded(level);
            let found = drive!(coded, place, LONG_LANE, &mut Check);
            assert_eq!(found, expected.map(ControlFlow::Continue), "{step}, {below}, {level}");
        }
    }
}

#[test]
fn codes_of_one_bit_more_than_a_window_are_decoded_at_every_bit() {
    let mut random = Noise::of(11);
    for p in [1, 2, 3, 9, 12, 19, 25, 28, 30] {
        for bits in [56_u32, 57, 58, 59] {
            // One such code, or two that together are as long, with remainders that end in a zero.
            let one = bits - 1 - p;
            let two = (bits - 2).checked_sub(2 * p);
            for run in [Some((one, 0)), two.map(|two| (two, 1))].into_iter().flatten() {
                let (run, beside) = (u64::from(run.0), run.1);
                let n = 20_000_u32;
                let values = random.sorted(n, fitting(p) * u64::from(n));
                let mut steps: Vec<u64> = differences(&values).collect();
                for _ in 0..300 {
                    let at = random.below(u64::from(n) - 1) as usize;
                    steps[at] = run << p;
                    steps[at + 1] = if beside == 1 { 0 } else { steps[at + 1] };
                }
                let params = params_for(p, &steps);
                let what = format!("codes of {bits} bits, {beside} beside");
                assert!(check(&what, &coded(steps, p), n, params).is_ok());
            }
        }
    }
}

/// Counts who decoded which items. Abandoned lanes give the same values and errors, only later, so only these
/// counts show that lanes work.
struct Counting<S> {
    inner: S,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    /// The number of lanes.
    lanes: usize,
    /// How often lanes were started, and a kernel was called.
    chunks: usize,
    calls: usize,
    /// Items, by who read them: a kernel (of one lane), lanes code by code, the serial scan; and those that lanes
    /// read and that counted.
    by_kernel: usize,
    singly: usize,
    serially: usize,
    in_lanes: usize,
}

impl<S> Counting<S> {
    fn new(inner: S) -> Self {
        let counts = Counts::default();
        Self { inner, counts }
    }
}

impl<const N: usize, S: lane_decoder::Take<N>> lane_decoder::Take<N> for Counting<S> {
    fn mark(&mut self, done: usize, lanes: &crate::arch::lanes::Lanes<N>) -> usize {
        self.inner.mark(done, lanes)
    }

    fn mark_one(&mut self, lane: usize, done: usize, position: u64, value: u64) {
        self.inner.mark_one(lane, done, position, value);
    }

    fn store_value(&mut self, lane: usize, done: usize, value: u64) -> bool {
        self.counts.singly += 1;
        self.inner.store_value(lane, done, value)
    }

    fn decode_groups(
        &mut self,
        simd: impl Simd<N>,
        bytes: &[u8],
        p: u32,
        lanes: &mut crate::arch::lanes::Lanes<N>,
        done: usize,
        groups: usize,
    ) -> crate::arch::lanes::Advanced {
        let advanced = self.inner.decode_groups(simd, bytes, p, lanes, done, groups);
        self.counts.calls += 1;
        self.counts.by_kernel += advanced.groups * crate::arch::lanes::GROUP;
        advanced
    }
}

impl<const N: usize, S: resync::ValueSink<N>> resync::ValueSink<N> for Counting<S> {
    fn begin(&mut self, room: usize) {
        self.counts.chunks += 1;
        self.counts.lanes = N;
        self.inner.begin(room);
    }

    fn lane(&mut self, lane: usize, count: usize, base: u64) -> ControlFlow<()> {
        self.counts.in_lanes += count;
        self.inner.lane(lane, count, base)
    }

    fn place(&mut self, position: u64, value: u64) -> usize {
        self.inner.place(position, value)
    }

    fn serial_values(&mut self, values: &[u64]) -> ControlFlow<()> {
        self.counts.serially += values.len();
        self.inner.serial_values(values)
    }
}

impl Counts {
    /// What is decoded of a uniform filter is as it should be; kernels may be called for so many items of a lane
    /// at a time.
    fn check(&self, what: &str, coded: Coded<'_>, lane_items: u64, step: usize) {
        let (n, lanes) = (coded.n as usize, self.lanes);
        let bits = coded.bytes.len() as u64 * 8;
        let tail = u64::from(coded.n) * (bits - coded.lanes_end()) / bits;
        let what = format!("{what}, {} items, {:?}, {}", coded.n, coded.params, coded.level);
        assert_eq!(self.in_lanes + self.serially, n, "{what}");
        // The tail, and one lane in a hundred that began out of step.
        let most = tail as usize * 11 / 10 + n / 100 + 64;
        assert!(self.serially <= most, "{what}: {} serially", self.serially);
        let chunks = (u64::from(coded.n) - tail).div_ceil(lane_items * lanes as u64) as usize;
        assert_eq!(self.chunks, chunks, "{what}: chunks");
        // Lanes end within some codes of each other.
        let most = self.chunks * lanes * 40;
        assert!(self.singly <= most, "{what}: {} singly", self.singly);
        let least = (n - tail as usize) * 97 / 100;
        assert!(self.by_kernel * lanes >= least, "{what}: {} by kernel", self.by_kernel * lanes);
        // Once for each chunk, for the surplus of a guess, and where a code does not fit.
        let most = self.by_kernel / step + self.by_kernel / 200 + self.chunks * 4;
        assert!(self.calls <= most, "{what}: {} calls", self.calls);
    }
}

#[test]
fn nearly_all_of_a_uniform_filter_is_read_by_kernels_in_lanes() {
    let mut random = Noise::of(21);
    for (p, m) in [(19, 784_931), (10, 1 << 10), (6, 100)] {
        for n in [20_000, 150_000] {
            let params = Params::new(p, m).unwrap();
            let values = random.sorted(n, params.range(n));
            let bytes = coded(differences(&values), p);
            for level in SimdLevel::available() {
                let coded = of(level, &bytes, n, params);
                let mut all = Counting::new(Check);
                let driven = drive!(coded, Boundary::START, LONG_LANE, &mut all);
                assert!(driven.unwrap().is_continue());
                all.counts.check("checked", coded, LONG_LANE, usize::MAX);
                for step in [8, 64, 96] {
                    let sample = SampleVisitor::new(n, step);
                    let lane_items = sample.lane_items();
                    assert_eq!(lane_items, LONG_LANE.min(step as u64 * 128));
                    let mut all = Counting::new(sample);
                    let driven = drive!(coded, Boundary::START, lane_items, &mut all);
                    assert!(driven.unwrap().is_continue());
                    all.counts.check("sampled", coded, lane_items, step);
                }
                let mut memory = Vec::new();
                let mut each = |_: &[u64], _| ControlFlow::Continue(());
                let visit = Visit::new(&mut memory, &mut each);
                let mut all = Counting::new(visit);
                let driven = drive!(coded, Boundary::START, BUFFERED_LANE, &mut all);
                assert!(driven.unwrap().is_continue());
                all.counts.check("visited", coded, BUFFERED_LANE, usize::MAX);
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
#[test]
fn neon_is_for_codes_of_short_runs() {
    // The bytes of a thousand codes. Instructions were counted for these filters.
    for (p, m, len, suits) in [
        (4, 64, 1_067, true),
        (4, 72, 1_127, false),
        (19, 784_931, 2_630, true),
        (23, 12_558_896, 3_132, true),
        (24, 25_117_792, 3_257, false),
        (32, 1 << 32, 4_250, false),
    ] {
        let coded = Coded {
            level: SimdLevel::detect(),
            bytes: &alloc::vec![0; len],
            n: 1_000,
            params: Params::new(p, m - 1).unwrap(),
        };
        assert_eq!(coded.suits_neon(), suits, "P = {p}");
    }
}

#[test]
fn lanes_are_spread_over_the_sets_of_a_cache() {
    for lanes in [4, 12, 16, 32] {
        for lane_bits in (256..200_000).step_by(32) {
            let mut spread = lane_bits;
            while resync::crowded(lanes, spread) {
                spread -= resync::CROWDED_BITS;
            }
            assert!(lane_bits - spread <= 3 * resync::CROWDED_BITS, "{lane_bits}");
            let mut sets = [0; 64];
            for lane in 0..lanes as u64 {
                sets[(lane * spread / 512 % 64) as usize] += 1;
            }
            let most = sets.into_iter().max();
            assert!(most <= Some(5), "{most:?} of {lanes}, {spread} bits apart");
        }
    }
}

/// Codes whose length changes mislead the guess of how many codes fit before the stops of the lanes.
#[test]
fn dense_filters_of_changing_density_are_read_a_few_times() {
    for p in 0..=3 {
        for n in [6_001_u64, 20_000, 65_755, 150_000] {
            // The values reach the end of the range within so many percent of the items, and stay there.
            for percent in [1, 4, 5, 7, 10, 15, 25, 50, 75, 100] {
                let long = (n * percent / 100) as usize;
                let each = (n - 1) / long as u64;
                let more = (n - 1) as usize % long;
                let mut steps = vec![each + 1; more];
                steps.resize(long, each);
                steps.resize(n as usize, 0);
                for reversed in [false, true] {
                    if reversed {
                        steps.reverse();
                    }
                    check_bits_read(&steps, p);
                }
            }
        }
    }
}

/// Decodes values of M = 1 in all ways, each of which may read four times the bits.
fn check_bits_read(steps: &[u64], p: u32) {
    let params = Params::new(p, 1).unwrap();
    let bytes = coded(steps.iter().copied(), p);
    let (n, bits) = (steps.len() as u32, bytes.len() as u64 * 8);
    for level in SimdLevel::available() {
        let within = |what: &str, decoded: Outcome, before: Option<u64>| {
            assert!(decoded.is_ok(), "{what}, {level}");
            let (Some(before), Some(after)) = (before, cost::decoded_bits()) else {
                return;
            };
            let read = after - before;
            let (first, last) = (steps[0], steps[steps.len() - 1]);
            assert!(
                read <= 4 * bits,
                "{what}: {read} of {bits} bits, {n} items, P = {p}, {first} to {last}, {level}"
            );
        };
        let before = cost::decoded_bits();
        within("check", validate(of(level, &bytes, n, params)), before);
        let before = cost::decoded_bits();
        let visited = visit(of(level, &bytes, n, params), |_| ControlFlow::Continue(()));
        within("visit", visited.map(|_| bits), before);
        for step in [8, 256] {
            let before = cost::decoded_bits();
            let table = seek_table(of(level, &bytes, n, params), step, u64::MAX);
            within("table", table.map(|table| table.end), before);
        }
    }
}

/// A lane has room for an eighth more items than usual; beyond that, the lanes are abandoned.
#[test]
fn a_last_lane_of_more_items_than_there_is_room_for_is_decoded() {
    let params = Params::new(2, 24).unwrap();
    for lanes in [4, 12, 16, 32] {
        // Up to the length at which a lane is given up for what is read singly.
        for lane_bits in (1_500..6_000).step_by(97) {
            // Codes of 9 bits, then of 3: nothing but those in the last lane; and the bits that lanes leave at the end.
            let sparse = core::iter::repeat_n(24, (lanes - 1) * lane_bits / 9);
            let dense = core::iter::repeat_n(0, lane_bits / 3);
            let end = core::iter::repeat_n(24, 10_240 / 9);
            let numbers: Vec<u64> = sparse.chain(dense).chain(end).collect();
            let bytes = coded(numbers.iter().copied(), 2);
            check("dense", &bytes, numbers.len() as u32, params).unwrap();
        }
    }
}

/// Some of these end beyond the bits of a window that are sure to be valid, and those of 63 and more beyond all of them.
#[test]
fn a_run_that_does_not_fit_a_window_stops_every_kernel() {
    fn stops<const N: usize>(simd: impl Simd<N>, bytes: &[u8], p: u32) {
        let before = Lanes { positions: [0; N], values: [7; N] };
        let mut out = [0; GROUP];
        for to_memory in [false, true] {
            let mut now = before;
            let advanced = if to_memory {
                kernels::decode_groups_into(simd, bytes, p, &mut now, 1, &mut out, &[0; N])
            } else {
                kernels::decode_groups(simd, bytes, p, &mut now, 1)
            };
            assert_eq!(advanced.groups, 1, "P = {p}");
            assert_eq!(advanced.behind.count_ones() as usize, N, "P = {p}");
            assert_eq!(now.positions, before.positions, "P = {p}");
            assert_eq!(now.values, before.values, "P = {p}");
        }
    }

    for p in [0, 2, 19, 32] {
        for run in (57 - 2 * u64::from(p).min(28)..70).chain([200]) {
            let numbers = core::iter::once(run << p).chain([0; 10_000]);
            let bytes = coded(numbers, p);
            for level in SimdLevel::available() {
                match level.kind() {
                    Kind::Baseline(Baseline::Scalar) => stops(Scalar, &bytes, p),
                    #[cfg(target_arch = "aarch64")]
                    Kind::Baseline(Baseline::Neon(neon)) => stops(neon, &bytes, p),
                    #[cfg(target_arch = "x86_64")]
                    Kind::Avx2(avx2) => stops(avx2, &bytes, p),
                    #[cfg(target_arch = "x86_64")]
                    Kind::Avx512(avx512) => stops(avx512, &bytes, p),
                }
            }
        }
    }
}
