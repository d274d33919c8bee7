//! Decodes any bytes as a filter of any size: the values, or the class of the error.

use std::borrow::Cow;

use arbitrary::Arbitrary;
use nutfilter::internals::SimdLevel;
use nutfilter::{DecodeError, Filter, Params, RawValues, UnvalidatedFilter};
use nutfilter_reference::Error;

use crate::cost::{Budget, within};
use crate::recipe::{self, SMALL};
use crate::{STRATEGIES, class_of, levels};

/// Bytes, and the parameters declared for them.
///
/// A fuzzer's input is 18 little-endian bytes, followed by the filter.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// Selects the checks: see [`Case::check`].
    pub how: u8,
    /// The declared N.
    pub n: u64,
    /// The declared P.
    pub p: u8,
    /// The declared M.
    pub m: u64,
    /// The filter, or edits of one.
    pub bytes: &'a [u8],
}

/// Bytes before the filter in an input.
const HEADER: usize = 18;

/// A filter as received.
#[derive(Debug)]
struct Claim<'a> {
    n: u64,
    p: u8,
    m: u64,
    bytes: Cow<'a, [u8]>,
}

impl Case<'_> {
    /// Decodes and compares with the reference, at one level, in every way. The fuzzer varies `how` and so reaches all levels.
    ///
    /// | bits of `how` | |
    /// |---|---|
    /// | 0 | whether N, P and M are adjusted to plausible values; in an input that is not [`SMALL`]: whether all of it is a [recipe](crate::recipe::filter) |
    /// | 1, 2 | the level; 3: all levels, which must also agree on the numbers in an error |
    /// | 6, 7 | where stepping ends and folding begins, and the strategy of look-ups |
    pub fn check(&self) {
        let claim = self.claim();
        let expected =
            nutfilter_reference::decode(&claim.bytes, claim.n, u32::from(claim.p), claim.m);
        let params = Params::new(u32::from(claim.p), claim.m);
        let Ok(params) = params else {
            assert_eq!(expected, Err(Error::BadParameter), "{self:?}");
            return;
        };
        let admitted = match Filter::check_length_with(RawValues, &*claim.bytes, claim.n, params) {
            Ok(admitted) => admitted,
            Err(error) => {
                let expected = expected.map(drop).map_err(class_of);
                assert_eq!(expected, Err(error.kind()), "{self:?}");
                return;
            }
        };
        let mut first = None;
        for level in levels(self.how >> 1 & 3, true) {
            let admitted = admitted.clone().with_level(level);
            let outcome = self.check_at(level, admitted, &expected);
            // Compare not only the class but also the numbers in the error.
            assert_eq!(*first.get_or_insert(outcome), outcome, "{level}: {self:?}");
        }
    }

    fn claim(&self) -> Claim<'_> {
        let is = |n, p, m| Claim { n, p, m, bytes: Cow::Borrowed(self.bytes) };
        if self.how & 1 == 0 {
            return is(self.n, self.p, self.m);
        }
        if self.bytes.len() > SMALL - HEADER {
            let made = recipe::filter(self.n, self.p, self.m, self.bytes);
            return Claim {
                n: made.n,
                p: made.params.p() as u8,
                m: made.params.m(),
                bytes: Cow::Owned(made.bytes),
            };
        }
        // Most random numbers fail the first check.
        let bits = self.bytes.len() as u64 * 8;
        let p = self.p % 33;
        let most = bits / (u64::from(p) + 1);
        is(self.n % (most + 1), p, self.m % u64::from(u32::MAX) + 1)
    }

    /// Looks up targets during validation, validates, and reads the values.
    fn check_at(
        &self,
        level: SimdLevel,
        admitted: UnvalidatedFilter<&[u8], RawValues>,
        expected: &Result<Vec<u64>, Error>,
    ) -> Result<(), DecodeError> {
        let strategy = STRATEGIES[usize::from(self.how >> 6)];
        let targets = self.targets(admitted.params().range(admitted.n()));
        let budget = Budget::new(admitted.n(), admitted.bytes().len(), 0);
        let answers = within(budget.allowed(targets.len()), self, || {
            admitted.matches_values_by(strategy, &targets)
        });
        let is_in = |values: &Vec<u64>| targets.map(|target| values.binary_search(&target).is_ok());
        let wanted = expected.as_ref().map(is_in).map_err(|error| class_of(*error));
        let answers = answers.map_err(|error| error.kind());
        let found = answers.as_deref().map_err(|kind| *kind);
        assert_eq!(
            found,
            wanted.as_ref().map(|all| &all[..]).map_err(|kind| *kind),
            "{strategy:?}, {level}: {self:?}"
        );
        let filter = admitted.validate();
        match (&filter, expected) {
            (Ok(filter), Ok(values)) => self.check_values(filter, values),
            (Err(error), Err(expected)) => {
                assert_eq!(class_of(*expected), error.kind(), "{level}: {self:?}");
            }
            _ => panic!("{expected:?}, library {filter:?}, {level}: {self:?}"),
        }
        filter.map(drop)
    }

    /// A few values to look up: more than are looked up one by one.
    fn targets(&self, range: u64) -> [u64; 8] {
        let part = range / 8 + 1;
        let mut targets = core::array::from_fn(|i| i as u64 * part);
        (targets[5], targets[6], targets[7]) = (self.m, u64::MAX, range.wrapping_sub(1));
        targets
    }

    /// Reads the values in every way.
    fn check_values(&self, filter: &Filter<impl AsRef<[u8]>, RawValues>, expected: &[u64]) {
        // A valid filter has only one encoding.
        let again = Filter::from_values(expected, filter.params()).expect("its values");
        assert!(again.bytes() == filter.bytes(), "coded again: {self:?}");
        let mut appended = vec![7];
        filter.append_values(&mut appended);
        assert!(appended[0] == 7 && appended[1..] == *expected, "{self:?}");
        for &target in expected.first().iter().chain(&expected.last()) {
            assert!(filter.contains_value(*target), "{self:?}");
        }
        let targets = self.targets(filter.range());
        let any = targets.iter().any(|t| expected.binary_search(t).is_ok());
        assert_eq!(filter.match_any_values(&targets), any, "{self:?}");
        // Folding may start after any number of steps, or of values that are passed over.
        let stepped = expected.len() * usize::from(self.how >> 6) / 3;
        let (mut values, mut passed) = (filter.values(), filter.values());
        for (item, value) in expected[..stepped].iter().enumerate() {
            assert_eq!(values.len(), expected.len() - item, "{self:?}");
            assert_eq!(values.next(), Some(*value), "item {item}: {self:?}");
        }
        if let Some(last) = stepped.checked_sub(1) {
            assert_eq!(passed.nth(last), Some(expected[last]), "{self:?}");
        }
        for values in [values, passed] {
            let left = expected.len() - stepped;
            assert_eq!(values.size_hint(), (left, Some(left)), "{self:?}");
            let end = values.fold(stepped, |item, value| {
                assert_eq!(expected.get(item), Some(&value), "item {item}: {self:?}");
                item + 1
            });
            assert_eq!(end, expected.len(), "{self:?}");
        }
    }
}
