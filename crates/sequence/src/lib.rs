//! Sequences of Cashu state filters on disk: what a mint publishes, for ever and without a change.
//!
//! A [`Sequence`] takes the elements of one kind of event, drops those that it has already, and keeps two things
//! of them: the blocks of the [draft](nutfilter_cashu::state_filters), if it has [`BlockOptions`], and segments
//! with a chain of manifests. It has no HTTP and no database: a [`View`] says which file has which bytes.
//!
//! ```text
//! lock                            one process at a time
//! state                           what is published; replaced by a rename, after everything that it names
//! blocks/HEIGHT-START-END-SHA256  a sealed block
//! blocks/HEIGHT-open              the elements of the open block
//! segments/START-END              a segment
//! known/START-END                 the hashes of the elements of a segment, to recognize those that come again
//! manifests/NUMBER                a manifest
//! inbox/FIRST                     reported events that are not published yet
//! ```
//!
//! Files are created, synced and never overwritten; then the state file is replaced. So a crash leaves the old state
//! or the new one, and the next start removes everything that the state does not name. Nothing is served before it
//! is in the state.
//!
//! Every published file has a SHA-256 elsewhere: segments in the manifest, older manifests in the next one, the manifest
//! in the state, and sealed blocks in their names. All are checked when a sequence is opened, and each [`SealedFile`]
//! again before its first use.
//!
//! Memory does not grow with the sequence: a merge of any size takes about 20 MiB, a batch at most 120 MiB
//! (measured with the default of [`Options::batch_elements`]), and each segment of the cover at most 32 KiB.

mod batch;
mod blocks;
mod compaction;
mod error;
mod files;
mod inbox;
mod known;
mod sequence;
mod state;
mod view;

pub use batch::Batch;
pub use blocks::BlockOptions;
pub use error::Error;
pub use files::SealedFile;
pub use inbox::Inbox;
pub use sequence::{Added, Damage, Options, Sequence, verify};
pub use view::View;
