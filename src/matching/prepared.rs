//! A filter that was decoded once, in a form that answers batches of targets.

use super::{Bitmap, Strategy, ValidatedBits, locate_all, plan};
use crate::decode::{self, Coded, SampleMemory, longest_span};
use crate::error::DecodeError;

/// The points or the bitmap of a filter. Keeps its memory for the next filter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared {
    /// [`Strategy::Lookup`] or [`Strategy::Bitmap`].
    strategy: Strategy,
    points: SampleMemory,
    bitmap: Bitmap,
}

impl Prepared {
    /// Decodes and validates a filter for queries with [`Strategy::Lookup`], or else with [`Strategy::Bitmap`].
    ///
    /// # Errors
    ///
    /// As [`decode::validate`]. No filter is prepared then.
    pub(crate) fn load(
        &mut self,
        coded: &Coded<'_>,
        strategy: Strategy,
    ) -> Result<(), DecodeError> {
        self.strategy = strategy;
        if strategy != Strategy::Lookup {
            return self.bitmap.load(coded);
        }
        let step = plan::seek_step((coded.n, coded.bytes.len()));
        let longest = longest_span(coded.n, coded.bytes.len() as u64, step);
        decode::seek_table_using(&mut self.points, *coded, step, longest)
    }

    /// Calls `visit` with the index in `targets` of each member of the set, in order, until `visit` returns false.
    /// Returns whether it never did. `coded` is the filter that was loaded.
    pub(crate) fn visit_matches(
        &self,
        coded: &Coded<'_>,
        targets: &[u64],
        mut visit: impl FnMut(usize) -> bool,
    ) -> bool {
        if self.strategy != Strategy::Lookup {
            return self.bitmap.visit_matches(coded.level, targets, visit);
        }
        let table = &self.points.table;
        let stream = ValidatedBits { coded: *coded, end: table.end };
        let locate = |targets: &[u64], points: &mut [_]| {
            locate_all(coded.level, table, targets, points);
        };
        let mut all = true;
        let found = stream.find_each(locate, targets, |place| {
            all = visit(place);
            all
        });
        found.expect("the points were made from this validated filter");
        all
    }
}
