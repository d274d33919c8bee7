//! Input formats: lines of hex, text or base64, or a field of CSV or JSON lines.

use std::io::{self, BufRead, BufReader, Read};
use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};
use data_encoding::BASE64;
use rayon::prelude::*;
use serde_json::Value;

use super::{CHUNK, Input, guess};
use crate::error::CliError;
use crate::globals::Globals;
use crate::hex::{self, Shown};

/// The options that describe the input format.
#[derive(Debug, Default, Args)]
pub(crate) struct InputArgs {
    /// Format of the items.
    #[arg(long = "input", value_enum, value_name = "FORMAT", default_value_t = InputFormat::Hex)]
    format: InputFormat,

    /// Field that holds the item: a column of the CSV header, or a member of each JSON object.
    #[arg(long, value_name = "NAME")]
    field: Option<String>,

    /// Encoding of the item in its field [default: text].
    #[arg(long, value_enum, value_name = "ENCODING", requires = "field")]
    field_encoding: Option<Encoding>,

    /// Character between the fields of CSV, or `\\t` for a tab [default: ,].
    #[arg(long, value_name = "CHAR", value_parser = delimiter, requires = "field")]
    delimiter: Option<u8>,

    /// Items end with a NUL byte instead of a line break (for hex, text and base64).
    #[arg(long)]
    pub(crate) null: bool,

    /// Whether these come from the command line. A command without these options has the defaults.
    #[arg(skip = true)]
    can_change: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum InputFormat {
    /// One item in hex per line
    #[default]
    Hex,
    /// One item per line, in UTF-8, used unchanged
    Text,
    /// One item in base64 per line
    Base64,
    /// Comma-separated values; the first record is the header
    Csv,
    /// One JSON string or object per line
    Jsonl,
}

fn delimiter(text: &str) -> Result<u8, &'static str> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        &[byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(byte),
        _ => Err("is not one ASCII character"),
    }
}

/// The encoding of an item as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Encoding {
    /// The text itself, in UTF-8
    Text,
    /// Hex digits
    Hex,
    /// Base64 with padding
    Base64,
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
    /// Rejects inconsistent options.
    fn check(&self) -> Result<(), CliError> {
        let has_fields = matches!(self.format, InputFormat::Csv | InputFormat::Jsonl);
        if self.field.is_some() && !has_fields {
            return Err(CliError::usage("--field requires --input csv or jsonl"));
        }
        if self.null && has_fields {
            return Err(CliError::usage(
                "--null requires --input hex, text or base64",
            ));
        }
        if self.delimiter.is_some() && self.format != InputFormat::Csv {
            return Err(CliError::usage("--delimiter requires --input csv"));
        }
        Ok(())
    }

    /// The encoding of a single item, as on the command line.
    pub(crate) fn encoding(&self) -> Result<Encoding, CliError> {
        self.check()?;
        match self.format {
            InputFormat::Hex => Ok(Encoding::Hex),
            InputFormat::Text => Ok(Encoding::Text),
            InputFormat::Base64 => Ok(Encoding::Base64),
            InputFormat::Csv | InputFormat::Jsonl => Ok(self.of_field()),
        }
    }

    /// The number of bytes of an item with its line break, if the input is lines of points in hex; otherwise unknown.
    pub(crate) fn line_of_point(&self) -> Option<NonZeroUsize> {
        (self.format == InputFormat::Hex).then_some(NonZeroUsize::new(2 * 33 + 1)?)
    }

    fn of_field(&self) -> Encoding {
        self.field_encoding.unwrap_or(Encoding::Text)
    }
}

impl Encoding {
    /// The part of a line that is the item. Spaces around digits are ignored; in text they are significant.
    fn trim(self, text: &[u8]) -> &[u8] {
        match self {
            Encoding::Text => text,
            Encoding::Hex | Encoding::Base64 => text.trim_ascii(),
        }
    }

    /// Decodes an item and appends its bytes. The error says why the text is not a valid item.
    pub(crate) fn decode_into(self, text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Encoding::Text => {
                // Compressed or binary data has line breaks too. Its lines are not items.
                if let Err(error) = str::from_utf8(text) {
                    let column = error.valid_up_to() + 1;
                    return Err(format!("not UTF-8 text, from column {column} on"));
                }
                if let Some(at) = text.iter().position(|&byte| byte == 0) {
                    return Err(format!("a NUL byte in column {}", at + 1));
                }
                out.extend_from_slice(text);
            }
            Encoding::Hex => hex::decode_into(text, out).map_err(|error| error.to_string())?,
            Encoding::Base64 => {
                let bytes =
                    BASE64
                        .decode(text)
                        .map_err(|error| match text.get(error.position) {
                            Some(&byte) => format!(
                                "not base64 with padding, from {} in column {} on",
                                Shown(byte),
                                error.position + 1
                            ),
                            None => "not base64 with padding".to_owned(),
                        })?;
                out.extend_from_slice(&bytes);
            }
        }
        Ok(())
    }
}

impl Input {
    /// Passes each item to `sink`. Ignores empty items and a byte-order mark at the beginning.
    pub(crate) fn items(
        self,
        args: &InputArgs,
        globals: &Globals,
        sink: Sink<'_>,
    ) -> Result<(), CliError> {
        args.check()?;
        let name = self.name.clone();
        let mut reader = BufReader::with_capacity(CHUNK, self.with_progress(globals));
        let head = reader
            .fill_buf()
            .map_err(|error| CliError::at(&name, error))?;
        if let Some(hint) = guess::not_text(head) {
            return Err(CliError::at(&name, hint));
        }
        match args.format {
            InputFormat::Hex | InputFormat::Text | InputFormat::Base64 => {
                lines(&name, reader, args, sink)
            }
            InputFormat::Csv => csv(&name, reader, args, sink),
            InputFormat::Jsonl => json_lines(&name, reader, args, sink),
        }
    }
}

/// Whole lines from a reader, as many as one read returns.
struct Blocks<R> {
    reader: R,
    /// The byte that ends a line.
    end: u8,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were read, and of these the ones that were returned.
    filled: usize,
    taken: usize,
}

impl<R: Read> Blocks<R> {
    fn new(reader: R, end: u8) -> Self {
        Self {
            reader,
            end,
            buffer: vec![0; BLOCK],
            filled: 0,
            taken: 0,
        }
    }

    /// The next lines with their line ends. The last line of the input may lack its own.
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
            self.taken = match memchr::memrchr(self.end, &self.buffer[fresh..self.filled]) {
                Some(at) => fresh + at + 1,
                None if self.filled == fresh => fresh,
                None => continue,
            };
            return Ok((self.taken > 0).then_some(&self.buffer[..self.taken]));
        }
    }
}

/// The lines of a block, without their line ends.
fn lines_of(block: &[u8], end: u8) -> impl Iterator<Item = &[u8]> {
    let rest = block.len() - usize::from(block.ends_with(&[end]));
    let ends = memchr::memchr_iter(end, &block[..rest]).chain([rest]);
    let mut start = 0;
    ends.map(move |at| {
        let line = &block[start..at];
        start = at + 1;
        match line {
            [line @ .., b'\r'] if end == b'\n' => line,
            line => line,
        }
    })
}

/// A block without the byte-order mark, if it is the first.
fn without_mark(block: &[u8], is_first: bool) -> &[u8] {
    let rest = is_first.then(|| block.strip_prefix(BYTE_ORDER_MARK));
    rest.flatten().unwrap_or(block)
}

/// Bytes per block: enough for several threads, and few enough for their caches.
const BLOCK: usize = 1 << 20;

/// Bytes that a thread decodes at once.
const PIECE: usize = 128 << 10;

/// Divides a block into pieces of whole lines.
fn pieces(mut block: &[u8], end: u8) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let from = PIECE.min(block.len());
        let length = memchr::memchr(end, &block[from..]).map_or(block.len(), |at| from + at + 1);
        let piece = block.split_off(..length)?;
        (length > 0).then_some(piece)
    })
}

/// The items of a piece.
struct Decoded<'a> {
    bytes: Vec<u8>,
    /// The text of each item, and the end of its bytes.
    items: Vec<(&'a [u8], usize)>,
    /// Lines up to the first invalid one.
    lines: u64,
    /// The first invalid line, and why it is invalid.
    invalid: Option<(&'a [u8], String)>,
}

impl<'a> Decoded<'a> {
    fn of(piece: &'a [u8], end: u8, encoding: Encoding) -> Self {
        let mut decoded = Self {
            bytes: Vec::with_capacity(piece.len()),
            items: vec![],
            lines: 0,
            invalid: None,
        };
        for line in lines_of(piece, end) {
            decoded.lines += 1;
            let text = encoding.trim(line);
            if text.is_empty() {
                continue;
            }
            if let Err(error) = encoding.decode_into(text, &mut decoded.bytes) {
                decoded.invalid = Some((line, error));
                break;
            }
            decoded.items.push((text, decoded.bytes.len()));
        }
        decoded
    }
}

/// An item of so many bytes is not a word that happens to have only hex digits.
const CERTAIN_BYTES: usize = 8;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

fn lines(name: &str, reader: impl Read, args: &InputArgs, sink: Sink<'_>) -> Result<(), CliError> {
    let encoding = args.encoding()?;
    let (end, unit) = if args.null {
        (b'\0', "item")
    } else {
        (b'\n', "line")
    };
    let mut blocks = Blocks::new(reader, end);
    let mut lines = 0;
    // After a line that is certainly in this format, an invalid one is an error in that line only.
    let mut certain = false;
    while let Some(block) = blocks.next().map_err(|error| CliError::at(name, error))? {
        let pieces: Vec<_> = pieces(without_mark(block, lines == 0), end).collect();
        let decode = |piece| Decoded::of(piece, end, encoding);
        let decoded: Vec<_> = pieces.into_par_iter().map(decode).collect();
        for decoded in decoded {
            let mut start = 0;
            for (text, end) in decoded.items {
                let bytes = &decoded.bytes[start..end];
                start = end;
                certain |= bytes.len() >= CERTAIN_BYTES;
                sink(Item { text, bytes })?;
            }
            lines += decoded.lines;
            if let Some((line, error)) = decoded.invalid {
                let hint = match guess::format_of(line) {
                    Some((format, option)) if !certain => {
                        let option = option.filter(|_| args.can_change);
                        let option = option.map(|option| format!("; use {option}"));
                        format!("; the input looks {format}{}", option.unwrap_or_default())
                    }
                    _ => String::new(),
                };
                let place = format_args!("{name}, {unit} {lines}");
                return Err(CliError::at(place, format_args!("{error}{hint}")));
            }
        }
    }
    Ok(())
}

/// Decodes the text of a field and passes it on.
fn field(
    place: impl std::fmt::Display,
    encoding: Encoding,
    text: &[u8],
    bytes: &mut Vec<u8>,
    sink: Sink<'_>,
) -> Result<(), CliError> {
    let text = encoding.trim(text);
    if text.is_empty() {
        return Ok(());
    }
    bytes.clear();
    encoding
        .decode_into(text, bytes)
        .map_err(|error| CliError::at(place, error))?;
    sink(Item { text, bytes })
}

fn csv(name: &str, reader: impl Read, args: &InputArgs, sink: Sink<'_>) -> Result<(), CliError> {
    let failed = |error: csv::Error| CliError::at(name, error);
    let delimiter = args.delimiter.unwrap_or(b',');
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .from_reader(reader);
    let header = reader.byte_headers().map_err(failed)?;
    let columns: Vec<_> = header
        .iter()
        .map(|column| String::from_utf8_lossy(column.trim_ascii()).into_owned())
        .collect();
    let mut has = format!("the header has {}", columns.join(", "));
    for (other, shown) in [(';', ";"), ('\t', "\\t")] {
        if columns.len() == 1 && columns[0].contains(other) {
            has += &format!("; use --delimiter '{shown}'");
        }
    }
    let column = match &args.field {
        None if columns.len() <= 1 && !has.contains("--delimiter") => 0,
        None => {
            return Err(CliError::usage(format!(
                "{name}: --input csv needs --field NAME; {has}"
            )));
        }
        Some(field) => columns
            .iter()
            .position(|column| column == field)
            .ok_or_else(|| CliError::at(name, format_args!("no column '{field}'; {has}")))?,
    };
    let (mut record, mut bytes) = (csv::ByteRecord::new(), Vec::new());
    while reader.read_byte_record(&mut record).map_err(failed)? {
        let line = record.position().map_or(0, csv::Position::line);
        let text = record.get(column).unwrap_or_default();
        let place = format_args!("{name}, line {line}");
        field(place, args.of_field(), text, &mut bytes, sink)?;
    }
    Ok(())
}

fn json_lines(
    name: &str,
    reader: impl Read,
    args: &InputArgs,
    sink: Sink<'_>,
) -> Result<(), CliError> {
    let mut blocks = Blocks::new(reader, b'\n');
    let mut bytes = Vec::new();
    let mut number = 0;
    while let Some(block) = blocks.next().map_err(|error| CliError::at(name, error))? {
        for line in lines_of(without_mark(block, number == 0), b'\n') {
            number += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let place = format_args!("{name}, line {number}");
            let value = serde_json::from_slice(line).map_err(|error| {
                let hint = match line.trim_ascii_start().first() {
                    Some(b'[') => "; turn a JSON array into lines with `jq -c '.[]'`",
                    _ => "; each line must be one JSON value",
                };
                CliError::at(place, format_args!("not JSON: {error}{hint}"))
            })?;
            let text = json_text(value, args.field.as_deref())
                .map_err(|message| CliError::at(place, message))?;
            field(place, args.of_field(), text.as_bytes(), &mut bytes, sink)?;
        }
    }
    Ok(())
}

/// The text of the item in the value of a line.
fn json_text(value: Value, field: Option<&str>) -> Result<String, String> {
    let value = match (value, field) {
        (Value::Object(mut members), Some(field)) => match members.remove(field) {
            Some(value) => value,
            None => return Err(format!("no member '{field}'; {}", has(&members))),
        },
        (Value::Object(members), None) => {
            return Err(format!("an object needs --field NAME; {}", has(&members)));
        }
        (value, _) => value,
    };
    match value {
        Value::String(text) => Ok(text),
        // Floats have several spellings with different hashes, so they are rejected.
        Value::Number(number) if !number.is_f64() => Ok(number.to_string()),
        other => Err(format!(
            "an item must be a string or a whole number, not {}",
            match other {
                Value::Number(_) => "a fraction",
                Value::Null => "null",
                Value::Bool(_) => "true or false",
                Value::Array(_) => "an array; turn it into lines with `jq -c '.[]'`",
                _ => "an object",
            }
        )),
    }
}

fn has(members: &serde_json::Map<String, Value>) -> String {
    let names: Vec<&str> = members.keys().map(String::as_str).collect();
    format!("it has {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns at most so many bytes per read.
    struct Short<'a>(&'a [u8], usize);

    impl Read for Short<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(self.1);
            self.0.read(&mut buffer[..length])
        }
    }

    /// The items, and the error of the last line.
    fn read(text: &[u8], per_read: usize) -> (Vec<Vec<u8>>, String) {
        let mut items = vec![];
        let result = lines(
            "in",
            Short(text, per_read),
            &InputArgs::default(),
            &mut |item| {
                items.push(item.bytes.to_vec());
                Ok(())
            },
        );
        let error = result.map_or_else(|error| error.to_string(), |()| String::new());
        (items, error)
    }

    #[test]
    fn items_and_line_numbers_do_not_depend_on_the_blocks() {
        let mut text = BYTE_ORDER_MARK.to_vec();
        let mut wanted = vec![];
        // Lines of one piece, of several pieces and of more than one block, empty ones, and both line ends.
        for (line, length) in (0_u8..).zip([33, 0, 70_000, 1, BLOCK, 33, 200_000, 33]) {
            let item = vec![line; length];
            text.extend(data_encoding::HEXLOWER.encode(&item).into_bytes());
            text.extend_from_slice(if line % 2 == 0 { b"\r\n" } else { b"\n" });
            wanted.extend((length > 0).then_some(item));
        }
        for per_read in [1 << 10, 70_001, BLOCK, usize::MAX] {
            assert_eq!(read(&text, per_read), (wanted.clone(), String::new()));
            let (items, error) = read(&[&text[..], b"0g"].concat(), per_read);
            assert_eq!(items, wanted);
            assert_eq!(error, "in, line 9: 'g' in column 2 is not a hex digit");
        }
        assert_eq!(
            read(b"\n\n00\nff", 1),
            (vec![vec![0], vec![255]], String::new())
        );
    }
}
