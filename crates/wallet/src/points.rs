use std::ops::Range;
pub type PointsError = Box<dyn std::error::Error + Send + Sync>;
/// Gives a restore the points of a keyset's counters, as it needs them.
pub trait Points {
    /// `Y` of each counter: needs the secret alone.
    fn ys(&mut self, counters: Range<u32>) -> Result<Vec<Vec<u8>>, PointsError>;
    /// `B_` of these counters.
    fn messages(&mut self, counters: &[u32]) -> Result<Vec<Vec<u8>>, PointsError>;
}
