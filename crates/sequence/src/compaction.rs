//! Which segments of a cover are merged, and when.

use core::ops::Range;

use nutfilter_cashu::state_filters::ManifestSegment;
use nutfilter_cashu::state_filters::manifest::Level;

/// The segments of the cover that are to be merged next, and the level: those of the first finished unit of the
/// finest level that has several.
pub(crate) fn due(cover: &[ManifestSegment]) -> Option<(Level, Range<usize>)> {
    let latest = cover.last()?.end;
    for level in Level::ALL {
        // The end is not part of the interval.
        let unit = |end: u64| end.saturating_sub(1) / level.seconds();
        let mut start = 0;
        for group in cover.chunk_by(|a, b| unit(a.end) == unit(b.end)) {
            let range = start..start + group.len();
            start = range.end;
            if group.len() > 1 && unit(group[0].end) < unit(latest) {
                return Some((level, range));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cover(ends: &[u64]) -> Vec<ManifestSegment> {
        let starts = [0].into_iter().chain(ends.iter().copied());
        let segment = |(start, &end)| ManifestSegment {
            start,
            end,
            n: 0,
            length: 20,
            sha256: [0; 32],
        };
        starts.zip(ends).map(segment).collect()
    }

    #[test]
    fn finished_units_are_merged_from_the_finest_level_on() {
        const DAY: u64 = 86_400;
        for (ends, expected) in [
            (Vec::<u64>::new(), None),
            (vec![10], None),
            // All in the ten minutes that are not over.
            (vec![10, 20, 600], None),
            (vec![10, 600, 601], Some((Level::TenMinutes, 0..2))),
            // All in the hour that is not over.
            (vec![10, 1_200, 3_600], None),
            (vec![10, 3_600, 3_601], Some((Level::Hour, 0..2))),
            // One segment in the finished hour needs no merge.
            (vec![10, 3_601, 3_602], None),
            (vec![10, 3_601, 4_300, 7_201], Some((Level::Hour, 1..3))),
            (vec![3_600, 7_200, DAY], None),
            (vec![3_600, 7_200, DAY, DAY + 1], Some((Level::Day, 0..3))),
            (vec![DAY, 2 * DAY, 30 * DAY + 1], Some((Level::Month, 0..2))),
            (
                vec![30 * DAY, 60 * DAY, 361 * DAY],
                Some((Level::Year, 0..2)),
            ),
            (vec![360 * DAY, 720 * DAY, 721 * DAY], None),
        ] {
            assert_eq!(due(&cover(&ends)), expected, "{ends:?}");
        }
    }
}
