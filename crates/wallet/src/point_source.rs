//! Where a restore gets the points of its counters from.

use std::ops::Range;

/// Why points could not be derived.
pub type PointsError = Box<dyn std::error::Error + Send + Sync>;

/// Gives a restore the points of a keyset's counters, as it needs them.
///
/// A restore asks for `Y` first, because that needs the secret alone, and for `B_` only where it looks that up or shows it:
/// of notes that are not spent, and of 64 spent ones. A list of pairs of `B_` and `Y`, in the order of the counters, gives
/// points too; all of it is then searched.
pub trait Points {
    /// `Y` of each counter.
    ///
    /// # Errors
    ///
    /// Any error ends the restore before anything is shown.
    fn ys(&mut self, counters: Range<u32>) -> Result<Vec<Vec<u8>>, PointsError>;

    /// `B_` of these counters.
    ///
    /// # Errors
    ///
    /// As [`ys`](Self::ys).
    fn messages(&mut self, counters: &[u32]) -> Result<Vec<Vec<u8>>, PointsError>;

    /// The number of counters, if the points are a list.
    fn end(&self) -> Option<u32> {
        None
    }
}

impl<P: Points + ?Sized> Points for &mut P {
    fn ys(&mut self, counters: Range<u32>) -> Result<Vec<Vec<u8>>, PointsError> {
        (**self).ys(counters)
    }

    fn messages(&mut self, counters: &[u32]) -> Result<Vec<Vec<u8>>, PointsError> {
        (**self).messages(counters)
    }

    fn end(&self) -> Option<u32> {
        (**self).end()
    }
}

impl<I: AsRef<[u8]>> Points for &[(I, I)] {
    fn ys(&mut self, counters: Range<u32>) -> Result<Vec<Vec<u8>>, PointsError> {
        let pairs = &self[counters.start as usize..counters.end as usize];
        Ok(pairs.iter().map(|(_, y)| y.as_ref().to_vec()).collect())
    }

    fn messages(&mut self, counters: &[u32]) -> Result<Vec<Vec<u8>>, PointsError> {
        let message = |&counter: &u32| self[counter as usize].0.as_ref().to_vec();
        Ok(counters.iter().map(message).collect())
    }

    fn end(&self) -> Option<u32> {
        Some(u32::try_from(self.len()).unwrap_or(u32::MAX))
    }
}
