//! A cache directory: the last filter of each mint, with its timestamp.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use nutfilter::{ItemHash, Nut25};
use nutfilter_cashu::{KeysetId, NoteKind};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use thiserror::Error;

use crate::base_url::BaseUrl;
use crate::dialect::PROBE;
use crate::error::RejectReason;
use crate::mint_filter::MintFilter;

/// Stores the last valid filter and its timestamp for each mint, keyset, kind and hash.
///
/// With a cache, a wallet need not download a filter that it already has, and it detects a mint that returns an
/// older filter. Nothing that a server says about its own bodies is stored or trusted. Revalidation uses the
/// SHA-256 of the bytes that are on disk at that moment, and each file has a checksum over its mint, keyset, kind, hash and
/// body. Of two processes that write at once, one wins.
///
/// # Privacy
///
/// The mint: the hash tells it which version this wallet has, and so links this request to the earlier one. A mint
/// that gives every wallet a different filter can recognise each wallet, as with a cookie; a timestamp that
/// differs by one second is enough. [`without_etag`](Self::without_etag) downloads every filter in full and still
/// remembers the timestamp.
///
/// Readers of the disk: they learn which mints and keysets are in use. Only the owner can read the files. Their
/// names are hashes, which do not protect against guessing.
#[derive(Clone, Debug)]
pub struct FilterCache {
    directory: PathBuf,
    etag: bool,
}

/// A filter that was fetched through a cache.
#[derive(Debug)]
pub struct CachedFetch<H: ItemHash = Nut25> {
    /// The filter. Its timestamp is the filter's own, from the mint or from the cache.
    pub filter: MintFilter<H>,
    /// Whether the mint confirmed that the cached filter is still current.
    pub from_cache: bool,
    /// Why the cached file was not used. The timestamp of the newest filter seen is unknown in this case.
    pub discarded: Option<Damage>,
    /// Why the filter could not be stored. The filter is valid, but neither it nor its timestamp will be
    /// remembered.
    pub not_kept: Option<io::Error>,
}

/// Why a cache file is not used. It stays until a newer filter replaces it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Damage {
    /// The checksum is wrong: the file was changed, or is of another filter or version.
    #[error("wrong checksum")]
    Checksum,
    /// Not a regular file, but for example a directory or a link.
    #[error("not a regular file")]
    NotAFile,
    /// The policy rejects the filter, which another policy or clock may have accepted.
    #[error(transparent)]
    Rejected(RejectReason),
}

impl FilterCache {
    /// Opens a directory. Creates it, with access for its owner only, if it does not exist.
    ///
    /// # Errors
    ///
    /// When the directory cannot be created, or the path is not a directory.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&directory)?;
        Ok(Self {
            directory,
            etag: true,
        })
    }

    /// Downloads every filter in full, so that the mint does not learn which version this wallet has.
    #[must_use]
    pub fn without_etag(mut self) -> Self {
        self.etag = false;
        self
    }

    /// The path of a cached filter. Removing the file also removes the remembered timestamp.
    #[must_use]
    pub fn path<H: ItemHash + Default>(
        &self,
        base: &str,
        keyset: &KeysetId,
        kind: NoteKind,
    ) -> PathBuf {
        self.entry::<H>(base, keyset, kind).path
    }

    pub(crate) fn entry<H: ItemHash + Default>(
        &self,
        base: &str,
        keyset: &KeysetId,
        kind: NoteKind,
    ) -> Entry<'_> {
        let id = id::<H>(base, keyset, kind);
        let path = self.directory.join(const_hex::encode(id) + ".filter");
        let cache = self;
        Entry { cache, id, path }
    }
}

/// Length of the checksum behind the body, in bytes.
const CHECKSUM: usize = 32;

/// One file of a cache.
pub(crate) struct Entry<'a> {
    cache: &'a FilterCache,
    id: [u8; 32],
    path: PathBuf,
}

impl Entry<'_> {
    /// The cached body of at most `max` bytes, if there is a file.
    pub(crate) fn load(&self, max: u64) -> io::Result<Option<Result<Vec<u8>, Damage>>> {
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Opening a pipe would wait for a writer.
        if !metadata.is_file() {
            return Ok(Some(Err(Damage::NotAFile)));
        }
        if metadata.len() > max.saturating_add(CHECKSUM as u64) {
            let declared = None;
            let reason = RejectReason::TooLarge { declared, max };
            return Ok(Some(Err(Damage::Rejected(reason))));
        }
        let mut body = fs::read(&self.path)?;
        let checksum = body.split_off(body.len().saturating_sub(CHECKSUM));
        let is_whole = checksum == self.checksum(&body);
        Ok(Some(is_whole.then_some(body).ok_or(Damage::Checksum)))
    }

    /// The ETag of a body, or `None` if requests must not carry one.
    pub(crate) fn tag(&self, body: &[u8]) -> Option<String> {
        let quoted = || format!("\"{}\"", const_hex::encode(Sha256::digest(body)));
        self.cache.etag.then(quoted)
    }

    /// Writes a body to the disk before it is validated, since validation takes its memory.
    pub(crate) fn begin(&self, body: &[u8]) -> io::Result<NamedTempFile> {
        let mut file = tempfile::Builder::new();
        let mut file = file
            .prefix(".nutfilter-")
            .tempfile_in(&self.cache.directory)?;
        file.write_all(body)?;
        file.write_all(&self.checksum(body))?;
        Ok(file)
    }

    /// Atomically replaces the cached body.
    pub(crate) fn store(&self, file: NamedTempFile) -> io::Result<()> {
        file.as_file().sync_all()?;
        Ok(file.persist(&self.path).map(drop)?)
    }

    fn checksum(&self, body: &[u8]) -> [u8; CHECKSUM] {
        Sha256::new()
            .chain_update(self.id)
            .chain_update(body)
            .finalize()
            .into()
    }
}

/// The ID of mint, keyset, kind and hash. Different spellings of a mint's URL or of a keyset give the same ID. The hash
/// counts by its value for one item, because a caller's own profile has no unique name.
fn id<H: ItemHash + Default>(base: &str, keyset: &KeysetId, kind: NoteKind) -> [u8; 32] {
    let mint = BaseUrl::parse(base)
        .ok()
        .and_then(|base| base.canonical())
        .unwrap_or_else(|| base.to_owned());
    let mut digest = Sha256::new();
    for part in [&mint, &keyset.canonical(), kind.as_str()] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.update(H::default().hash(PROBE).to_le_bytes());
    digest.finalize().into()
}
