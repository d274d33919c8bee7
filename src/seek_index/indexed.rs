//! [`IndexedFilter`]: a filter with its index.

use alloc::vec;
use alloc::vec::Vec;

use crate::filter::{Filter, item_queries};
use crate::hash::{ItemHash, Nut25, map_to_range};
use crate::matching::{OtherBytes, PointTable, Strategy, ValidatedBits};

/// A filter with a seek index, made by [`Filter::into_indexed`].
///
/// It gives the same answers as the filter alone, but faster.
#[derive(Clone, Debug)]
pub struct IndexedFilter<D = Vec<u8>, H = Nut25> {
    pub(super) filter: Filter<D, H>,
    pub(super) table: PointTable,
}

impl<D: AsRef<[u8]>, H> IndexedFilter<D, H> {
    /// The filter without its index.
    #[must_use]
    pub fn filter(&self) -> &Filter<D, H> {
        &self.filter
    }

    /// Drops the index.
    #[must_use]
    pub fn into_filter(self) -> Filter<D, H> {
        self.filter
    }

    /// The number of entries of the index. Only an empty filter has none.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.table.entries()
    }

    /// The size of the index in memory in bits per item of the filter.
    #[must_use]
    pub fn index_bits_per_item(&self) -> f64 {
        self.table.size() as f64 * 8.0 / f64::from(self.filter.n().max(1))
    }

    /// Whether a mapped value is in the set.
    ///
    /// # Cost
    ///
    /// It decodes an interval's items on average, and never more than five intervals' and 64. In
    /// any filter that is at most five times the bits of two intervals' and 64 average items. Many values at once cost a fraction of that each:
    /// [`IndexedFilter::matches_values`].
    #[must_use]
    pub fn contains_value(&self, value: u64) -> bool {
        if value >= self.filter.range() {
            return false;
        }
        // Only storage that changed leads to a place that cannot be decoded. In that case the filter answers
        // without the index.
        let found = self.stream().find_by(&self.table, value);
        found.unwrap_or_else(|_| self.contains_without_index(value))
    }

    /// Not inlined: its stack frame takes longer to prepare than a look-up.
    #[cold]
    #[inline(never)]
    fn contains_without_index(&self, value: u64) -> bool {
        self.filter.contains_value(value)
    }

    /// Whether any of the mapped values is in the set.
    ///
    /// # Cost
    ///
    /// As [`IndexedFilter::matches_values`], but stops at the first match.
    #[must_use]
    pub fn match_any_values(&self, values: &[u64]) -> bool {
        let mut any = false;
        let asked = self.visit_matches(Strategy::Cheapest, values, |_| {
            any = true;
            false
        });
        match asked {
            Ok(()) => any,
            Err(_) => self.filter.match_any_values(values),
        }
    }

    /// Returns for each mapped value whether it is in the set, in the given order.
    ///
    /// # Cost
    ///
    /// Few values are looked up individually, several in parallel lanes, without sorting. If there are so many
    /// that decoding the whole filter is faster, the filter is decoded ([`Filter::matches_values`]).
    ///
    /// In any filter of B bits, k values decode at most `5 * (B + k * x)` bits. Here x is the average length of
    /// twice an interval's items plus 64: `(2 * interval + 64) * ceil(B / N)`.
    #[must_use]
    pub fn matches_values(&self, values: &[u64]) -> Vec<bool> {
        self.matches_by(Strategy::Cheapest, values)
    }

    /// [`IndexedFilter::matches_values`] with a given strategy, for tests and benchmarks.
    #[cfg(feature = "__internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn matches_values_by(&self, strategy: Strategy, values: &[u64]) -> Vec<bool> {
        self.matches_by(strategy, values)
    }

    fn matches_by(&self, strategy: Strategy, values: &[u64]) -> Vec<bool> {
        let mut found = vec![false; values.len()];
        let asked = self.visit_matches(strategy, values, |position| {
            found[position] = true;
            true
        });
        match asked {
            Ok(()) => found,
            Err(_) => self.filter.matches_values(values),
        }
    }

    /// The strategy of [`IndexedFilter::matches_values`] for so many values, for tests and benchmarks.
    #[cfg(feature = "__internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn planned(&self, values: usize) -> Strategy {
        let filter = self.filter();
        let size = (filter.n(), filter.bytes().len());
        self.table.planned(filter.level(), size, values)
    }

    fn visit_matches(
        &self,
        strategy: Strategy,
        values: &[u64],
        visit: impl FnMut(usize) -> bool,
    ) -> Result<(), OtherBytes> {
        self.stream().visit_matches(strategy, &self.table, values, visit)
    }

    fn stream(&self) -> ValidatedBits<'_> {
        self.filter.stream()
    }
}

item_queries!(IndexedFilter, self => self.filter);
