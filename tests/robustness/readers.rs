//! Every way to read an untrusted filter.

use nutfilter::error::DecodeErrorKind;
use nutfilter::internals::{SimdLevel, Strategy};
use nutfilter::{
    Filter, IndexInterval, ItemHash, Nut23, Nut25, Params, RawValues, SipHash, UnvalidatedFilter,
    bip158, map_to_range,
};
use nutfilter_cashu::{FilterResponse, ResponseErrorKind};
use nutfilter_harness::STRATEGIES;

use crate::allocations::FIXED;
use crate::rows::Row;

/// A row in the forms that the readers need, made before allocations are counted.
pub(crate) struct Case {
    pub(crate) row: Row,
    /// Values to look for, each once more at the end, and whether they are in the set.
    targets: Vec<u64>,
    members: Vec<bool>,
    /// The values of the set in order, where it is one and they fit here.
    values: Vec<u64>,
    json: Vec<u8>,
    /// The bytes with their count in front.
    block: Vec<u8>,
}

pub(crate) type Class = Result<(), DecodeErrorKind>;

/// A name, whether it can be told at which level to work, and the reading itself.
pub(crate) struct Reader {
    pub(crate) name: &'static str,
    pub(crate) leveled: bool,
    pub(crate) read: fn(&Case, SimdLevel) -> Class,
    /// The most memory that it may take, in bytes, without what threads do.
    pub(crate) most: fn(&Case) -> usize,
}

const ITEMS: [&[u8]; 3] = [b"target", b"", b"target"];

impl Case {
    /// Of a row that the reference has decoded, or found to be nothing.
    pub(crate) fn new(row: Row, values: Vec<u64>) -> Self {
        let mut targets: Vec<u64> = [values.first(), values.get(values.len() / 2), values.last()]
            .into_iter()
            .flatten()
            .flat_map(|&value| [value, value.saturating_add(1), value.saturating_sub(1)])
            .chain([0, u64::MAX])
            .collect();
        targets.extend_from_within(..);
        let is_member = |target: &u64| values.binary_search(target).is_ok();
        let members = targets.iter().map(is_member).collect();
        Self {
            targets,
            members,
            values,
            json: row.json(),
            block: nutfilter_reference::serialize_bip158(row.n, &row.bytes),
            row,
        }
    }

    fn params(&self) -> Result<Params, DecodeErrorKind> {
        Params::new(self.row.p, self.row.m).map_err(|_| DecodeErrorKind::BadParameter)
    }

    fn admitted<H: Default>(
        &self,
        level: SimdLevel,
    ) -> Result<UnvalidatedFilter<&[u8], H>, DecodeErrorKind> {
        let admitted = Filter::check_length_with(
            H::default(),
            &self.row.bytes[..],
            self.row.n,
            self.params()?,
        );
        Ok(admitted.map_err(|error| error.kind())?.with_level(level))
    }

    fn validated<H: Default>(&self, level: SimdLevel) -> Result<Filter<&[u8], H>, DecodeErrorKind> {
        let admitted = self.admitted::<H>(level)?;
        admitted.validate().map_err(|error| error.kind())
    }

    /// Holds the answers about `ITEMS` against the values.
    fn check_items<H: ItemHash>(&self, hasher: &H, found: &[bool]) {
        let range = self.row.n * self.row.m;
        let is_member = |item: &&[u8]| {
            let value = map_to_range(hasher.hash(item), range);
            self.values.binary_search(&value).is_ok()
        };
        assert!(found.iter().copied().eq(ITEMS.iter().map(is_member)));
    }
}

fn parse<H: Default>(case: &Case, _: SimdLevel) -> Class {
    let parsed = Filter::parse_with(H::default(), &case.row.bytes[..], case.row.n, case.params()?);
    let filter = parsed.map_err(|error| error.kind())?;
    assert_eq!(u64::from(filter.n()), case.row.n);
    Ok(())
}

fn parse_with_a_key(case: &Case, _: SimdLevel) -> Class {
    let hasher = SipHash::new(1, 2);
    let parsed = Filter::parse_with(hasher, &case.row.bytes[..], case.row.n, case.params()?);
    parsed.map(drop).map_err(|error| error.kind())
}

fn validate(case: &Case, level: SimdLevel) -> Class {
    case.validated::<Nut25>(level).map(drop)
}

fn read_values(case: &Case, level: SimdLevel) -> Class {
    let filter = case.validated::<RawValues>(level)?;
    // One at a time, and all at once.
    assert!(filter.values().eq(case.values.iter().copied()));
    let sum = filter.values().fold(0, u64::wrapping_add);
    assert_eq!(sum, case.values.iter().copied().fold(0, u64::wrapping_add));
    Ok(())
}

fn match_items<H: ItemHash + Default>(case: &Case, level: SimdLevel) -> Class {
    let admitted = case.admitted::<H>(level)?;
    let found = admitted.matches(&ITEMS).map_err(|error| error.kind())?;
    case.check_items(&H::default(), &found);
    Ok(())
}

fn match_no_items(case: &Case, level: SimdLevel) -> Class {
    let found = case.admitted::<Nut25>(level)?.matches::<&[u8]>(&[]);
    assert!(found.map_err(|error| error.kind())?.is_empty());
    Ok(())
}

/// By the strategy with this number.
fn match_values<const STRATEGY: usize>(case: &Case, level: SimdLevel) -> Class {
    let admitted = case.admitted::<RawValues>(level)?;
    let found = admitted.matches_values_by(STRATEGIES[STRATEGY], &case.targets);
    assert_eq!(found.map_err(|error| error.kind())?, case.members);
    Ok(())
}

fn match_when_validated(case: &Case, level: SimdLevel) -> Class {
    let filter = case.validated::<RawValues>(level)?;
    for strategy in [Strategy::Cheapest, Strategy::Lookup, Strategy::Merge] {
        assert_eq!(filter.matches_values_by(strategy, &case.targets), case.members);
    }
    assert_eq!(filter.match_any_values(&case.targets), case.members.contains(&true));
    for (&target, &member) in case.targets.iter().zip(&case.members) {
        assert_eq!(filter.contains_value(target), member, "{target}");
    }
    Ok(())
}

fn from_json(case: &Case, _: SimdLevel) -> Class {
    let response =
        FilterResponse::from_json(case.json.as_slice()).map_err(|error| match error.kind() {
            ResponseErrorKind::BadParameter => DecodeErrorKind::BadParameter,
            kind => error.decode_error().unwrap_or_else(|| panic!("{kind:?}")).kind(),
        })?;
    let filter = response.into_filter();
    let filter = filter.map_err(|error| error.kind())?;
    case.check_items(&Nut25, &filter.matches(&ITEMS));
    Ok(())
}

fn from_block(case: &Case, _: SimdLevel) -> Class {
    let hasher = SipHash::new(1, 2);
    let parsed = bip158::parse_with(hasher, &case.block[..], case.params()?);
    let filter = parsed.map_err(|error| error.kind())?;
    case.check_items(&hasher, &filter.matches(&ITEMS));
    Ok(())
}

fn with_an_index(case: &Case, level: SimdLevel) -> Class {
    let filter = case.validated::<RawValues>(level)?;
    let indexed = filter.into_indexed(IndexInterval::Items(64));
    for strategy in [Strategy::Cheapest, Strategy::Lookup, Strategy::Merge] {
        assert_eq!(indexed.matches_values_by(strategy, &case.targets), case.members);
    }
    for (&target, &member) in case.targets.iter().zip(&case.members) {
        assert_eq!(indexed.contains_value(target), member, "{target}");
    }
    Ok(())
}

fn nothing(_: &Case) -> usize {
    0
}

/// What `Filter::into_indexed` promises: at most 69 + 24 bytes per entry for the index, and 16 for building it.
fn an_index(case: &Case) -> usize {
    let len = case.row.bytes.len();
    let entries = (case.row.n as usize).div_ceil(64).min(len.div_ceil(2));
    (69 + 24 + 16) * entries + FIXED
}

/// May take twice the bytes.
const fn reader(name: &'static str, leveled: bool, read: fn(&Case, SimdLevel) -> Class) -> Reader {
    Reader { name, leveled, read, most: |case| 2 * case.row.bytes.len() + FIXED }
}

impl Reader {
    const fn within(self, most: fn(&Case) -> usize) -> Self {
        Self { most, ..self }
    }
}

/// All of them.
pub(crate) const READERS: &[Reader] = &[
    reader("parse, nut25", false, parse::<Nut25>).within(nothing),
    reader("parse, nut23", false, parse::<Nut23>).within(nothing),
    reader("parse, values", false, parse::<RawValues>).within(nothing),
    reader("parse, with a key", false, parse_with_a_key).within(nothing),
    reader("check length and validate", true, validate).within(nothing),
    reader("check length and match, nut25", true, match_items::<Nut25>),
    reader("check length and match, nut23", true, match_items::<Nut23>),
    reader("check length and match nothing", true, match_no_items),
    reader("check length and match values", true, match_values::<0>),
    reader("check length and look each value up", true, match_values::<1>),
    reader("check length and merge", true, match_values::<2>),
    reader("validate and match", true, match_when_validated),
    reader("validate and read values", true, read_values),
    reader("JSON", false, from_json).within(|case| 2 * case.json.len() + FIXED),
    reader("count in front", false, from_block),
    reader("with an index", true, with_an_index).within(an_index),
];
