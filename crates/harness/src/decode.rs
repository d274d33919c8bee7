//! Any bytes as a filter of any size: values, or the class of the error.

use arbitrary::Arbitrary;
use nutfilter::{DecodeError, DecodeErrorKind, Filter, Level, Params, Unhashed};

use crate::class_of;

/// Bytes and the numbers that are said to belong to them.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// The declared N.
    pub n: u64,
    /// The declared P, not brought into range.
    pub p: u8,
    /// The declared M, not brought into range.
    pub m: u64,
    /// The filter.
    pub bytes: &'a [u8],
}

impl Case<'_> {
    /// Decodes with everything there is and compares.
    ///
    /// # Panics
    ///
    /// Where two of them differ.
    pub fn check(&self) {
        self.tamed().check_as_is();
        self.check_as_is();
    }

    /// The same case with numbers that have a chance: most random ones end at the first gate.
    fn tamed(&self) -> Self {
        let bits = self.bytes.len() as u64 * 8;
        let p = self.p % 33;
        let most = bits / (u64::from(p) + 1);
        Case {
            n: self.n % (most + 1),
            p,
            m: self.m % u64::from(u32::MAX) + 1,
            bytes: self.bytes,
        }
    }

    fn check_as_is(&self) {
        let expected = nutfilter_reference::decode(self.bytes, self.n, u32::from(self.p), self.m);
        let parsed = self.parse();
        let params = match (&expected, &parsed) {
            (Err(expected), Err(found)) => {
                assert_eq!(class_of(*expected), *found, "{self:?}");
                return;
            }
            (Ok(_), Ok(filter)) => filter.params(),
            _ => panic!("reference {expected:?}, library {parsed:?}: {self:?}"),
        };
        let (expected, filter) = (expected.unwrap_or_default(), parsed.expect("seen above"));

        for level in Level::available() {
            let filter = filter.clone().with_level(level);
            let by_step: Vec<u64> = filter.values().collect();
            assert_eq!(by_step, expected, "stepwise, {level}: {self:?}");
            let mut appended = vec![7];
            filter.append_values(&mut appended);
            assert_eq!(appended[0], 7, "{level}: {self:?}");
            assert_eq!(appended[1..], expected, "at once, {level}: {self:?}");
            // Folding takes over from stepping anywhere.
            for stepped in [0, 1, expected.len() / 2, expected.len()] {
                let mut values = filter.values();
                let first: Vec<u64> = values.by_ref().take(stepped).collect();
                assert_eq!(values.len(), expected.len() - first.len(), "{self:?}");
                let all = values.fold(first, |mut values, value| {
                    values.push(value);
                    values
                });
                assert_eq!(all, expected, "folded from {stepped}, {level}: {self:?}");
            }
        }

        // What is accepted has one form only.
        let again = Filter::from_values(&expected, params).expect("values of a filter");
        assert_eq!(again.bytes(), self.bytes, "{self:?}");
        assert_eq!(again, filter, "{self:?}");
    }

    /// Both ways to validate at every level, which have to agree on what is wrong.
    fn parse(&self) -> Result<Filter<'_, Unhashed>, DecodeErrorKind> {
        let params =
            Params::new(u32::from(self.p), self.m).map_err(|_| DecodeErrorKind::BadParameter)?;
        let admitted =
            Filter::<Unhashed>::admit(self.bytes, self.n, params).map_err(|error| error.kind())?;
        let targets = [0, u64::MAX, params.range(admitted.n()) / 2];
        let mut first: Option<Result<Filter<'_, Unhashed>, DecodeError>> = None;
        for level in Level::available() {
            let admitted = admitted.clone().with_level(level);
            let matched = admitted.matches_values(&targets);
            let parsed = admitted.validate();
            match (&matched, &parsed) {
                (Ok(matched), Ok(filter)) => {
                    assert_eq!(
                        *matched,
                        filter.matches_values(&targets),
                        "{level}: {self:?}"
                    );
                }
                (Err(matching), Err(parsing)) => assert_eq!(matching, parsing, "{self:?}"),
                _ => panic!("matching {matched:?}, parsing {parsed:?}, {level}: {self:?}"),
            }
            // Not the class alone: the numbers in the error too.
            assert_eq!(
                *first.get_or_insert_with(|| parsed.clone()),
                parsed,
                "{level}: {self:?}"
            );
        }
        let parsed = first.expect("there is always a level");
        parsed.map_err(|error| error.kind())
    }
}
