//! Follows the draft's blocks.

use data_encoding::{BASE64, HEXLOWER};
use nutfilter_cashu::state_filters::manifest::hash;
use nutfilter_cashu::state_filters::{
    Block, BlockInfo, BlockInterval, Positions, SequencePath, StateFilterError,
};

use super::bookmark::{Bookmark, OpenBlock, Position, SeenBlock};
use super::{Contents, FollowError, Follower, Found, Plan, Progress};

/// Every block is accepted up to this size: the mint may change the width of the open one.
const MAX_BLOCK_BYTES: u64 = 1 << (Block::MAX_WIDTH - 3);

/// The heights to download: the sealed ones from `first` on, and the open one if it is served.
pub(super) fn heights(info: &BlockInfo, first: u64) -> impl Iterator<Item = u64> + use<> {
    let open = info.open_height();
    let end = open + u64::from(info.open_interval.is_some());
    first..end
}

impl Follower {
    pub(super) fn plan_blocks(
        &self,
        since: Option<u64>,
        bookmark: Option<&Bookmark>,
    ) -> Result<Plan, FollowError> {
        let answer = self.client.document(SequencePath::BlockInfo(self.kind))?;
        let info = BlockInfo::from_json(&answer.body)?;
        let open = info.blocks.last().map_or(0, |open| open.start);
        let latest = self.latest();
        if open > latest {
            return Err(FollowError::future(open, latest));
        }
        let seen = bookmark.map(Bookmark::blocks).unwrap_or_default();
        compare(&info, seen)?;
        let first = match since {
            // `end` is missing for the open block only.
            Some(since) => info
                .blocks
                .partition_point(|block| block.end.is_some_and(|end| end <= since)),
            None => seen.len(),
        };
        let from = info.blocks.get(first).map_or(open, |block| block.start);
        Ok(Plan {
            from,
            elements: self.elements.len(),
            max_age: info.open_interval.or(answer.max_age),
            contents: Contents::Blocks {
                first: first as u64,
                info,
            },
        })
    }

    pub(super) fn run_blocks(
        &self,
        info: &BlockInfo,
        first: u64,
        mut progress: Progress,
        audit: bool,
        found: &mut dyn FnMut(Found),
    ) -> Result<Progress, FollowError> {
        let positions: Vec<_> = self.elements.iter().map(Positions::of).collect();
        let mut seen = progress
            .bookmark
            .as_ref()
            .map(|bookmark| bookmark.blocks().to_vec())
            .unwrap_or_default();
        if audit && let Some(last) = seen.len().checked_sub(1) {
            let BlockInterval { start, end } = info.blocks[last];
            self.block(last as u64, start, end, &mut seen)?;
        }
        let before = progress
            .bookmark
            .as_ref()
            .and_then(Bookmark::open_block)
            .cloned();
        let mut open = None;
        // Sealed blocks that are not downloaded, because they end before `since`.
        for block in &info.blocks[seen.len()..info.blocks.len() - 1] {
            seen.push(SeenBlock {
                start: block.start,
                end: block.end.unwrap_or(block.start),
                sha256: None,
            });
        }
        for height in heights(info, first) {
            let BlockInterval { start, end } = info.blocks[height as usize];
            let block = self.block(height, start, end, &mut seen)?;
            if let Some(before) = before.as_ref().filter(|before| before.height == height) {
                check_bits(before, &block)?;
            }
            if end.is_none() {
                let bits = BASE64.encode(block.as_bytes());
                open = Some(OpenBlock { height, bits });
            }
            for (element, &positions) in positions.iter().enumerate() {
                if !block.may_contain_at(positions) {
                    continue;
                }
                if self.report(&mut progress, element, end.is_none().then_some(height)) {
                    found(self.found(element, start, end));
                }
            }
        }
        let position = Position::Blocks { blocks: seen, open };
        Ok(self.advanced(progress, position))
    }

    /// Downloads and checks a block. The hash of a sealed one is compared with the one in `seen`, or put there.
    fn block(
        &self,
        height: u64,
        start: u64,
        end: Option<u64>,
        seen: &mut [SeenBlock],
    ) -> Result<Block, FollowError> {
        let path = SequencePath::Block(self.kind, height);
        let bytes = self.client.object(path, MAX_BLOCK_BYTES)?.body;
        let sha256 = HEXLOWER.encode(&hash(&bytes));
        let block = Block::from_bytes(bytes).map_err(|error| invalid_block(height, error))?;
        if let Some(end) = end
            && let Some(seen) = seen.get_mut(height as usize)
        {
            let before = seen.sha256.replace(sha256.clone());
            if before.is_some_and(|before| before != sha256) {
                return Err(FollowError::changed("block", start, end));
            }
        }
        Ok(block)
    }
}

fn invalid_block(height: u64, error: StateFilterError) -> FollowError {
    FollowError::Invalid(format!("block {height}: {error}"))
}

/// Checks that a block has all bits that it had when it was open. Its width may have changed when it was sealed.
fn check_bits(before: &OpenBlock, block: &Block) -> Result<(), FollowError> {
    let height = before.height;
    let invalid = |error| invalid_block(height, error);
    let before = before.block().map_err(invalid)?;
    let width = before.width().min(block.width());
    let (before, now) = (
        before.fold(width).map_err(invalid)?,
        block.fold(width).map_err(invalid)?,
    );
    let lost = |(before, now): (&u8, &u8)| before & !now != 0;
    match before.as_bytes().iter().zip(now.as_bytes()).any(lost) {
        true => Err(FollowError::Stale { height }),
        false => Ok(()),
    }
}

/// Compares an info document with the sealed blocks at the bookmark.
fn compare(info: &BlockInfo, seen: &[SeenBlock]) -> Result<(), FollowError> {
    let (now, before) = (info.open_height(), seen.len() as u64);
    if now < before {
        let what = "number of sealed blocks";
        return Err(FollowError::restarted(what, now, before));
    }
    for (seen, block) in seen.iter().zip(&info.blocks) {
        let (start, end) = (seen.start, seen.end);
        if (block.start, block.end) != (start, Some(end)) {
            return Err(FollowError::changed("block", start, end));
        }
    }
    Ok(())
}
