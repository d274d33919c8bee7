//! [`Coder`]: encodes sorted hashes to bits, one piece of a stream at a time.
//!
//! All encoding goes through [`Coder::push`]: a whole set into one vector, a piece on a thread, a stream of
//! pieces. Between two pieces, the state of a stream is a [`Carry`]: the previous value, and the bits that
//! do not fill a byte yet. Whole bytes go to an [`StreamOutput`], which provides more room.
//!
//! Codes of up to [`MAX_BITS`] bits are written by the short loops (one per level). [`Coder::push`] itself
//! writes longer codes, in as many pieces as the output needs: a single code can be longer than memory. The
//! long path also detects descending items at no cost: their difference is a huge number.

#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::{Avx2, CodeStream, encodes_pairs, prefetch};
use crate::arch::{Kind, SimdLevel};
use crate::bits::MAX_BITS;
use crate::error::{BuildError, BuildFault};
use crate::hash::map_to_range;
use crate::params::Params;
use crate::rice;

/// Writes the codes of sorted items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coder {
    level: SimdLevel,
    map: Map,
    p: u32,
}

/// How an item is mapped to a value.
#[derive(Clone, Copy, Debug)]
enum Map {
    /// Items are hashes, mapped to `[0, F)`.
    ToRange(u64),
    /// Items are the values.
    Identity,
}

/// The state of a stream of codes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carry {
    /// The number of encoded items.
    pub(crate) items: u64,
    /// The value of the last item. Before the first item, the value that its difference is taken from.
    pub(crate) previous: u64,
    /// The bits that do not fill a byte yet, with zeros above them.
    pub(crate) bits: u64,
    /// The number of these bits: 0 to 7.
    pub(crate) filled: u32,
}

impl Carry {
    /// The start of a stream after an item of the value `previous`.
    pub(crate) fn after(previous: u64) -> Self {
        Self { previous, ..Self::default() }
    }

    /// The bits that do not fill a byte, padded with zero bits.
    pub(crate) fn last_byte(&self) -> u8 {
        (self.bits << (8 - self.filled)) as u8
    }
}

/// The destination of the bytes.
pub(crate) trait StreamOutput {
    type Error: From<BuildError>;

    /// The next bytes of the stream, at least [`LEAST_ROOM`].
    fn room(&mut self) -> Result<&mut [u8], Self::Error>;

    /// Marks the first `bytes` of the room as part of the stream; the rest may hold anything.
    fn commit(&mut self, bytes: usize);
}

/// The minimum room of an output: one store of the short loops.
pub(crate) const LEAST_ROOM: usize = size_of::<u64>();

/// The prefetch distance of the scalar loop in items: 2 KiB. It costs 0.1 ns per item for a set in cache, and
/// saves at least 0.3 ns for one that is not.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 256;

/// The result of a short loop.
#[derive(Clone, Copy, Debug)]
struct Progress {
    items: usize,
    bytes: usize,
}

impl Coder {
    /// For hashes of a set with values below `range`.
    pub(crate) fn of_hashes(level: SimdLevel, params: Params, range: u64) -> Self {
        let map = Map::ToRange(range);
        let p = params.p();
        Self { level, map, p }
    }

    /// For values.
    pub(crate) fn of_values(level: SimdLevel, params: Params) -> Self {
        let map = Map::Identity;
        let p = params.p();
        Self { level, map, p }
    }

    /// The value of an item.
    #[inline(always)]
    pub(crate) fn value_of(self, item: u64) -> u64 {
        match self.map {
            Map::ToRange(range) => map_to_range(item, range),
            Map::Identity => item,
        }
    }

    /// An upper bound of the bits of `items` codes, the last of which has the value `last`, after the value
    /// `previous`.
    ///
    /// Every quotient rounds down, so their sum is at most the quotient of the total difference. It is lower by
    /// less than (1 - 2^-P) per item. That is at most a quarter of the P + 1 bits that an item needs anyway.
    /// The bound is therefore close at any P, without reading the items.
    pub(crate) fn bits_bound(self, items: usize, previous: u64, last: u64) -> u128 {
        items as u128 * u128::from(self.p + 1) + u128::from((last - previous) >> self.p)
    }

    /// Appends the codes of `items`.
    ///
    /// # Errors
    ///
    /// Errors of the output, and an item that is smaller than its predecessor. Such an item may go undetected
    /// if both map to one value; the stream is then valid.
    pub(crate) fn push<O: StreamOutput>(
        self,
        carry: &mut Carry,
        mut items: &[u64],
        output: &mut O,
    ) -> Result<(), O::Error> {
        while !items.is_empty() {
            let done = self.short_codes(carry, items, output.room()?);
            output.commit(done.bytes);
            items = &items[done.items..];
            if done.items == 0
                && let Some((&item, rest)) = items.split_first()
            {
                self.long_code(carry, item, output)?;
                items = rest;
            }
        }
        Ok(())
    }

    /// Encodes items up to the first long code, or until the room ends. It makes no progress only if the first
    /// code is long.
    fn short_codes(self, carry: &mut Carry, items: &[u64], room: &mut [u8]) -> Progress {
        match self.level.kind() {
            Kind::Baseline(_) => self.portable(carry, items, room),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(avx2) => {
                self.pairs(avx2, carry, items, room, |range, p, items, stream, room| {
                    avx2.encode_pairs(range, p, items, stream, room)
                })
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) => {
                self.pairs(avx512.avx2(), carry, items, room, |range, p, items, stream, room| {
                    avx512.encode_pairs(range, p, items, stream, room)
                })
            }
        }
    }

    /// Uses the kernel `encode_pairs` for ordinary groups, and the scalar loop for one group after each stretch of
    /// those. If the kernel encoded nothing, M is probably large for P, and the scalar loop takes more.
    #[cfg(target_arch = "x86_64")]
    fn pairs(
        self,
        avx2: Avx2,
        carry: &mut Carry,
        items: &[u64],
        room: &mut [u8],
        encode_pairs: impl FnOnce(u64, u32, &[u64], &mut CodeStream, &mut [u8]) -> usize,
    ) -> Progress {
        /// The number of items of the largest group.
        const GROUP: usize = 16;
        let mut plain_items = items.len();
        let mut done = Progress { items: 0, bytes: 0 };
        if let Map::ToRange(range) = self.map
            && encodes_pairs(self.p)
        {
            let mut stream = CodeStream {
                previous: carry.previous,
                bits: carry.bits,
                position: u64::from(carry.filled),
            };
            done.items = encode_pairs(range, self.p, items, &mut stream, room);
            done.bytes = (stream.position / 8) as usize;
            carry.items += done.items as u64;
            carry.previous = stream.previous;
            carry.filled = (stream.position % 8) as u32;
            carry.bits = low_bits(stream.bits, carry.filled);
            let plain = if done.items == 0 { 8 * GROUP } else { GROUP };
            plain_items = plain.min(items.len() - done.items);
        }
        let items = &items[done.items..][..plain_items];
        let room = &mut room[done.bytes..];
        let plain = avx2.compiled(
            #[inline(always)]
            || self.portable(carry, items, room),
        );
        Progress { items: done.items + plain.items, bytes: done.bytes + plain.bytes }
    }

    #[inline(always)]
    fn portable(self, carry: &mut Carry, items: &[u64], room: &mut [u8]) -> Progress {
        // One loop per mapping, so that the choice is not made per item.
        match self.map {
            Map::ToRange(range) => {
                short_codes(self.p, carry, items, room, |hash| map_to_range(hash, range))
            }
            Map::Identity => short_codes(self.p, carry, items, room, |value| value),
        }
    }

    /// Encodes one item with a code of any length.
    #[cold]
    fn long_code<O: StreamOutput>(
        self,
        carry: &mut Carry,
        item: u64,
        output: &mut O,
    ) -> Result<(), O::Error> {
        let value = self.value_of(item);
        let Some(difference) = value.checked_sub(carry.previous) else {
            let item = carry.items;
            return Err(BuildError(BuildFault::Unsorted { item }).into());
        };
        let (mut ones, remainder) = (difference >> self.p, low_bits(difference, self.p));
        // Fills the started byte first; a long run has more ones than fit in it.
        let first = u64::from(8 - carry.filled).min(ones);
        push_bits(carry, low_bits(u64::MAX, first as u32), first as u32, output)?;
        ones -= first;
        while ones >= 8 {
            let room = output.room()?;
            let bytes = room.len().min(usize::try_from(ones / 8).unwrap_or(usize::MAX));
            room[..bytes].fill(0xff);
            output.commit(bytes);
            ones -= bytes as u64 * 8;
        }
        // At most 7 ones and the zero; then at most 55 bits.
        push_bits(carry, low_bits(u64::MAX, ones as u32) << 1, ones as u32 + 1, output)?;
        push_bits(carry, remainder, self.p, output)?;
        carry.previous = value;
        carry.items += 1;
        Ok(())
    }
}

/// The low `count` bits, 0 to 63, of `value`.
#[inline(always)]
fn low_bits(value: u64, count: u32) -> u64 {
    value & ((1 << count) - 1)
}

/// Appends the low `count` bits (at most [`MAX_BITS`]) of `bits`. Its other bits must be zero.
fn push_bits<O: StreamOutput>(
    carry: &mut Carry,
    bits: u64,
    count: u32,
    output: &mut O,
) -> Result<(), O::Error> {
    let mut pending = Pending::of(carry);
    let bytes = pending.append(bits, count);
    output.room()?[..8].copy_from_slice(&pending.word.to_be_bytes());
    output.commit(bytes);
    pending.drop_whole_bytes();
    pending.put_back(carry);
    Ok(())
}

/// The bits that do not fill a byte yet, at the top of a word, ready for a store.
struct Pending {
    word: u64,
    filled: u32,
}

impl Pending {
    #[inline(always)]
    fn of(carry: &Carry) -> Self {
        // Two shifts, because with no bits filled it would be a shift by 64.
        Self { word: carry.bits << 1 << (63 - carry.filled), filled: carry.filled }
    }

    #[inline(always)]
    fn put_back(self, carry: &mut Carry) {
        carry.bits = self.word >> 1 >> (63 - self.filled);
        carry.filled = self.filled;
    }

    /// Appends `count` bits. Returns the number of whole bytes in the word, 0 to 7.
    #[inline(always)]
    fn append(&mut self, bits: u64, count: u32) -> usize {
        debug_assert!(count <= MAX_BITS && bits >> count == 0 && self.filled < 8);
        // At most 7 + 56 bits. The shift is 64 where both are 0, and then there are no bits.
        self.word |= bits.wrapping_shl(64 - self.filled - count);
        self.filled += count;
        (self.filled >> 3) as usize
    }

    /// Removes the whole bytes after they were stored.
    #[inline(always)]
    fn drop_whole_bytes(&mut self) {
        // The shift is 0 to 56.
        self.word <<= self.filled & 0x38;
        self.filled &= 7;
    }
}

/// The scalar loop. It writes two codes per store if both fit in [`MAX_BITS`] bits, which nearly all do with
/// the best P for M and P up to 20. No branch depends on the bits of ordinary codes.
#[inline(always)]
fn short_codes(
    p: u32,
    carry: &mut Carry,
    items: &[u64],
    room: &mut [u8],
    value_of: impl Fn(u64) -> u64,
) -> Progress {
    // A quotient of at most this value leaves room for the zero bit and the remainder.
    let most_single = u64::from(MAX_BITS - 1 - p);
    // The quotient limit for two codes that fit together. None do if P is above 27. With P = 0 their sum could
    // overflow.
    let most_pair = MAX_BITS.checked_sub(2 * (p + 1)).filter(|_| p > 0).map(u64::from);
    let mut pending = Pending::of(carry);
    let mut previous = carry.previous;
    let (mut done, mut next) = (0, 0);
    'items: while done < items.len() {
        if let Some(most) = most_pair {
            while let Some(&[first, second]) = items[done..].first_chunk() {
                #[cfg(target_arch = "x86_64")]
                prefetch(&items[done..], AHEAD);
                let (first, second) = (value_of(first), value_of(second));
                let differences = (first.wrapping_sub(previous), second.wrapping_sub(first));
                let quotients = (differences.0 >> p, differences.1 >> p);
                // P is at least 1, so the sum does not overflow, even if items descend.
                if quotients.0 + quotients.1 > most {
                    break;
                }
                let Some(word) = room[next..].first_chunk_mut() else {
                    break 'items;
                };
                let (bits, count) = rice::short_pair(differences, quotients, p);
                next += pending.append(bits, count);
                *word = pending.word.to_be_bytes();
                pending.drop_whole_bytes();
                previous = second;
                done += 2;
            }
        }
        let Some(&item) = items.get(done) else {
            break;
        };
        let value = value_of(item);
        let difference = value.wrapping_sub(previous);
        let quotient = difference >> p;
        if quotient > most_single {
            break;
        }
        let Some(word) = room[next..].first_chunk_mut() else {
            break;
        };
        let (bits, count) = rice::short_code(difference, quotient, p);
        next += pending.append(bits, count);
        *word = pending.word.to_be_bytes();
        pending.drop_whole_bytes();
        previous = value;
        done += 1;
    }
    pending.put_back(carry);
    carry.previous = previous;
    carry.items += done as u64;
    Progress { items: done, bytes: next }
}
