//! Items as lines of hex or text.

use std::io::{self, Read};
use std::mem;
use std::ops::Range;

use clap::{Args, ValueEnum};
use nutfilter::ItemHash;
use nutfilter_cashu::PointKind;

use super::Input;
use crate::error::CliError;
use crate::io::hex;

/// The options that describe the input format.
#[derive(Debug, Default, Args)]
pub(crate) struct InputArgs {
    /// Format of the items, one per line.
    #[arg(long = "input", value_enum, value_name = "FORMAT", default_value_t = Encoding::Hex)]
    encoding: Encoding,

    /// Whether these come from the command line. A command without these options has the defaults.
    #[arg(skip = true)]
    can_change: bool,

    /// Whether an item that is not as long as a point is invalid.
    #[arg(skip)]
    only_points: bool,
}

/// How a line, or a value on the command line, stands for an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Encoding {
    /// Hex digits
    #[default]
    Hex,
    /// Text in UTF-8, used unchanged
    Text,
}

/// One item.
pub(crate) struct Item<'a> {
    /// The item as given.
    pub(crate) text: &'a [u8],
    /// The bytes that are hashed.
    pub(crate) bytes: &'a [u8],
}

/// Receives items one by one.
type Sink<'a> = &'a mut dyn FnMut(Item<'_>) -> Result<(), CliError>;

impl InputArgs {
    /// The same for points, which are never text: no error suggests another format.
    pub(crate) fn of_points(&self) -> Self {
        Self { can_change: false, ..*self }
    }

    /// The same for the filter of a mint, which has points only.
    pub(crate) fn of_notes(&self) -> Self {
        Self { only_points: true, ..*self }
    }
}

impl Encoding {
    /// The part of a line that is the item. Spaces around digits are ignored; in text they are significant.
    fn trim(self, text: &[u8]) -> &[u8] {
        match self {
            Encoding::Text => text,
            Encoding::Hex => text.trim_ascii(),
        }
    }
}

/// Refuses an item of so many bytes if it cannot be a point.
pub(crate) fn check_point(bytes: usize) -> Result<(), String> {
    let lengths = PointKind::ALL.map(PointKind::bytes);
    match lengths.contains(&bytes) {
        true => Ok(()),
        false => Err(format!(
            "{bytes} bytes, but a note's point has {} or {}; for a set of other items use --format gcs",
            lengths[0], lengths[1]
        )),
    }
}

/// Why a text is not a valid item, or has one that is not.
fn check_text(text: &[u8]) -> Result<(), String> {
    // Compressed data, UTF-16 and binary records have line breaks too. Their lines are not items.
    if let Err(error) = str::from_utf8(text) {
        let column = error.valid_up_to() + 1;
        return Err(format!("not UTF-8 text, from column {column} on"));
    }
    for at in memchr::memchr2_iter(0, BYTE_ORDER_MARK[0], text) {
        let column = at + 1;
        if text[at] == 0 {
            return Err(format!("a NUL byte in column {column}"));
        }
        // It belongs to the item before or after it as little as to the file.
        if text[at..].starts_with(BYTE_ORDER_MARK) {
            return Err(format!(
                "a byte-order mark in column {column}; remove it where files were joined"
            ));
        }
    }
    Ok(())
}

/// The error of an input that begins like UTF-16, which no format accepts.
const UTF_16: &str =
    "UTF-16, not UTF-8; convert it first, for example with iconv -f UTF-16LE -t UTF-8";

/// Whether a line begins with UTF-16: with its mark, or with two ASCII characters.
fn is_utf_16(line: &[u8]) -> bool {
    match *line {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [a, b, c, d, ..] => (a == 0) != (b == 0) && (a == 0, b == 0) == (c == 0, d == 0),
        _ => false,
    }
}

/// Added to the error of an input whose first item is invalid.
const HINT: &str = "; items are lines of hex unless --input text (lines of text) or `build --record-bytes LEN` \
                    (binary records) is given";

impl Input {
    /// Passes each item to `sink`. Ignores empty items and a byte-order mark at the beginning.
    pub(crate) fn items(self, args: &InputArgs, sink: Sink<'_>) -> Result<(), CliError> {
        let each = |piece: &mut LinePiece, block: &_| piece.items(block).try_for_each(&mut *sink);
        lines(&self.name, self.reader, args, each)
    }

    /// Passes the hashes of all items to `sink`, many at a time. The order is any.
    pub(crate) fn hashes(
        self,
        args: &InputArgs,
        hasher: &impl ItemHash,
        sink: &mut dyn FnMut(&[u64]),
    ) -> Result<(), CliError> {
        let each = |piece: &mut LinePiece, block: &_| {
            piece.hash(hasher, block);
            sink(&piece.hashes);
            Ok(())
        };
        lines(&self.name, self.reader, args, each)
    }
}

/// Whole lines from a reader, as many as one read returns.
struct Blocks<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were read, and of these the ones that were returned.
    filled: usize,
    taken: usize,
}

impl<R: Read> Blocks<R> {
    fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; BLOCK], filled: 0, taken: 0 }
    }

    /// The next lines with their line ends. The last line of the input may lack its own.
    ///
    /// # Errors
    ///
    /// The reader's, and `InvalidData` if the next line is longer than [`LONGEST`].
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        loop {
            if self.filled == self.buffer.len() {
                self.buffer.resize(2 * self.filled, 0);
            }
            let fresh = self.filled;
            // After a long line the buffer is large, but blocks are not: short lines take many times their length.
            let end = self.buffer.len().min(fresh + BLOCK);
            match self.reader.read(&mut self.buffer[fresh..end]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => self.filled += read?,
            }
            if self.filled > LONGEST
                && memchr::memchr(b'\n', &self.buffer[..self.filled])
                    .is_none_or(|length| length > LONGEST)
            {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.taken = match memchr::memrchr(b'\n', &self.buffer[fresh..self.filled]) {
                Some(at) => fresh + at + 1,
                None if self.filled == fresh => fresh,
                None => continue,
            };
            return Ok((self.taken > 0).then_some(&self.buffer[..self.taken]));
        }
    }
}

/// The lines of a block, without their line ends.
fn lines_of(block: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let rest = block.len() - usize::from(block.ends_with(b"\n"));
    let ends = memchr::memchr_iter(b'\n', &block[..rest]).chain([rest]);
    let mut start = 0;
    ends.map(move |at| {
        let line = start..at;
        start = at + 1;
        match block[line.clone()] {
            [.., b'\r'] => line.start..at - 1,
            _ => line,
        }
    })
}

/// A block without the byte-order mark, if it is the first.
fn without_mark(block: &[u8], is_first: bool) -> &[u8] {
    let rest = is_first.then(|| block.strip_prefix(BYTE_ORDER_MARK));
    rest.flatten().unwrap_or(block)
}

/// Bytes per block: few enough for the cache of a core. A second thread takes more time to wake than it saves.
const BLOCK: usize = 128 << 10;

/// The longest line, in bytes. It stays in memory, and is more likely a file of another format.
const LONGEST: usize = 16 << 20;

/// Items that are hashed together.
const BATCH: usize = 512;

/// The items of a piece of whole lines. Keeps its memory for the next block.
#[derive(Default)]
struct LinePiece {
    encoding: Encoding,
    /// Where the text of each item is in the piece.
    texts: Vec<Range<usize>>,
    /// The bytes of all items, if they are not their texts, and free memory.
    bytes: Vec<u8>,
    hashes: Vec<u64>,
    /// Lines up to the first invalid one.
    lines: u64,
    /// The last of these lines if it is invalid, and why.
    invalid: Option<(Vec<u8>, String)>,
}

impl LinePiece {
    /// Replaces the items by those of `piece`.
    fn decode(&mut self, piece: &[u8], args: &InputArgs) {
        let encoding = args.encoding;
        self.encoding = encoding;
        self.texts.clear();
        self.lines = 0;
        if encoding == Encoding::Hex && self.bytes.len() < piece.len() / 2 {
            self.bytes.resize(piece.len() / 2, 0);
        }
        let mut free = &mut self.bytes[..];
        // The lines of a valid text are valid.
        let is_valid = encoding == Encoding::Text && check_text(piece).is_ok();
        for line in lines_of(piece) {
            self.lines += 1;
            let text = encoding.trim(&piece[line.clone()]);
            if text.is_empty() {
                continue;
            }
            let decoded = match encoding {
                Encoding::Hex => {
                    let bytes = free.split_off_mut(..text.len() / 2).unwrap_or_default();
                    hex::decode(text, bytes).map_err(|error| error.to_string())
                }
                Encoding::Text if is_valid => Ok(()),
                Encoding::Text => check_text(text),
            };
            let length = match encoding {
                Encoding::Hex => text.len() / 2,
                Encoding::Text => text.len(),
            };
            let decoded = match args.only_points {
                true => decoded.and_then(|()| check_point(length)),
                false => decoded,
            };
            if let Err(error) = decoded {
                let about = hex::about_token(text).filter(|_| !args.can_change);
                let error = about.map_or(error, str::to_owned);
                self.invalid = Some((piece[line].to_vec(), error));
                return;
            }
            let start = text.as_ptr().addr() - piece.as_ptr().addr();
            self.texts.push(start..start + text.len());
        }
    }

    /// The items, given the piece that was decoded.
    fn items<'a>(&'a self, piece: &'a [u8]) -> impl Iterator<Item = Item<'a>> {
        let mut rest = &self.bytes[..];
        self.texts.iter().map(move |text| {
            let text = &piece[text.clone()];
            let bytes = match self.encoding {
                Encoding::Text => text,
                Encoding::Hex => rest.split_off(..text.len() / 2).unwrap_or_default(),
            };
            Item { text, bytes }
        })
    }

    /// Hashes the items of `piece`, which was decoded.
    fn hash(&mut self, hasher: &impl ItemHash, piece: &[u8]) {
        // Items of one length are hashed together.
        if self.encoding == Encoding::Text {
            self.texts.sort_unstable_by_key(Range::len);
        }
        let mut hashes = mem::take(&mut self.hashes);
        hashes.clear();
        hashes.resize(self.texts.len(), 0);
        let mut items = self.items(piece).map(|item| item.bytes);
        let mut batch = Vec::with_capacity(BATCH);
        for hashes in hashes.chunks_mut(BATCH) {
            batch.clear();
            batch.extend(items.by_ref().take(BATCH));
            hasher.hash_items(&batch, hashes);
        }
        drop(items);
        self.hashes = hashes;
    }
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Decodes lines, and passes them to `each` in pieces.
fn lines(
    name: &str,
    reader: impl Read,
    args: &InputArgs,
    mut each: impl FnMut(&mut LinePiece, &[u8]) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut blocks = Blocks::new(reader);
    let (mut lines, mut is_first) = (0, true);
    let mut piece = LinePiece::default();
    loop {
        let block = match blocks.next() {
            Ok(Some(block)) => block,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let place = format_args!("{name}, line {}", lines + 1);
                return Err(CliError::at(place, format_args!("longer than {LONGEST} bytes")));
            }
            Err(error) => return Err(CliError::at(name, error)),
        };
        let block = without_mark(block, lines == 0);
        piece.decode(block, args);
        is_first &= piece.texts.is_empty();
        each(&mut piece, block)?;
        lines += piece.lines;
        if let Some((line, error)) = &piece.invalid {
            let is_of_use = is_first && args.can_change && args.encoding == Encoding::Hex;
            let hint = if is_of_use { HINT } else { "" };
            let place = format_args!("{name}, line {lines}");
            return Err(match is_first && is_utf_16(line) {
                true => CliError::at(place, UTF_16),
                false => CliError::at(place, format_args!("{error}{hint}")),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::items::{HashSink, ItemReceiver as _};
    use nutfilter::{AnyHash, Nut25};

    /// Returns at most so many bytes per read.
    struct Short<'a>(&'a [u8], usize);

    impl Read for Short<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(self.1);
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn long_line_is_refused_with_its_number() {
        let line = |length| vec![b'0'; length];
        let longest = [b"00\n", &line(LONGEST)[..], b"\n00"].concat();
        let longer = [b"00\n", &line(LONGEST + 1)[..], b"\n00\n"].concat();
        let endless = [b"00\n", &line(LONGEST + 4)[..]].concat();
        for per_read in [70_001, usize::MAX] {
            let (items, error) = read(&longest, per_read);
            assert_eq!((items.len(), error.as_str()), (3, ""));
            for text in [&longer, &endless] {
                let (items, error) = read(text, per_read);
                let expected = "in, line 2: longer than 16777216 bytes";
                assert_eq!((items.len(), error.as_str()), (1, expected));
            }
        }
    }

    /// The items, and the error of the last line.
    fn read(text: &[u8], per_read: usize) -> (Vec<Vec<u8>>, String) {
        let mut items = vec![];
        let each = |piece: &mut LinePiece, text: &_| {
            items.extend(piece.items(text).map(|item| item.bytes.to_vec()));
            Ok(())
        };
        let result = lines("in", Short(text, per_read), &InputArgs::default(), each);
        let error = result.map_or_else(|error| error.to_string(), |()| String::new());
        (items, error)
    }

    #[test]
    fn items_and_line_numbers_do_not_depend_on_the_blocks() {
        let mut text = BYTE_ORDER_MARK.to_vec();
        let mut wanted = vec![];
        // Many lines in a block, and lines of more than one block, empty ones, and both line ends.
        for (line, length) in (0_u8..).zip([33, 0, 70_000, 1, BLOCK, 33, 200_000, 33]) {
            let item = vec![line; length];
            text.extend(const_hex::encode(&item).into_bytes());
            text.extend_from_slice(if line % 2 == 0 { b"\r\n" } else { b"\n" });
            wanted.extend((length > 0).then_some(item));
        }
        for per_read in [1 << 10, 70_001, BLOCK, usize::MAX] {
            assert_eq!(read(&text, per_read), (wanted.clone(), String::new()));
            let (items, error) = read(&[&text[..], b"0g"].concat(), per_read);
            assert_eq!(items, wanted);
            assert_eq!(error, "in, line 9: 'g' in column 2 is not a hex digit");
        }
        assert_eq!(read(b"\n\n00\nff", 1), (vec![vec![0], vec![255]], String::new()));
    }

    #[test]
    fn lines_of_mixed_lengths_hash_as_they_would_alone() {
        // Runs of one length, changes of length, empty lines, and several blocks.
        let lengths = [34, 34, 34, 48, 0, 0, 34, 2, 36];
        let lengths = lengths.into_iter().chain((0..60_000).map(|i| i * i % 41 * 2));
        let mut text = Vec::new();
        let mut wanted = [Vec::new(), Vec::new()];
        for (number, length) in lengths.enumerate() {
            let line = &format!("{number:080}")[80 - length..];
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
            if length > 0 {
                let bytes = const_hex::decode(line).expect("digits");
                wanted[0].push(Nut25.hash(&bytes));
                wanted[1].push(Nut25.hash(line.as_bytes()));
            }
        }
        for (encoding, mut wanted) in [Encoding::Hex, Encoding::Text].into_iter().zip(wanted) {
            let args = InputArgs { encoding, ..InputArgs::default() };
            let input =
                Input { name: "in".to_owned(), reader: Box::new(io::Cursor::new(text.clone())) };
            let mut sink = HashSink::new(AnyHash::Nut25, 0);
            let read = sink.push_lines(input, &args);
            read.expect("valid lines");
            wanted.sort_unstable();
            assert!(sink.finish().as_slice() == wanted, "{encoding:?}");
        }
    }
}
