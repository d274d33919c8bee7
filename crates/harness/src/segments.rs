//! Any bytes as a segment: an error, or the only bytes of its set. Unions, folds and differences are the segments of
//! the sets that a plain computation makes.

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use nutfilter::IndexInterval;
use nutfilter::gcs;
use nutfilter::segment::{Segment, Universe};
use nutfilter_reference::encode_values;

/// A code, or three sets.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The width w of the universe, brought into range.
    pub width: u8,
    /// The width of the fold, brought into range.
    pub folded: u8,
    /// Even: `bytes` is the code of a segment. Odd: `bytes` has the hashes of three sets, 8 bytes each.
    pub way: u8,
    /// The declared number of values, or where the sets are divided.
    pub n: u16,
    /// Added to the P of the header: 0 for the canonical one.
    pub p: u8,
    /// How much closer the hashes lie than uniform ones.
    pub crowded: u8,
    /// The code, or the hashes.
    pub bytes: &'a [u8],
}

impl Case<'_> {
    /// Parses the code, or combines the sets, and compares with the plain computation.
    ///
    /// # Panics
    ///
    /// If a result differs.
    pub fn check(&self) {
        match self.way % 2 {
            0 => self.check_code(),
            _ => self.check_sets(),
        }
    }

    fn universe(&self) -> Universe {
        Universe::new(8 + u32::from(self.width) % 49).expect("8 to 56 bits")
    }

    fn check_code(&self) {
        let (universe, n) = (self.universe(), u32::from(self.n));
        let fits = u64::from(n) <= universe.size();
        let canonical = if fits { universe.remainder_bits(n) } else { 0 };
        let p = (canonical as u8).wrapping_add(self.p);
        let file = file(universe, p, n, self.bytes);
        let expected = (fits && u32::from(p) == canonical)
            .then(|| decode(self.bytes, universe, canonical, n))
            .flatten();
        match (Segment::parse(&file), expected) {
            (Ok(segment), Some(values)) => {
                assert!(segment.values().eq(values.iter().copied()), "{self:?}");
                assert_eq!(segment.to_bytes(), file, "{self:?}");
                let set = values.into_iter().collect();
                assert_eq!(segment, segment_of(universe, &set), "{self:?}");
                check_matches(segment, &set);
            }
            (Err(error), None) => assert!(error.to_string().len() < 300, "{self:?}"),
            (segment, values) => panic!("{segment:?} and {values:?}: {self:?}"),
        }
    }

    fn check_sets(&self) {
        let universe = self.universe();
        let words = self.bytes.as_chunks::<8>().0.iter();
        let hashes: Vec<u64> = words
            .map(|word| u64::from_le_bytes(*word) >> (self.crowded % 57))
            .collect();
        let [first, second] =
            [self.n >> 8, self.n & 255].map(|at| usize::from(at) % (hashes.len() + 1));
        let (start, rest) = hashes.split_at(first.min(second));
        let (middle, end) = rest.split_at(first.max(second) - start.len());
        let lists = [start, middle, end];
        let sets = lists.map(|list| values_of(universe, list));
        let parts =
            lists.map(|list| Segment::from_hashes(universe, list.to_vec()).expect("a small set"));
        for (part, set) in parts.iter().zip(&sets) {
            assert_eq!(*part, segment_of(universe, set), "{self:?}");
        }
        let [a, b, c] = &parts;
        let all = segment_of(universe, &values_of(universe, &hashes));
        let pair = Segment::merge(&[a.clone(), b.clone()]).expect("one universe");
        assert_eq!(
            Segment::merge(&parts).expect("one universe"),
            all,
            "{self:?}"
        );
        assert_eq!(
            Segment::merge(&[pair, c.clone()]).expect("one universe"),
            all,
            "{self:?}"
        );
        let difference = sets[0].difference(&sets[1]).copied().collect();
        assert_eq!(
            a.difference(b).expect("one universe"),
            segment_of(universe, &difference),
            "{self:?}"
        );
        let common = sets[0].intersection(&sets[1]).copied().collect();
        assert_eq!(
            a.intersection(b).expect("one universe"),
            segment_of(universe, &common),
            "{self:?}"
        );
        let width = 8 + u32::from(self.folded) % (universe.width() - 7);
        let narrow = Universe::new(width).expect("8 to 56 bits");
        let folded = all.fold(narrow).expect("a narrower universe");
        assert_eq!(
            folded,
            segment_of(narrow, &values_of(narrow, &hashes)),
            "{self:?}"
        );
        check_matches(all, &values_of(universe, &hashes));
    }
}

fn values_of(universe: Universe, hashes: &[u64]) -> BTreeSet<u64> {
    let drop = 64 - universe.width();
    hashes.iter().map(|hash| hash >> drop).collect()
}

/// The bytes of a segment file.
fn file(universe: Universe, p: u8, n: u32, code: &[u8]) -> Vec<u8> {
    let mut file = gcs::head(gcs::KIND_SEGMENT).to_vec();
    file.extend([universe.width() as u8, p]);
    file.extend(n.to_le_bytes());
    file.extend(code);
    gcs::seal(&mut file);
    file
}

/// The segment of a set, made of bytes that the reference encodes.
fn segment_of(universe: Universe, set: &BTreeSet<u64>) -> Segment {
    let (n, values) = (set.len() as u32, Vec::from_iter(set.iter().copied()));
    let p = universe.remainder_bits(n);
    let file = file(universe, p as u8, n, &encode_values(&values, p));
    Segment::parse(&file).expect("a valid segment").into_owned()
}

/// The values of a code, bit by bit, or nothing if they are not the code of a set.
fn decode(code: &[u8], universe: Universe, p: u32, n: u32) -> Option<Vec<u64>> {
    let mut bits = code
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let mut values = Vec::new();
    for _ in 0..n {
        let mut quotient = 0_u128;
        while bits.next()? == 1 {
            quotient += 1;
        }
        let mut gap = quotient;
        for _ in 0..p {
            gap = gap << 1 | u128::from(bits.next()?);
        }
        let value = match values.last() {
            Some(_) if gap == 0 => return None,
            Some(&last) => u128::from(last) + gap,
            None => gap,
        };
        let value = u64::try_from(value).ok()?;
        values.push(value);
        if value >= universe.size() {
            return None;
        }
    }
    // What follows the last value is less than a byte of zeros.
    (encode_values(&values, p) == code).then_some(values)
}

/// Looks up all values, their neighbours and the limits of the universe, with and without an index.
fn check_matches<D: AsRef<[u8]> + Clone>(segment: Segment<D>, set: &BTreeSet<u64>) {
    let universe = segment.universe();
    let near = set
        .iter()
        .flat_map(|&value| [value.saturating_sub(1), value, value + 1]);
    let values: Vec<u64> = near
        .chain([0, universe.size() - 1])
        .filter(|&value| value < universe.size())
        .collect();
    let hashes: Vec<u64> = values
        .iter()
        .map(|value| value << (64 - universe.width()))
        .collect();
    let expected: Vec<bool> = values.iter().map(|value| set.contains(value)).collect();
    assert_eq!(segment.matches(&hashes), expected, "{values:?}");
    let indexed = segment.into_indexed(IndexInterval::Items(8));
    assert_eq!(indexed.matches(&hashes), expected, "{values:?}");
}
