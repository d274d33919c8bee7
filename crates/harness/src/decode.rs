//! Any bytes as a filter of any size: values, or the class of the error.

use std::borrow::Cow;

use arbitrary::Arbitrary;
use nutfilter::{AdmittedFilter, DecodeError, Filter, Level, Params, Strategy, Unhashed};
use nutfilter_reference::Error;

use crate::cost::{Budget, within};
use crate::recipe::{self, SMALL};
use crate::{class_of, levels};

/// Bytes and the numbers that are said to belong to them.
///
/// As input of a fuzzer these are 18 bytes, little-endian, and the filter behind them.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// What is made of the rest: see [`Case::check`].
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

/// What lies before the filter in an input.
const HEADER: usize = 18;

/// A filter as somebody sent it.
#[derive(Debug)]
struct Claim<'a> {
    n: u64,
    p: u8,
    m: u64,
    bytes: Cow<'a, [u8]>,
}

impl Case<'_> {
    /// Decodes and compares with the reference: at one level, in one way, so that a small input takes few
    /// microseconds. The fuzzer turns `how` and has them all.
    ///
    /// | bits of `how` | |
    /// |---|---|
    /// | 0 | whether N, P and M are brought to where they have a chance; with more bytes than fit a [`SMALL`] input: whether all is a [recipe](crate::recipe::filter) |
    /// | 1, 2 | the level; 3: all levels, which have to agree on the numbers in an error too |
    /// | 3 to 5 | in which way values are read, coded again, or targets looked for |
    /// | 6, 7 | where stepping ends and folding begins |
    ///
    /// # Panics
    ///
    /// Where two of them differ.
    pub fn check(&self) {
        let claim = self.claim();
        let expected =
            nutfilter_reference::decode(&claim.bytes, claim.n, u32::from(claim.p), claim.m);
        let params = Params::new(u32::from(claim.p), claim.m);
        let Ok(params) = params else {
            assert_eq!(expected, Err(Error::BadParameter), "{self:?}");
            return;
        };
        let admitted = match Filter::<Unhashed>::admit(&*claim.bytes, claim.n, params) {
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
            // Not the class alone: the numbers in the error too.
            assert_eq!(*first.get_or_insert(outcome), outcome, "{level}: {self:?}");
        }
    }

    fn claim(&self) -> Claim<'_> {
        let is = |n, p, m| Claim {
            n,
            p,
            m,
            bytes: Cow::Borrowed(self.bytes),
        };
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
        // Most random numbers end at the first gate.
        let bits = self.bytes.len() as u64 * 8;
        let p = self.p % 33;
        let most = bits / (u64::from(p) + 1);
        is(self.n % (most + 1), p, self.m % u64::from(u32::MAX) + 1)
    }

    /// Validates, or looks for targets in the pass that validates, and has the values in one way.
    fn check_at(
        &self,
        level: Level,
        admitted: AdmittedFilter<'_, Unhashed>,
        expected: &Result<Vec<u64>, Error>,
    ) -> Result<(), DecodeError> {
        let way = self.how >> 3 & 7;
        if way < 2 {
            let strategy = [Strategy::Points, Strategy::Merge][usize::from(way)];
            let targets = self.targets(admitted.params().range(admitted.n()));
            let budget = Budget::new(admitted.n(), admitted.bytes().len(), 0);
            let answers = within(budget.allowed(targets.len()), self, || {
                admitted.matches_values_by(strategy, &targets)
            });
            match (&answers, expected) {
                (Ok(answers), Ok(values)) => {
                    for (target, answer) in targets.iter().zip(answers) {
                        let found = values.binary_search(target).is_ok();
                        assert_eq!(found, *answer, "{target}, {strategy:?}, {level}: {self:?}");
                    }
                }
                (Err(error), Err(expected)) => {
                    let expected = class_of(*expected);
                    assert_eq!(expected, error.kind(), "{strategy:?}, {level}: {self:?}");
                }
                _ => panic!("{expected:?}, {answers:?}, {strategy:?}, {level}: {self:?}"),
            }
            return answers.map(drop);
        }
        let filter = admitted.validate();
        match (&filter, expected) {
            (Ok(filter), Ok(values)) => self.check_values(way, filter, values),
            (Err(error), Err(expected)) => {
                assert_eq!(class_of(*expected), error.kind(), "{level}: {self:?}");
            }
            _ => panic!("{expected:?}, library {filter:?}, {level}: {self:?}"),
        }
        filter.map(drop)
    }

    /// A few values to look for: more than are looked for one after another.
    fn targets(&self, range: u64) -> [u64; 8] {
        let part = range / 8 + 1;
        let mut targets = core::array::from_fn(|i| i as u64 * part);
        (targets[5], targets[6], targets[7]) = (self.m, u64::MAX, range.wrapping_sub(1));
        targets
    }

    /// One of the ways to have the values.
    fn check_values(&self, way: u8, filter: &Filter<'_, Unhashed>, expected: &[u64]) {
        let same = |item: usize, value: u64| {
            let expected = expected.get(item);
            assert_eq!(expected, Some(&value), "item {item}: {self:?}");
        };
        match way {
            2 => {
                // What is accepted has one form only.
                let again = Filter::from_values(expected, filter.params()).expect("its values");
                assert!(again.bytes() == filter.bytes(), "coded again: {self:?}");
            }
            3 => {
                let mut appended = vec![7];
                filter.append_values(&mut appended);
                assert_eq!(appended[0], 7, "{self:?}");
                assert!(appended[1..] == *expected, "{self:?}");
            }
            4 => {
                for &target in expected.first().iter().chain(&expected.last()) {
                    assert!(filter.contains_value(*target), "{self:?}");
                }
                let targets = self.targets(filter.range());
                let any = targets.iter().any(|t| expected.binary_search(t).is_ok());
                assert_eq!(filter.match_any_values(&targets), any, "{self:?}");
            }
            _ => {
                // Folding takes over from stepping anywhere.
                let stepped = expected.len() * usize::from(self.how >> 6) / 3;
                let mut values = filter.values();
                if way == 5 {
                    for item in 0..stepped {
                        assert_eq!(values.len(), expected.len() - item, "{self:?}");
                        same(item, values.next().unwrap_or(u64::MAX));
                    }
                } else if let Some(last) = stepped.checked_sub(1) {
                    assert_eq!(values.nth(last), Some(expected[last]), "{self:?}");
                }
                let left = expected.len() - stepped;
                assert_eq!(values.size_hint(), (left, Some(left)), "{self:?}");
                let end = values.fold(stepped, |item, value| {
                    same(item, value);
                    item + 1
                });
                assert_eq!(end, expected.len(), "{self:?}");
            }
        }
    }
}
