//! Matching many targets in one call, with and without an index, and single look-ups.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use nutfilter::internals::SimdLevel;
use nutfilter::{Filter, IndexInterval, IndexedFilter, Nut25, Params, ResidentFilter};
use nutfilter_reference as reference;

use super::LARGEST_FOR_SLOW;
use crate::fixture::{Fixture, NON_MEMBERS};
use crate::{Contender, Group};

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
        group.add(Contender::Reference, ask, |found| *found == expected);
    }
    for level in SimdLevel::available() {
        let ask = move || {
            let received = Filter::check_length(fixture.bytes.as_slice(), n, params)?;
            received.with_level(level).matches(items)
        };
        group.add(Contender::Ours(level), ask, |found| found.as_ref() == Ok(&expected));
    }
}

/// A filter in a form for repeated queries.
pub(super) trait RepeatedQueries<'a>: Send + Sync + Sized {
    fn of(level: SimdLevel, filter: &'a Filter) -> Self;
    fn contains(&self, item: &[u8; 33]) -> bool;
    fn matches(&self, items: &[[u8; 33]]) -> Vec<bool>;
    fn bits_per_item(&self, fixture: &Fixture) -> f64;
}

/// A filter with its index.
pub(super) type Indexed<'a> = IndexedFilter<&'a [u8], Nut25>;

impl<'a> RepeatedQueries<'a> for Indexed<'a> {
    fn of(_: SimdLevel, filter: &'a Filter) -> Self {
        filter.with_hasher(Nut25).into_indexed(IndexInterval::default())
    }

    fn contains(&self, item: &[u8; 33]) -> bool {
        self.contains(item)
    }

    fn matches(&self, items: &[[u8; 33]]) -> Vec<bool> {
        self.matches(items)
    }

    fn bits_per_item(&self, fixture: &Fixture) -> f64 {
        fixture.bits_per_item() + self.index_bits_per_item()
    }
}

impl RepeatedQueries<'_> for ResidentFilter {
    fn of(level: SimdLevel, filter: &Filter) -> Self {
        let resident = filter.to_resident().expect("uniform hashes");
        resident.with_level(level)
    }

    fn contains(&self, item: &[u8; 33]) -> bool {
        self.contains(item)
    }

    fn matches(&self, items: &[[u8; 33]]) -> Vec<bool> {
        self.matches(items)
    }

    fn bits_per_item(&self, _: &Fixture) -> f64 {
        self.bits_per_item()
    }
}

/// Matches in a form that was made earlier.
pub(super) fn many<'a, P: RepeatedQueries<'a> + 'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let Targets { items, expected } = targets(fixture, &group.task);
    for (level, filter) in &fixture.filters {
        let prepared = P::of(*level, filter);
        let bits = prepared.bits_per_item(fixture);
        let ask = move || prepared.matches(items);
        if let Some(row) = group.add(Contender::Ours(*level), ask, |found| *found == expected) {
            row.structure(bits, Params::default().false_positive_rate());
        }
    }
}

/// `throughput`: independent look-ups. `latency`: with a full fence after each, which itself costs about 10 ns.
/// `batched`: the same number in one call.
pub(super) fn look_up<'a, P: RepeatedQueries<'a> + 'a>(
    group: &mut Group<'a>,
    fixture: &'a Fixture,
) {
    let count = match group.task.split('-').next() {
        Some("throughput") => |prepared: &P, window: &[[u8; 33]]| {
            let found = window.iter().filter(|item| prepared.contains(item));
            found.count()
        },
        Some("latency") => |prepared: &P, window: &[[u8; 33]]| {
            let found = window.iter().filter(|item| {
                let found = prepared.contains(item);
                fence(Ordering::SeqCst);
                found
            });
            found.count()
        },
        _ => |prepared: &P, window: &[[u8; 33]]| {
            let found = prepared.matches(window);
            found.iter().filter(|&&found| found).count()
        },
    };
    let expected = ask_reference(fixture, &fixture.non_members[..WINDOW]);
    let expected = expected.iter().filter(|&&found| found).count();
    for (level, filter) in &fixture.filters {
        let prepared = Arc::new(P::of(*level, filter));
        let bits = prepared.bits_per_item(fixture);
        let asked = prepared.clone();
        let ask = move |at: &mut usize| count(&asked, next_window(fixture, at));
        let right = |_: &usize, &found: &usize| {
            let members = &fixture.items[..fixture.items.len().min(WINDOW)];
            found == expected && count(&prepared, members) == members.len()
        };
        if let Some(row) = group.add_with(Contender::Ours(*level), 0, |_| (), ask, right) {
            row.structure(bits, Params::default().false_positive_rate());
        }
    }
}
