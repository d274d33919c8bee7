//! Large inputs from a few bytes.
//!
//! Kernels need more items than a fuzzer's inputs contain: the decoder's lanes need thousands. So an input of more
//! than [`SMALL`] bytes may describe a filter or a set: the number of items, their shape, the seed, and which
//! bytes to change afterwards. A mutation of such an input changes one place, which may be in any lane.

use nutfilter::Params;
use nutfilter_reference::Noise;

/// Inputs up to this size, in bytes, are used as they are. `-max_len=64` runs a campaign with only small inputs.
pub const SMALL: usize = 64;

/// Maximum size of a filter, in bits (32 KiB). The reference is slow because it reads bit by bit. At P = 19 the
/// widest kernel already works at half of this size.
const MOST_BITS: u64 = 1 << 18;

/// A filter with its declared parameters.
#[derive(Clone, Debug)]
pub struct Made {
    /// The declared N.
    pub n: u64,
    /// P and M.
    pub params: Params,
    /// The filter.
    pub bytes: Vec<u8>,
}

/// Builds a filter from a recipe.
///
/// `size` gives the number of items, their shape and the seed. `slack` says how much larger M is than P requires;
/// or that the values end at the range ([`AT_LARGEST`], [`AT_RANGE`]), and at which item (bits 16 to 31: a
/// fraction).
pub fn filter(size: u64, p: u8, slack: u64, edits: &[u8]) -> Made {
    let p = u32::from(p % 33);
    let count = items(size).min(MOST_BITS / (u64::from(p) + 3));
    let mut noise = Noise(size >> 32);
    let (mut differences, mut bits) = (Vec::new(), 0);
    while (differences.len() as u64) < count && bits < MOST_BITS {
        let n = differences.len() as u64;
        let difference = difference((size >> 24) as u8, n, p, &mut noise);
        bits += (difference >> p) + 1 + u64::from(p);
        differences.push(difference);
    }
    let ends = slack & (AT_LARGEST | AT_RANGE);
    if ends != 0 && !differences.is_empty() {
        return end_at(&mut differences, p, slack >> 16 & 0xffff, ends == AT_RANGE);
    }
    let (n, sum) =
        (differences.len() as u64, differences.iter().fold(0_u64, |a, &b| a.saturating_add(b)));
    // M ranges from just enough for a usual set to 17 times that. A set of large differences gets what it needs,
    // unless the slack allows too little.
    let usual = (u128::from(16 + (slack & 0xff)) << p) / 16;
    let needed = match slack >> 8 & 3 {
        0 => 0,
        _ => u128::from(sum / n.max(1) + 1),
    };
    let m = usual.max(needed).clamp(1, u128::from(u32::MAX)) as u64;
    let mut made = Made::new(&differences, p, m);
    for edit in edits.chunks_exact(EDIT) {
        made.edit(edit);
    }
    made
}

/// In the slack of a recipe: the largest value is F - 1, the maximum allowed.
pub const AT_LARGEST: u64 = 1 << 10;
/// In the slack of a recipe: the largest value is F, the smallest that is not allowed.
pub const AT_RANGE: u64 = 1 << 11;

/// A filter whose values reach the end of the range at one item and stay there. `fraction` gives that item in
/// 2^16ths of all items. The codes before it are normal, so that decoders that start in the middle find it.
fn end_at(differences: &mut [u64], p: u32, fraction: u64, beyond: bool) -> Made {
    let n = differences.len() as u64;
    let last = (n * fraction) >> 16;
    let (before, behind) = differences.split_at_mut(last as usize + 1);
    behind.fill(0);
    let sum = before.iter().fold(0_u64, |a, &b| a.saturating_add(b));
    let m = (sum / n + 1).min(u64::from(u32::MAX));
    // The missing amount is less than M for each of them.
    let missing = (n * m - u64::from(!beyond)).saturating_sub(sum);
    let (each, more) = (missing / (last + 1), missing % (last + 1));
    for (at, difference) in (0..).zip(before) {
        *difference += each + u64::from(at < more);
    }
    Made::new(differences, p, m)
}

/// The number of items of a set: around the sizes at which other code takes over.
fn items(size: u64) -> u64 {
    const SIZES: [u64; 8] = [0, 400, 1_500, 2_900, 4_500, 5_700, 8_000, 65_500];
    SIZES[(size >> 16) as usize % SIZES.len()] + (size & 0xff)
}

/// The difference of item number `n` from the previous item.
fn difference(shape: u8, n: u64, p: u32, noise: &mut Noise) -> u64 {
    let random = noise.next().unwrap_or_default();
    let remainder = random & ((1 << p) - 1);
    let run = u64::from((random >> 40).trailing_ones());
    let (quotient, remainder) = match shape % 8 {
        // Roughly the distribution of hashes.
        0 => (run, remainder),
        // All equal: a decoder that starts in the middle never synchronises.
        1 => (0, 0x5a5a_5a5a & ((1 << p) - 1)),
        2 => (0, 0),
        // Occasionally a run that exceeds every window.
        3 if random >> 58 == 0 => (random >> 40 & 0xfff, remainder),
        3 => (run, remainder),
        4 => (random >> 60, remainder),
        // Stretches of duplicates.
        5 if n / 500 % 2 == 1 => (0, 0),
        5 => (run, remainder),
        // Only one-bits for a long stretch.
        6 => (run, (1 << p) - 1),
        _ => (run * 4, remainder),
    };
    quotient << p | remainder
}

/// Length of an edit, in bytes: its kind, its place (16 bits: a fraction of the length), and a number.
pub const EDIT: usize = 4;

impl Made {
    fn new(differences: &[u64], p: u32, m: u64) -> Self {
        let sums = differences.iter().scan(0, |sum, difference| {
            *sum += difference;
            Some(*sum)
        });
        let values: Vec<u64> = sums.collect();
        Self {
            n: differences.len() as u64,
            params: Params::new(p, m).expect("the numbers were brought into range"),
            bytes: nutfilter_reference::encode_values(&values, p),
        }
    }

    fn edit(&mut self, edit: &[u8]) {
        let &[what, high, low, value] = edit else {
            return;
        };
        let len = self.bytes.len();
        let at = usize::from(u16::from_be_bytes([high, low])) * len / (1 << 16);
        let run = usize::from(value).min(len - at);
        match what % 12 {
            1 if at < len => self.bytes[at] ^= value,
            2 if at < len => self.bytes[at] = value,
            3 => self.bytes[at..at + run].fill(0xff),
            4 => self.bytes[at..at + run].fill(0),
            5 => self.bytes.truncate(len - run),
            6 => self.bytes.resize(len + run, high),
            7 => self.n = (self.n + u64::from(value)).saturating_sub(128),
            8 if at < len => drop(self.bytes.remove(at)),
            9 => self.bytes.insert(at, value),
            10 => self.bytes[at..at + run].fill(low),
            11 => {
                // Copy a stretch from elsewhere: valid codes in the wrong place.
                let from = usize::from(low) * (len - run) / 256;
                self.bytes.copy_within(from..from + run, at);
            }
            _ => {}
        }
    }
}

/// The hashes that these bytes contain or describe.
///
/// Each hash has 1, 2, 4 or 8 bytes, used as its leading bits, so that a small input holds a set. A long input may
/// begin with a recipe of 8 bytes for a large set.
pub fn hashes(how: u8, bytes: &[u8], long: bool, most: usize) -> Vec<u64> {
    let mut hashes = Vec::new();
    let mut rest = bytes;
    if long && let Some((size, after)) = bytes.split_first_chunk() {
        let size = u64::from_le_bytes(*size);
        let count = (items(size) as usize).min(most);
        let hash = |hash: u64| match size >> 24 & 7 {
            // All in one corner of the range, at both ends of it, all equal, and few different ones.
            1 => hash >> 40,
            2 => hash | !0 << 24,
            3 => size,
            4 => hash & 0xf << 60,
            5 if hash & 1 == 0 => hash >> 20,
            _ => hash,
        };
        hashes.extend(Noise(size >> 32).take(count).map(hash));
        rest = after;
    }
    let width = 1 << (how & 3);
    hashes.extend(rest.chunks_exact(width).map(|bytes| {
        let mut hash = [0; 8];
        hash[..width].copy_from_slice(bytes);
        u64::from_be_bytes(hash)
    }));
    hashes
}
