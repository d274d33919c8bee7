//! Lower bounds: rows that only move the bytes that every other row of the group moves too.
//!
//! Each answer depends on every byte, so the compiler cannot skip any. The loops are compiled for the baseline CPU
//! (16 bytes per load on x86-64); from the first-level cache a wider load could be faster.

use std::hint::black_box;

use nutfilter_harness::seeded;

use super::WINDOW;
use crate::fixture::{Fixture, NON_MEMBERS, SEED};
use crate::{Group, Who};

/// The sum of the 64-bit words of `bytes`, the last one padded with zeros.
fn sum_of_words(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0_u64, |sum, word| {
        sum.wrapping_add(u64::from_le_bytes(*word))
    });
    sum.wrapping_add(last_word(rest))
}

/// Up to eight bytes as a word.
fn last_word(rest: &[u8]) -> u64 {
    let place = |(i, &byte): (usize, &u8)| u64::from(byte) << (8 * i);
    rest.iter().enumerate().map(place).sum()
}

/// The same sum byte by byte.
fn expected_sum(bytes: &[u8]) -> u64 {
    let place = |(i, &byte): (usize, &u8)| u64::from(byte) << (8 * (i % 8));
    let places = bytes.iter().enumerate().map(place);
    places.fold(0, u64::wrapping_add)
}

/// Reads every byte of a filter once.
pub(super) fn read<'a>(group: &mut Group<'a>, bytes: impl AsRef<[u8]> + Send + 'a) {
    let expected = expected_sum(bytes.as_ref());
    let read = move || sum_of_words(black_box(bytes.as_ref()));
    group.add(Who::Limit, read, |&sum| sum == expected);
}

/// Reads the items once and writes as many bytes as the filter has into preallocated memory.
pub(super) fn read_and_write<'a>(group: &mut Group<'a>, fixture: &'a Fixture, written: usize) {
    let expected = expected_sum(fixture.records());
    let place = vec![0_u8; written];
    let call = |place: &mut Vec<u8>| {
        let sum = sum_of_words(black_box(fixture.records()));
        // The written bytes depend on everything that was read.
        place.fill(sum as u8);
        black_box(place.as_slice());
        sum
    };
    group.add_with(
        Who::Limit,
        place,
        |_| (),
        call,
        |place, &sum| {
            sum == expected && place.len() == written && place.iter().all(|&byte| byte == sum as u8)
        },
    );
}

/// One load from an unpredictable place of the filter that waits for the load before it.
///
/// The places are drawn beforehand. A load waits because the masked-out word before it is added to its place, which
/// costs two cycles.
pub(super) fn chase<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let (words, _) = fixture.bytes.as_chunks::<8>();
    if words.is_empty() {
        return;
    }
    // As many as there are non-members, so that a call meets cold memory; `u32`, to take little cache.
    let places = seeded::numbers(SEED).map(|number| (number % words.len() as u64) as u32);
    let places: Vec<u32> = places.take(NON_MEMBERS).collect();
    let expected = places[..WINDOW]
        .iter()
        .map(|&place| u64::from_le_bytes(words[place as usize]));
    let expected = expected.fold(0, u64::wrapping_add);
    let chase = move |at: &mut usize| {
        let window = &places[*at..*at + WINDOW];
        *at = (*at + WINDOW) % NON_MEMBERS;
        // Zero, unknown to the compiler.
        let nothing = black_box(0);
        let (mut sum, mut word) = (0_u64, 0_u64);
        for &place in window {
            word = u64::from_le_bytes(words[place as usize + (word & nothing) as usize]);
            sum = sum.wrapping_add(word);
        }
        sum
    };
    group.add_with(Who::Limit, 0, |_| (), chase, |_, &sum| sum == expected);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Selection;

    #[test]
    fn the_sum_of_words_counts_every_byte() {
        let bytes: Vec<u8> = (0..41).map(|i| 251 - i * 3).collect();
        for len in 0..bytes.len() {
            let sum = sum_of_words(&bytes[..len]);
            assert_eq!(sum, expected_sum(&bytes[..len]), "{len}");
            let mut changed = bytes[..len].to_vec();
            for place in 0..len {
                changed[place] ^= 1;
                assert_ne!(sum_of_words(&changed), sum, "{place} of {len}");
                changed[place] ^= 1;
            }
        }
    }

    #[test]
    fn a_chase_wraps_after_its_last_place() {
        let fixture = Fixture::new("2k".parse().unwrap());
        let selection = Selection::default();
        let mut group = Group::new(
            &selection,
            ("lookup", "latency", "2k"),
            (WINDOW as u64, "target"),
        );
        chase(&mut group, &fixture);
        assert_eq!(group.rows.len(), 1);
        for _ in 0..2 * NON_MEMBERS / WINDOW {
            group.rows[0].measure(&mut |call| call());
        }
    }
}
