//! The part of a restore that needs no network: looks all counters up in both filters, spent notes first.

use std::collections::BTreeMap;
use std::ops::Range;

use nutfilter::ItemHash;
use nutfilter_cashu::{KeysetId, NoteKind, PointKind};

use crate::batches::shuffle;
use crate::error::CheckError;
#[cfg(feature = "client")]
use crate::error::FetchError;
use crate::match_limit::chance_limit;
use crate::matches::{FilterDates, Warning};
use crate::mint_filter::{MintFilter, check_point};
use crate::point_source::Points;
use crate::query_error::QueryError;
#[cfg(feature = "client")]
use crate::restore_options::Fallback;
use crate::restore_options::{COUNTERS, RestoreOptions};

/// Counters that are looked up at once.
const PIECE: u32 = 256;

/// Where a search ends that has found nothing. A mint may have dozens of keysets that the wallet never used.
pub(crate) const UNTOUCHED: u32 = 300;

/// How many times as far as usual a search goes when chance explains what it finds.
const PATIENCE: u32 = 10;

/// Spent notes whose message is looked up too: as many with the highest counters, and as many others.
const CHECKED: usize = 32;

/// How far apart the filters may be without a warning, in seconds. Both are made at the same time.
const APART: u64 = 3_600;

/// What the filters say of one counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    Absent,
    Spent,
    Live,
}

/// What the filters say.
pub(crate) struct SearchFinds {
    /// Of each counter.
    pub(crate) findings: Vec<Finding>,
    pub(crate) ys: Vec<Vec<u8>>,
    /// `B_` of live notes, and of the spent ones that were checked.
    pub(crate) messages: BTreeMap<u32, Vec<u8>>,
    pub(crate) warnings: Vec<Warning>,
}

impl SearchFinds {
    pub(crate) fn counters(&self, wanted: Finding) -> Vec<u32> {
        let all = (0..).zip(&self.findings);
        all.filter(|&(_, &finding)| finding == wanted).map(|(counter, _)| counter).collect()
    }
}

/// Looks the counters up.
pub(crate) fn search<H: ItemHash>(
    keyset: &KeysetId,
    mut points: impl Points,
    [spent, issued]: [&MintFilter<H>; 2],
    options: &RestoreOptions,
) -> Result<SearchFinds, QueryError> {
    options.check()?;
    let warnings = compare(keyset, [spent, issued], options)?;
    let mut found =
        SearchFinds { findings: Vec::new(), ys: Vec::new(), messages: BTreeMap::new(), warnings };
    let (in_spent, in_issued) = (spent.indexed(), issued.indexed());
    let mut derived: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let by_chance = explained(options.search, [spent, issued]);
    let (mut finds, mut crossed) = (Vec::new(), Vec::new());
    loop {
        let first = found.ys.len() as u32;
        let [end, wanted] = match points.end() {
            Some(end) => [end; 2],
            None => search_end(&finds, by_chance, options.search),
        };
        let piece = first..end.min(first.saturating_add(PIECE)).min(COUNTERS);
        if piece.is_empty() {
            if end < wanted {
                let counters = first;
                found.warnings.push(Warning::SearchCutShort { counters });
            }
            break;
        }
        let ys = ys(keyset, &mut points, piece)?;
        let is_spent = in_spent.matches(&ys);
        crossed.extend(chosen(first.., &in_issued.matches(&ys), true));
        let counters = chosen(first.., &is_spent, false);
        let messages = messages(keyset, &mut points, &counters)?;
        let is_issued = in_issued.matches(&messages);
        let is_crossed = in_spent.matches(&messages);
        crossed.extend(chosen(counters.iter().copied(), &is_crossed, true));
        let finding = |spent| [Finding::Absent, Finding::Spent][usize::from(spent)];
        found.findings.extend(is_spent.into_iter().map(finding));
        for ((counter, message), issued) in counters.into_iter().zip(messages).zip(is_issued) {
            if issued {
                found.findings[counter as usize] = Finding::Live;
                found.messages.insert(counter, message);
            } else {
                derived.insert(counter, message);
            }
        }
        found.ys.extend(ys);
        let findings = (first..).zip(&found.findings[first as usize..]);
        let found_now = findings.filter(|&(_, &finding)| finding != Finding::Absent);
        finds.extend(found_now.map(|(counter, _)| counter));
        bound(&found, [spent, issued], points.end())?;
    }
    if found.ys.is_empty() {
        return Err(CheckError::NoItems.into());
    }
    let missing = not_issued(keyset, &mut found, points, issued, options.confirm)?;
    // Another hash explains all that follows.
    let messages: Vec<_> = derived.values().chain(found.messages.values()).collect();
    let ys: Vec<_> = found.ys.iter().collect();
    for (filter, items) in [(spent, ys), (issued, messages)] {
        let matched = filter.indexed().matches(&items);
        found.warnings.extend(filter.doubts(&items, &matched)?);
    }
    let lookups = 2 * found.ys.len() as u64;
    let m = spent.params().m().min(issued.params().m());
    let matches = crossed.len() as u64;
    if matches > chance_limit(lookups, m) {
        return Err(CheckError::Exchanged { matches, lookups }.into());
    }
    if matches > 0 {
        let counters = crossed;
        found.warnings.push(Warning::Exchanged { counters });
    }
    contradiction(&mut found, missing, [spent, issued])?;
    Ok(found)
}

/// Refuses filters that do not belong together. Returns what is odd about them.
fn compare<H: ItemHash>(
    keyset: &KeysetId,
    [spent, issued]: [&MintFilter<H>; 2],
    options: &RestoreOptions,
) -> Result<Vec<Warning>, QueryError> {
    for (filter, kind) in [(spent, NoteKind::Spent), (issued, NoteKind::Issued)] {
        let of = filter.source();
        if of.kind != kind || of.keyset != *keyset || of.mint != spent.source().mint {
            return Err(QueryError::OtherSource(Box::new(of.clone())));
        }
        filter.check_age()?;
    }
    let (n, of) = (spent.n(), issued.n());
    if n > 0 && n == of && spent.filter().bytes() == issued.filter().bytes() {
        return Err(CheckError::EqualFilters { n }.into());
    }
    let mut warnings = Vec::new();
    if n > of {
        warnings.push(Warning::MoreSpentThanIssued { spent: n, issued: of });
    }
    let as_of = FilterDates { spent: spent.as_of(), issued: issued.as_of() };
    if as_of.spent.abs_diff(as_of.issued) > APART {
        warnings.push(Warning::DatesApart(as_of));
    }
    let oldest = as_of.spent.min(as_of.issued);
    if let Some(last_activity) = options.last_activity.filter(|&last| oldest < last) {
        warnings.push(Warning::OlderThanActivity { as_of: oldest, last_activity });
    }
    Ok(warnings)
}

/// How many finds in a row of `search` counters chance explains. 0 with an `M` above 22,000.
fn explained<H: ItemHash>(search: u32, filters: [&MintFilter<H>; 2]) -> usize {
    let rate = |filter: &MintFilter<H>| 1.0 / filter.params().m() as f64;
    let mean = f64::from(search) * filters.map(rate).iter().sum::<f64>();
    (mean + 3.0 * mean.sqrt()) as usize
}

/// Where the search ends, and where it would end if no find were by chance: behind the last find. If no more finds lie
/// within `search` counters than chance explains, they do not carry the search on for ever.
fn search_end(finds: &[u32], by_chance: usize, search: u32) -> [u32; 2] {
    let behind = |last: Option<u32>, times| match last {
        None => search.min(UNTOUCHED).saturating_mul(times),
        Some(last) => (last + 1).saturating_add(search.saturating_mul(times)),
    };
    let is_certain = |&at: &usize| finds[at] - finds[at - by_chance] < search.max(1);
    let certain = (by_chance..finds.len()).rev().find(is_certain);
    let wanted = behind(finds.last().copied(), 1);
    let limit = behind(certain.map(|at| finds[at]), PATIENCE);
    [wanted.min(limit), wanted]
}

/// `Y` of these counters.
pub(crate) fn ys(
    keyset: &KeysetId,
    points: &mut impl Points,
    counters: Range<u32>,
) -> Result<Vec<Vec<u8>>, QueryError> {
    let ys = points.ys(counters.clone()).map_err(QueryError::Points)?;
    check(keyset, points, "Y", &counters.collect::<Vec<_>>(), &ys)?;
    Ok(ys)
}

/// `B_` of these counters.
pub(crate) fn messages(
    keyset: &KeysetId,
    points: &mut impl Points,
    counters: &[u32],
) -> Result<Vec<Vec<u8>>, QueryError> {
    let messages = points.messages(counters).map_err(QueryError::Points)?;
    check(keyset, points, "B_", counters, &messages)?;
    Ok(messages)
}

/// Whether there is a point of the keyset's curve for each counter. Derived points are on it if they have its form; those of
/// a list may be anything.
fn check(
    keyset: &KeysetId,
    points: &impl Points,
    what: &'static str,
    counters: &[u32],
    given: &[Vec<u8>],
) -> Result<(), QueryError> {
    if given.len() != counters.len() {
        let (given, wanted) = (given.len(), counters.len());
        let error = format!("{given} points {what} for {wanted} counters");
        return Err(QueryError::Points(error.into()));
    }
    let curve = Some(keyset.point_kind());
    for (&counter, point) in counters.iter().zip(given) {
        if points.end().is_some() || PointKind::of(point) != curve {
            check_point(curve, counter as usize, what, point)?;
        }
    }
    Ok(())
}

/// The counters whose look-up had this result.
fn chosen(counters: impl Iterator<Item = u32>, matched: &[bool], wanted: bool) -> Vec<u32> {
    let all = counters.zip(matched);
    all.filter(|&(_, &matched)| matched == wanted).map(|(counter, _)| counter).collect()
}

/// Ends a search that finds more notes than the filters have items: it would have no end.
fn bound<H: ItemHash>(
    found: &SearchFinds,
    filters: [&MintFilter<H>; 2],
    end: Option<u32>,
) -> Result<(), CheckError> {
    let lookups = found.findings.len() as u64;
    for (filter, wanted) in filters.into_iter().zip([Finding::Spent, Finding::Live]) {
        let matches = found.findings.iter().filter(|&&one| one == wanted).count() as u64;
        let expected = u64::from(filter.n());
        // A filter that has an eighth of all points by chance says nothing.
        let limit = expected + chance_limit(lookups, filter.params().m()).min(lookups / 8);
        if end.is_none() && matches > limit {
            return Err(CheckError::TooManyMatches { matches, lookups, expected, limit });
        }
    }
    Ok(())
}

/// The spent notes that were not issued: of the highest ones, which an older `issued` lacks, and of some others.
fn not_issued<H: ItemHash>(
    keyset: &KeysetId,
    found: &mut SearchFinds,
    mut points: impl Points,
    issued: &MintFilter<H>,
    is_all: bool,
) -> Result<Vec<u32>, QueryError> {
    let mut counters = found.counters(Finding::Spent);
    if !is_all {
        let mut others = counters;
        counters = others.split_off(others.len().saturating_sub(CHECKED));
        shuffle(&mut others)?;
        others.truncate(CHECKED);
        counters.extend(others);
        counters.sort_unstable();
    }
    let messages = messages(keyset, &mut points, &counters)?;
    let in_issued = issued.indexed().matches(&messages);
    let missing = chosen(counters.iter().copied(), &in_issued, false);
    found.messages.extend(counters.into_iter().zip(messages));
    Ok(missing)
}

/// Refuses filters in which more spent notes were not issued than chance explains, or an older `issued`.
fn contradiction<H: ItemHash>(
    found: &mut SearchFinds,
    missing: Vec<u32>,
    [spent, issued]: [&MintFilter<H>; 2],
) -> Result<(), CheckError> {
    let limit = chance_limit(found.ys.len() as u64, spent.params().m());
    let is_fresh = spent.is_fresh() && issued.is_fresh();
    let is_older = is_fresh && issued.as_of() < spent.as_of();
    if missing.len() as u64 > limit && !is_older {
        return Err(CheckError::SpentNotIssued { missing: missing.len() as u64, limit, is_fresh });
    }
    if !missing.is_empty() {
        found.messages.retain(|counter, _| missing.binary_search(counter).is_err());
        found.warnings.push(Warning::SpentNotIssued { counters: missing });
    }
    Ok(())
}

/// Why a search of both filters ended. Nothing was shown.
#[cfg(feature = "client")]
pub(crate) struct SearchError {
    pub(crate) cause: QueryError,
    /// Whether the mint may have filters: one came, perhaps beyond the wallet's own limits, or no answer did.
    pub(crate) has_filters: bool,
}

#[cfg(feature = "client")]
impl SearchError {
    /// Whether these options allow a restore without filters. The mint is asked last whether it announces none.
    pub(crate) fn allows(
        &self,
        options: &RestoreOptions,
        announces_none: impl FnOnce() -> bool,
    ) -> bool {
        use CheckError::{BadOption, NoItems, NotAPoint};
        match (options.fallback, &self.cause) {
            (_, QueryError::Fetch(FetchError::Aborted)) => false,
            (Fallback::Always, QueryError::Fetch(_)) => true,
            // Of filters, and not of the wallet's own points.
            (Fallback::Always, QueryError::Check(error)) => {
                !matches!(error, NoItems | BadOption { .. } | NotAPoint { .. })
            }
            (Fallback::Unannounced, QueryError::Fetch(_)) => {
                !self.has_filters && options.last_seen.is_none() && announces_none()
            }
            _ => false,
        }
    }
}
