//! Merges runs from the disk into one stream of sorted pieces.
//!
//! All runs advance together through windows of the value range. For each run a *reach* is chosen: about as
//! many hashes as the run should have in the window if its hashes are spread like those of the others. The
//! window ends at the smallest of the values at the ends of the reaches. For any values, a window therefore
//! holds at most the sum of the reaches, and the rest of every run is not below the window's end. The run whose
//! reach ended the window contributes all of it, at least one hash. Equal or crafted hashes make windows
//! smaller, never larger.
//!
//! A window fits in the cache and is merged there, two slices at a time, in the order of a Huffman code over
//! the lengths of the runs. A long run among many short ones (a store after some refreshes) is then copied only
//! once, not once per halving.
//!
//! A loser tree needs no windows, but waits for an unpredictable branch at every step. It took 4.7 times as
//! long at 4 runs and 2.5 times at 30. Sorting each window took 7.8 and 2.4 times as long
//! (`docs/decisions/0013`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::StoreError;
use crate::run::RunReader;

/// Passes all remaining hashes of `readers` to `sink`, in order, in pieces of about `window` hashes. Reads in
/// pieces of `chunk` bytes.
pub(crate) fn merge(
    readers: &mut [RunReader<'_>],
    window: usize,
    chunk: usize,
    mut sink: impl FnMut(&[u64]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let lengths: Vec<u64> = readers.iter().map(RunReader::remaining).collect();
    let Some(tree) = Tree::huffman(&lengths) else {
        return Ok(());
    };
    let mut bytes = vec![0; chunk];
    let (mut merged, mut spare) = (Vec::new(), Vec::new());
    let mut reaches = vec![0; readers.len()];
    loop {
        let remaining: u64 = readers.iter().map(RunReader::remaining).sum();
        if remaining == 0 {
            return Ok(());
        }
        let mut end = u64::MAX;
        for (reader, reach) in readers.iter_mut().zip(&mut reaches) {
            let expected = (u128::from(reader.remaining()) * window as u128 / u128::from(remaining))
                .min(window as u128) as usize;
            // Three standard deviations more, so that a short run rarely ends the window.
            let wanted = (expected + 3 * expected.isqrt() + 16).min(reader.reach());
            reader.fill(wanted, &mut bytes)?;
            let within = &reader.buffered()[..wanted.min(reader.buffered().len())];
            *reach = within.len();
            if let Some(&last) = within.last() {
                end = end.min(last);
            }
        }
        for (reader, reach) in readers.iter().zip(&mut reaches) {
            *reach = reader.buffered()[..*reach].partition_point(|&hash| hash <= end);
        }
        let slices: Vec<&[u64]> = readers
            .iter()
            .zip(&reaches)
            .map(|(reader, &taken)| &reader.buffered()[..taken])
            .collect();
        if let Tree::Leaf(only) = tree {
            sink(slices[only])?;
        } else {
            let len = reaches.iter().sum();
            if merged.len() < len {
                merged.resize(len, 0);
                spare.resize(len, 0);
            }
            tree.merge(&slices, &mut merged[..len], &mut spare[..len]);
            sink(&merged[..len])?;
        }
        for (reader, &taken) in readers.iter_mut().zip(&reaches) {
            reader.take(taken);
        }
    }
}

/// The order in which slices are merged.
#[derive(Debug)]
enum Tree {
    /// The slice of this run.
    Leaf(usize),
    Node(Box<Tree>, Box<Tree>),
}

impl Tree {
    /// The tree in which a hash takes part in the fewest merges, for runs of these lengths; `None` without
    /// runs.
    fn huffman(lengths: &[u64]) -> Option<Self> {
        let mut trees: Vec<Option<Self>> = (0..lengths.len())
            .map(|run| Some(Tree::Leaf(run)))
            .collect();
        let mut shortest: BinaryHeap<Reverse<(u64, usize)>> = (0..)
            .zip(lengths)
            .map(|(tree, &len)| Reverse((len, tree)))
            .collect();
        loop {
            let Reverse((len, first)) = shortest.pop()?;
            let Some(Reverse((more, second))) = shortest.pop() else {
                return trees[first].take();
            };
            if let (Some(left), Some(right)) = (trees[first].take(), trees[second].take()) {
                shortest.push(Reverse((len.saturating_add(more), trees.len())));
                trees.push(Some(Tree::Node(Box::new(left), Box::new(right))));
            }
        }
    }

    /// The total number of hashes in its slices.
    fn len(&self, slices: &[&[u64]]) -> usize {
        match self {
            Tree::Leaf(run) => slices[*run].len(),
            Tree::Node(left, right) => left.len(slices) + right.len(slices),
        }
    }

    /// Merges its slices into `out`, which has their total length. Adjacent levels write to different buffers.
    fn merge(&self, slices: &[&[u64]], out: &mut [u64], spare: &mut [u64]) {
        match self {
            Tree::Leaf(run) => out.copy_from_slice(slices[*run]),
            Tree::Node(left, right) => {
                let at = left.len(slices);
                let (left_out, right_out) = out.split_at_mut(at);
                let (left_spare, right_spare) = spare.split_at_mut(at);
                let left = left.merged(slices, left_spare, left_out);
                let right = right.merged(slices, right_spare, right_out);
                merge_two(left, right, out);
            }
        }
    }

    /// Merges its slices. The result is in `out` unless there is nothing to merge.
    fn merged<'a>(&self, slices: &[&'a [u64]], out: &'a mut [u64], spare: &mut [u64]) -> &'a [u64] {
        if let Tree::Leaf(run) = self {
            return slices[*run];
        }
        self.merge(slices, out, spare);
        out
    }
}

/// The number of pieces of one merge that run in parallel. Each step waits seven cycles for the previous one.
const LANES: usize = 4;

/// Merges the sorted `a` and `b` into `out`, which has their total length.
fn merge_two(a: &[u64], b: &[u64], out: &mut [u64]) {
    if a.is_empty() {
        return out.copy_from_slice(b);
    }
    if b.is_empty() {
        return out.copy_from_slice(a);
    }
    if out.len() < 64 {
        return merge_plainly(a, b, out);
    }
    let quarter = out.len() / LANES;
    let (mut a_rest, mut b_rest, mut out_rest) = (a, b, out);
    let mut lanes: [Lane<'_>; LANES] = std::array::from_fn(|lane| {
        let len = if lane + 1 < LANES {
            quarter
        } else {
            out_rest.len()
        };
        let from_a = split(a_rest, b_rest, len);
        let (a, b, out);
        (a, a_rest) = a_rest.split_at(from_a);
        (b, b_rest) = b_rest.split_at(len - from_a);
        (out, out_rest) = std::mem::take(&mut out_rest).split_at_mut(len);
        Lane { a, b, out }
    });
    loop {
        let steps = lanes
            .iter()
            .map(|lane| lane.a.len().min(lane.b.len()))
            .min();
        match steps {
            Some(steps @ 8..) => Lane::advance_all(&mut lanes, steps),
            _ => break,
        }
    }
    for lane in lanes {
        merge_plainly(lane.a, lane.b, lane.out);
    }
}

/// The rest of one merge.
struct Lane<'a> {
    a: &'a [u64],
    b: &'a [u64],
    out: &'a mut [u64],
}

impl Lane<'_> {
    /// Merges `steps` hashes of each lane. Every list of every lane must have at least that many.
    #[inline(always)]
    fn advance_all(lanes: &mut [Self; LANES], steps: usize) {
        let [first, second, third, fourth] = lanes;
        let (mut at_first, mut at_second, mut at_third, mut at_fourth) = (0, 0, 0, 0);
        for step in 0..steps {
            first.step(step, &mut at_first);
            second.step(step, &mut at_second);
            third.step(step, &mut at_third);
            fourth.step(step, &mut at_fourth);
        }
        first.drop_done(steps, at_first);
        second.drop_done(steps, at_second);
        third.drop_done(steps, at_third);
        fourth.drop_done(steps, at_fourth);
    }

    /// Merges one hash. `from_a` is the number of earlier ones that came from `a`.
    #[inline(always)]
    fn step(&mut self, step: usize, from_a: &mut usize) {
        let (left, right) = (self.a[*from_a], self.b[step - *from_a]);
        let take_right = right < left;
        self.out[step] = if take_right { right } else { left };
        *from_a += usize::from(!take_right);
    }

    fn drop_done(&mut self, steps: usize, from_a: usize) {
        self.a = &self.a[from_a..];
        self.b = &self.b[steps - from_a..];
        self.out = &mut std::mem::take(&mut self.out)[steps..];
    }
}

fn merge_plainly(a: &[u64], b: &[u64], out: &mut [u64]) {
    let mut from_a = 0;
    for (done, place) in out.iter_mut().enumerate() {
        let (left, right) = (a.get(from_a), b.get(done - from_a));
        let take_left = match (left, right) {
            (Some(left), Some(right)) => left <= right,
            (left, _) => left.is_some(),
        };
        if let Some(&hash) = if take_left { left } else { right } {
            *place = hash;
        }
        from_a += usize::from(take_left);
    }
}

/// The number of the `len` smallest hashes of both lists that come from `a`.
fn split(a: &[u64], b: &[u64], len: usize) -> usize {
    let (mut low, mut high) = (len.saturating_sub(b.len()), len.min(a.len()));
    while low < high {
        let middle = low + (high - low) / 2;
        // In range: middle is below high, which is at most len, and middle is at least len - b.len().
        if a[middle] <= b[len - middle - 1] {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    fn sorted(len: usize, range: u64, seed: u64) -> Vec<u64> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut numbers: Vec<u64> = (0..len).map(|_| random.random_range(0..range)).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn merge_of_any_two_lists_equals_sort() {
        let lens = [0, 1, 2, 3, 15, 31, 32, 33, 63, 64, 65, 100, 1000];
        for a_len in lens {
            for b_len in lens {
                for range in [1, 3, 200, u64::MAX] {
                    let (a, b) = (sorted(a_len, range, 1), sorted(b_len, range, 2));
                    let mut out = vec![7; a_len + b_len];
                    merge_two(&a, &b, &mut out);
                    let mut expected = [a, b].concat();
                    expected.sort_unstable();
                    assert_eq!(out, expected, "{a_len} and {b_len} below {range}");
                }
            }
        }
    }

    #[test]
    fn disjoint_lists_merge_in_either_order() {
        let low: Vec<u64> = (0..500).collect();
        let high: Vec<u64> = (500..700).collect();
        let expected: Vec<u64> = (0..700).collect();
        for (a, b) in [(&low, &high), (&high, &low)] {
            let mut out = vec![7; 700];
            merge_two(a, b, &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn tree_merges_all_of_its_slices() {
        assert!(Tree::huffman(&[]).is_none());
        for runs in 1..20 {
            let lists: Vec<Vec<u64>> = (0..runs)
                .map(|run| sorted(run * run * 5 % 301, 1000, run as u64))
                .collect();
            let lengths: Vec<u64> = lists.iter().map(|list| list.len() as u64).collect();
            let slices: Vec<&[u64]> = lists.iter().map(Vec::as_slice).collect();
            let mut expected = lists.concat();
            expected.sort_unstable();
            let (mut out, mut spare) = (vec![7; expected.len()], vec![7; expected.len()]);
            let tree = Tree::huffman(&lengths).expect("runs");
            tree.merge(&slices, &mut out, &mut spare);
            assert_eq!(out, expected, "{runs} runs");
        }
    }

    #[test]
    fn longest_run_is_merged_only_once() {
        let Some(Tree::Node(left, right)) = Tree::huffman(&[10, 1_000_000, 20, 30, 10]) else {
            panic!("no tree");
        };
        assert!(
            matches!((&*left, &*right), (_, Tree::Leaf(1)) | (Tree::Leaf(1), _)),
            "{left:?}, {right:?}"
        );
    }
}
