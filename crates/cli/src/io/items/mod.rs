//! Reads items from a file or standard input.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::num::NonZeroUsize;
use std::path::Path;

use nutfilter::{AnyHash, HashCollector, SortedHashes};

use crate::error::CliError;
use crate::io::progress::ShownReader;

mod format;

pub(crate) use format::{InputArgs, check_point};

/// Bytes per read, and items per batch of hashes: large enough that the overhead does not matter.
const CHUNK: usize = 256 << 10;

/// A file, or standard input for `-`, with a name for messages.
pub(crate) struct Input {
    pub(crate) name: String,
    reader: Box<dyn Read>,
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Self, CliError> {
        if is_stdin(path) {
            return Ok(Self {
                name: "standard input".to_owned(),
                reader: Box::new(io::stdin().lock()),
            });
        }
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| CliError::at(&name, error))?;
        Ok(Self { name, reader: Box::new(file) })
    }

    /// Shows on a terminal how far it has been read, unless the input is typed there.
    pub(crate) fn shown(self, path: &Path) -> Self {
        if is_stdin(path) && io::stdin().is_terminal() {
            return self;
        }
        let file = std::fs::metadata(path).ok().filter(|file| file.is_file());
        let len = file.map(|file| file.len()).filter(|_| !is_stdin(path));
        let reader = Box::new(ShownReader::new(self.reader, len));
        Self { reader, ..self }
    }

    /// Reads everything, unless it is longer than this.
    pub(crate) fn read_at_most(self, max: u64) -> Result<Vec<u8>, CliError> {
        let (name, reader) = (self.name.clone(), Box::new(self.reader.take(max + 1)));
        let bytes = Self { reader, ..self }.read_all()?;
        match bytes.len() as u64 > max {
            true => Err(CliError::at(name, format_args!("longer than {max} bytes"))),
            false => Ok(bytes),
        }
    }

    /// Reads everything.
    pub(crate) fn read_all(mut self) -> Result<Vec<u8>, CliError> {
        let mut bytes = Vec::new();
        let read = self.reader.read_to_end(&mut bytes);
        read.map_err(|error| CliError::at(&self.name, error))?;
        // Growing may have doubled the capacity, and the decoded items need memory too.
        bytes.shrink_to_fit();
        Ok(bytes)
    }

    /// Passes records of `record_bytes` bytes to `sink`, many at a time.
    pub(crate) fn records(
        mut self,
        record_bytes: NonZeroUsize,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let width = record_bytes.get();
        let chunk = (CHUNK / width).max(1).saturating_mul(width);
        let mut buffer = Vec::new();
        let mut before = 0_u64;
        loop {
            buffer.clear();
            let read = self.reader.by_ref().take(chunk as u64).read_to_end(&mut buffer);
            let read = read.map_err(|error| CliError::at(&self.name, error))?;
            if read == 0 {
                return Ok(());
            }
            let rest = read % width;
            if rest != 0 {
                let total = before + read as u64;
                return Err(CliError::at(
                    &self.name,
                    format_args!(
                        "{total} bytes are not a multiple of the record size {width}: {rest} bytes \
                         left over"
                    ),
                ));
            }
            before += read as u64;
            sink(&buffer)?;
        }
    }
}

/// Whether a path means standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A destination of items.
pub(crate) trait ItemReceiver {
    /// Adds many items of one length, stored one after another.
    fn push_records(&mut self, records: &[u8], record_bytes: NonZeroUsize) -> Result<(), CliError>;

    /// Adds the items of all lines.
    fn push_lines(&mut self, input: Input, args: &InputArgs) -> Result<(), CliError>;
}

/// Keeps the items themselves.
impl ItemReceiver for Vec<Vec<u8>> {
    fn push_records(&mut self, records: &[u8], record_bytes: NonZeroUsize) -> Result<(), CliError> {
        self.extend(records.chunks_exact(record_bytes.get()).map(<[u8]>::to_vec));
        Ok(())
    }

    fn push_lines(&mut self, input: Input, args: &InputArgs) -> Result<(), CliError> {
        input.items(args, &mut |item| {
            self.push(item.bytes.to_vec());
            Ok(())
        })
    }
}

/// Hashes items as they arrive, and keeps 8 to 16 bytes per item.
pub(crate) struct HashSink {
    hasher: AnyHash,
    hashes: HashCollector<AnyHash>,
}

impl HashSink {
    /// For about `expected` items; 0 if their number is unknown.
    pub(crate) fn new(hasher: AnyHash, expected: usize) -> Self {
        // Sorting takes a tenth of the time. Threads need memory of their own, and more time to clear it.
        let builder = SortedHashes::builder(hasher);
        Self { hashes: builder.collector(expected), hasher }
    }

    pub(crate) fn finish(self) -> SortedHashes<AnyHash> {
        self.hashes.finish()
    }
}

impl ItemReceiver for HashSink {
    fn push_records(&mut self, records: &[u8], record_bytes: NonZeroUsize) -> Result<(), CliError> {
        Ok(self.hashes.push_records(records, record_bytes.get())?)
    }

    fn push_lines(&mut self, input: Input, args: &InputArgs) -> Result<(), CliError> {
        let hashes = &mut self.hashes;
        input.hashes(args, &self.hasher, &mut |more| hashes.push_hashes(more))
    }
}

/// Items, and the text of each as given.
#[derive(Default)]
pub(crate) struct ItemList {
    texts: Parts,
    items: Parts,
}

/// Byte strings, stored one after another.
#[derive(Default)]
struct Parts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Parts {
    fn push(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let part = &self.bytes[start..end];
            start = end;
            part
        })
    }
}

impl ItemList {
    /// Reads items in the selected format.
    pub(crate) fn read_as(input: Input, args: &InputArgs) -> Result<Self, CliError> {
        let mut list = Self::default();
        input.items(args, &mut |item| {
            list.texts.push(item.text);
            list.items.push(item.bytes);
            Ok(())
        })?;
        Ok(list)
    }

    pub(crate) fn items(&self) -> Vec<&[u8]> {
        self.items.iter().collect()
    }

    /// Each item as given, without the space around it if it is hex.
    pub(crate) fn given(&self) -> impl Iterator<Item = &[u8]> {
        self.texts.iter()
    }
}
