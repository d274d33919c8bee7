//! Follows the draft's blocks.

use data_encoding::HEXLOWER;
use nutfilter_cashu::state_filters::manifest::hash;
use nutfilter_cashu::state_filters::{Block, BlockInfo, BlockInterval, Positions, SequencePath};

use super::bookmark::{Bookmark, Position, SeenBlock};
use super::{Contents, FollowError, Follower, Found, MAX_BLOCK_RATE, Plan, Progress};

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
            let time = open;
            return Err(FollowError::Future { time, latest });
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
            self.block(info, last as u64, start, end, &mut seen)?;
        }
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
            let block = self.block(info, height, start, end, &mut seen)?;
            for (element, &positions) in positions.iter().enumerate() {
                if !block.may_contain_at(positions) {
                    continue;
                }
                let reported = (height, element);
                if end.is_none() {
                    if progress.open_matches.contains(&reported) {
                        continue;
                    }
                    progress.open_matches.push(reported);
                }
                found(self.found(element, start, end));
            }
        }
        progress
            .open_matches
            .retain(|&(height, _)| height >= info.open_height());
        let position = Position::Blocks { blocks: seen };
        let bookmark = Bookmark::new(&self.client, self.kind, self.digest(), position);
        progress.bookmark = Some(bookmark);
        Ok(progress)
    }

    /// Downloads and checks a block. The hash of a sealed one is compared with the one in `seen`, or put there.
    fn block(
        &self,
        info: &BlockInfo,
        height: u64,
        start: u64,
        end: Option<u64>,
        seen: &mut [SeenBlock],
    ) -> Result<Block, FollowError> {
        let max = 1 << (info.b - 3);
        let path = SequencePath::Block(self.kind, height);
        let answer = self.client.object(path, max)?;
        // Only the open block may be kept so short a time. Events are missing in an old copy of it.
        if let Some(seconds) = answer.max_age
            && end.is_some()
            && answer.max_age == info.open_interval
        {
            return Err(FollowError::Stale { height, seconds });
        }
        let bytes = answer.body;
        let sha256 = HEXLOWER.encode(&hash(&bytes));
        let block =
            Block::from_bytes(bytes).map_err(|error| FollowError::Block { height, error })?;
        // An open block may be narrower: it was sealed after the list was fetched. It has all that it had before.
        if block.false_positive_rate() > MAX_BLOCK_RATE {
            return Err(FollowError::FullBlock {
                height,
                popcount: block.popcount().into(),
                bits: 1 << block.width(),
            });
        }
        if let Some(end) = end
            && let Some(seen) = seen.get_mut(height as usize)
        {
            let before = seen.sha256.replace(sha256.clone());
            if before.is_some_and(|before| before != sha256) {
                return Err(FollowError::Changed {
                    what: "block",
                    start,
                    end,
                });
            }
        }
        Ok(block)
    }
}

/// Compares an info document with the sealed blocks at the bookmark.
fn compare(info: &BlockInfo, seen: &[SeenBlock]) -> Result<(), FollowError> {
    let (now, before) = (info.open_height(), seen.len() as u64);
    if now < before {
        let what = "number of sealed blocks";
        return Err(FollowError::Restarted { what, now, before });
    }
    for (seen, block) in seen.iter().zip(&info.blocks) {
        let (start, end) = (seen.start, seen.end);
        if (block.start, block.end) != (start, Some(end)) {
            return Err(FollowError::Changed {
                what: "block",
                start,
                end,
            });
        }
    }
    Ok(())
}
