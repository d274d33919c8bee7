//! [`BlockInfo`]: the draft's list of the blocks of a sequence.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Block;
use super::sequence_error::{Fault, MAX_NUMBER, SequenceError, parse};

/// A height of the draft's info document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockInterval {
    /// When the block opened, in Unix seconds.
    pub start: u64,
    /// When it was sealed; `None` for the open block.
    pub end: Option<u64>,
}

/// The draft's info document: `GET /v1/filters/info/{kind}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockInfo {
    /// Blocks have 2^b bits while they are open.
    pub b: u32,
    /// Seconds after which an open block is sealed.
    pub timeout: u64,
    /// Seconds between two versions of the open block; `None` if it is not served.
    pub open_interval: Option<u64>,
    /// By height. Only the last one is open.
    pub blocks: Vec<BlockInterval>,
}

impl BlockInfo {
    /// The minimum of `timeout`.
    pub const MIN_TIMEOUT: u64 = 3_600;

    /// Parses and checks an info document. Unknown members are ignored.
    ///
    /// # Errors
    ///
    /// The bytes are not such a JSON object, or [`BlockInfo::check`] fails.
    pub fn from_json(json: &[u8]) -> Result<Self, SequenceError> {
        let info: Self = parse(json)?;
        info.check()?;
        Ok(info)
    }

    /// The document as JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Writing numbers to memory cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Checks b, the timeout, and that each block starts where the one before ends, up to the open one.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn check(&self) -> Result<(), SequenceError> {
        let fail = |fault| Err(SequenceError(fault));
        let width = self.b;
        if Block::capacity(width).is_err() {
            return fail(Fault::BlockWidth { width });
        }
        if self.timeout < Self::MIN_TIMEOUT {
            let timeout = self.timeout;
            return fail(Fault::Timeout { timeout });
        }
        if self.open_interval == Some(0) {
            return fail(Fault::OpenInterval);
        }
        let Some(last) = self.blocks.last() else {
            return fail(Fault::NoBlocks);
        };
        if let Some(number) = Some(last.start).filter(|&start| start > MAX_NUMBER) {
            return fail(Fault::TooLarge { number });
        }
        for (height, block) in self.blocks.iter().enumerate() {
            let BlockInterval { start, end } = *block;
            let next = self.blocks.get(height + 1).map(|next| next.start);
            if end != next {
                return fail(Fault::BlockEnd { height, end, next });
            }
            if let Some(end) = end.filter(|&end| end < start) {
                return fail(Fault::Interval { start, end });
            }
        }
        Ok(())
    }

    /// The height of the open block, which is the number of sealed ones.
    #[must_use]
    pub fn open_height(&self) -> u64 {
        (self.blocks.len() as u64).saturating_sub(1)
    }
}
