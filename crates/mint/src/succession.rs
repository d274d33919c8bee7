//! Which published lists a list of a sequence may replace.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use nutfilter_cashu::state_filters::manifest::hash;
use nutfilter_cashu::state_filters::{BlockInfo, BlockInterval, Manifest, SequenceError};
use nutfilter_sequence::View;

/// Which published list a list of a sequence may replace: an earlier version of itself.
#[derive(Clone, Debug)]
pub enum Succession {
    /// A manifest.
    Manifest(Arc<View>),
    /// The draft's list of blocks.
    Blocks(Arc<BlockInfo>),
}

/// Why a list may not replace the published one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotSuccessor {
    /// A later version is published. This one is of an older copy of the sequence.
    #[error(
        "the published {what} is {published}, that of the data directory is only {own}; use the newer data directory, \
         or another destination"
    )]
    Older {
        /// What is compared.
        what: &'static str,
        /// Its value here.
        own: u64,
        /// Its value in the published list.
        published: u64,
    },
    /// The published list is not of this sequence.
    #[error(
        "the published sequence is another one: {what} is {published}, not {own}; use the data directory that it was \
         published from, or another destination"
    )]
    Forked {
        /// What differs: a manifest, a segment or a block.
        what: String,
        /// How it is here: a SHA-256 in hex, or an interval.
        own: String,
        /// How it is published.
        published: String,
    },
    /// The published list cannot be read.
    #[error("{0}; remove the object to publish all state filters again")]
    Malformed(#[from] SequenceError),
}

impl Succession {
    /// Checks that the published list is this one or one before it.
    ///
    /// # Errors
    ///
    /// It is a later one, one of another sequence, or malformed.
    pub fn check(&self, published: &[u8]) -> Result<(), NotSuccessor> {
        match self {
            Self::Manifest(view) => check_manifest(view, published),
            Self::Blocks(own) => check_blocks(own, &BlockInfo::from_json(published)?),
        }
    }
}

fn check_manifest(view: &View, bytes: &[u8]) -> Result<(), NotSuccessor> {
    let published = Manifest::from_json(bytes)?;
    let Some((own, ..)) = view.manifest() else {
        return Ok(());
    };
    check_later("number", own.number, published.number)?;
    let same = |what: String, own: &[u8; 32], published: &[u8; 32]| match own == published {
        true => Ok(()),
        false => Err(NotSuccessor::Forked {
            what: format!("the SHA-256 of {what}"),
            own: HEXLOWER.encode(own),
            published: HEXLOWER.encode(published),
        }),
    };
    if let Some(then) = view.old_manifest(published.number) {
        let what = format!("manifest {}", published.number);
        same(what, &then.sha256, &hash(bytes))?;
    }
    // The manifest may be too old to be kept.
    for one in &own.segments {
        let mut listed = published.segments.iter();
        if let Some(other) = listed.find(|other| (other.start, other.end) == (one.start, one.end)) {
            let what = format!("segment {}-{}", one.start, one.end);
            same(what, &one.sha256, &other.sha256)?;
        }
    }
    Ok(())
}

fn check_blocks(own: &BlockInfo, published: &BlockInfo) -> Result<(), NotSuccessor> {
    let what = "number of sealed blocks";
    check_later(what, own.open_height(), published.open_height())?;
    let sealed = published.blocks.iter().filter(|block| block.end.is_some());
    for (height, (there, here)) in sealed.zip(&own.blocks).enumerate() {
        if there != here {
            let interval = |block: &BlockInterval| {
                let end = block.end.map_or("open".to_owned(), |end| end.to_string());
                format!("{}-{end}", block.start)
            };
            return Err(NotSuccessor::Forked {
                what: format!("the interval of block {height}"),
                own: interval(here),
                published: interval(there),
            });
        }
    }
    Ok(())
}

fn check_later(what: &'static str, own: u64, published: u64) -> Result<(), NotSuccessor> {
    match own < published {
        true => Err(NotSuccessor::Older {
            what,
            own,
            published,
        }),
        false => Ok(()),
    }
}
