//! Matching many targets in one call, with and without an index, and single look-ups.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use nutfilter::internals::SimdLevel;
use nutfilter::{Filter, IndexedFilter, Nut25, Params};
use nutfilter_reference as reference;

use super::LARGEST_FOR_SLOW;
use crate::fixture::{Fixture, NON_MEMBERS};
use crate::{Group, Who};

/// Targets per call of the look-up rows. Each call takes the next ones, so that it meets cold parts of the filter.
pub const WINDOW: usize = 4096;

/// Targets and the reference's answers.
pub struct Targets<'a> {
    /// The items.
    pub items: &'a [[u8; 33]],
    /// Whether each may be in the set.
    pub expected: Vec<bool>,
}

/// The targets of a task of the stage `match`, such as `1k-absent`.
///
/// # Panics
///
/// If the name does not begin with a number.
#[must_use]
pub fn targets<'a>(fixture: &'a Fixture, task: &str) -> Targets<'a> {
    let mut words = task.split('-');
    let count: crate::fixture::Size = words.next().unwrap_or_default().parse().expect("a size");
    let items = match words.next() {
        Some("present") => &fixture.items,
        _ => &fixture.non_members,
    };
    let items = &items[..items.len().min(count.n as usize)];
    let expected = ask_reference(fixture, items);
    Targets { items, expected }
}

fn ask_reference(fixture: &Fixture, items: &[[u8; 33]]) -> Vec<bool> {
    let (p, m) = (Params::default().p(), Params::default().m());
    let profile = reference::Profile::Nut25;
    reference::matches(&fixture.bytes, fixture.n(), p, m, profile, items).expect("a valid filter")
}

/// The next targets of a look-up row.
#[must_use]
pub fn next_window<'a>(fixture: &'a Fixture, at: &mut usize) -> &'a [[u8; 33]] {
    let window = &fixture.non_members[*at..*at + WINDOW];
    *at = (*at + WINDOW) % NON_MEMBERS;
    window
}

/// A filter that has just been received: length check, validation and answers in one call.
pub(super) fn plain<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let params = Params::default();
    let (n, Targets { items, expected }) = (fixture.n(), targets(fixture, &group.task));
    if n <= LARGEST_FOR_SLOW {
        let ask = move || ask_reference(fixture, items);
        group.add(Who::Reference, ask, |found| *found == expected);
    }
    for level in SimdLevel::available() {
        let ask = move || {
            let received = Filter::check_length(fixture.bytes.as_slice(), n, params)?;
            received.with_level(level).matches(items)
        };
        group.add(Who::Ours(level), ask, |found| {
            found.as_ref() == Ok(&expected)
        });
    }
}

/// A filter with its index.
type Indexed<'a> = IndexedFilter<&'a [u8], Nut25>;

fn with_index<'a>(fixture: &'a Fixture) -> impl Iterator<Item = (SimdLevel, Arc<Indexed<'a>>)> {
    fixture.filters.iter().map(|(level, filter)| {
        let indexed = filter.with_index(&fixture.index);
        (*level, Arc::new(indexed.expect("its own index")))
    })
}

/// A filter that was validated and indexed earlier.
pub(super) fn indexed<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let Targets { items, expected } = targets(fixture, &group.task);
    for (level, indexed) in with_index(fixture) {
        let ask = move || indexed.matches(items);
        group.add(Who::Ours(level), ask, |found| *found == expected);
    }
    structures(group, fixture);
}

/// Independent look-ups: throughput.
pub(super) fn one_by_one<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    rows(group, fixture, |indexed, window| {
        window.iter().filter(|item| indexed.contains(item)).count()
    });
}

/// Look-ups with a full fence after each: latency. The fence itself costs about 10 ns.
pub(super) fn one_after_another<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    rows(group, fixture, |indexed, window| {
        let found = window.iter().filter(|item| {
            let found = indexed.contains(item);
            fence(Ordering::SeqCst);
            found
        });
        found.count()
    });
}

/// The same number of look-ups in one call.
pub(super) fn batched<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    rows(group, fixture, |indexed, window| {
        let found = indexed.matches(window);
        found.iter().filter(|&&found| found).count()
    });
}

fn rows<'a>(
    group: &mut Group<'a>,
    fixture: &'a Fixture,
    count: impl Fn(&Indexed<'a>, &'a [[u8; 33]]) -> usize + Copy + Send + 'a,
) {
    let expected = ask_reference(fixture, &fixture.non_members[..WINDOW]);
    let expected = expected.iter().filter(|&&found| found).count();
    for (level, indexed) in with_index(fixture) {
        let asked = indexed.clone();
        let ask = move |at: &mut usize| count(&asked, next_window(fixture, at));
        let right = |_: &usize, &found: &usize| {
            let members = &fixture.items[..fixture.items.len().min(WINDOW)];
            found == expected && count(&indexed, members) == members.len()
        };
        group.add_with(Who::Ours(level), 0, |_| (), ask, right);
    }
    structures(group, fixture);
}

fn structures(group: &mut Group<'_>, fixture: &Fixture) {
    let bits = fixture.bits_per_item() + fixture.index.bits_per_item();
    for row in &mut group.rows {
        row.structure(bits, Params::default().false_positive_rate());
    }
}
