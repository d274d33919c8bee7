//! A filter that was decoded once, in a form that answers batches of targets.

use super::{Bitmap, Coded, Strategy, Stream, locate_all, plan};
use crate::decode::{self, SampleMemory, longest_span};
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
        let (level, bytes, n, params) = (coded.level, coded.bytes, coded.n, coded.params);
        let step = plan::seek_step((n, bytes.len()));
        let longest = longest_span(n, bytes.len() as u64, step);
        decode::seek_table_using(&mut self.points, level, bytes, n, params, step, longest)
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
        let stream = Stream {
            level: coded.level,
            bytes: coded.bytes,
            params: coded.params,
            range: coded.range(),
            end: table.end,
        };
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
