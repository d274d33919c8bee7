//! Input formats: lines of hex, text or base64, or a field of CSV or JSON lines.

use std::io::{BufRead, BufReader, Read};

use clap::{Args, ValueEnum};
use data_encoding::BASE64;
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
    /// Lines of text, used unchanged.
    pub(crate) fn text() -> Self {
        Self {
            format: InputFormat::Text,
            ..Self::default()
        }
    }

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

/// Calls `each` with the number and the text of each line, without its line end.
fn for_each_line(
    name: &str,
    mut reader: impl BufRead,
    end: u8,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = reader.read_until(end, &mut line);
        if read.map_err(|error| CliError::at(name, error))? == 0 {
            break;
        }
        let mut text = line.strip_suffix(&[end]).unwrap_or(&line);
        if end == b'\n' {
            text = text.strip_suffix(b"\r").unwrap_or(text);
        }
        if number == 1 {
            text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        }
        each(number, text)?;
    }
    Ok(())
}

/// An item of so many bytes is not a word that happens to have only hex digits.
const CERTAIN_BYTES: usize = 8;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

fn lines(
    name: &str,
    reader: impl BufRead,
    args: &InputArgs,
    sink: Sink<'_>,
) -> Result<(), CliError> {
    let encoding = args.encoding()?;
    let (end, unit) = if args.null {
        (b'\0', "item")
    } else {
        (b'\n', "line")
    };
    let mut bytes = Vec::new();
    // After a line that is certainly in this format, an invalid one is an error in that line only.
    let mut certain = false;
    for_each_line(name, reader, end, |number, line| {
        let text = encoding.trim(line);
        if text.is_empty() {
            return Ok(());
        }
        bytes.clear();
        encoding.decode_into(text, &mut bytes).map_err(|error| {
            let hint = match guess::format_of(line) {
                Some((format, option)) if !certain => {
                    let option = option.filter(|_| args.can_change);
                    let option = option.map_or(String::new(), |option| format!("; use {option}"));
                    format!("; the input looks {format}{option}")
                }
                _ => String::new(),
            };
            let place = format_args!("{name}, {unit} {number}");
            CliError::at(place, error + &hint)
        })?;
        certain |= bytes.len() >= CERTAIN_BYTES;
        sink(Item {
            text,
            bytes: &bytes,
        })
    })
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
    reader: impl BufRead,
    args: &InputArgs,
    sink: Sink<'_>,
) -> Result<(), CliError> {
    let mut bytes = Vec::new();
    for_each_line(name, reader, b'\n', |number, line| {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let place = format!("{name}, line {number}");
        let value = serde_json::from_slice(line).map_err(|error| {
            let hint = match line.trim_ascii_start().first() {
                Some(b'[') => "; turn a JSON array into lines with `jq -c '.[]'`",
                _ => "; each line must be one JSON value",
            };
            CliError::at(&place, format_args!("not JSON: {error}{hint}"))
        })?;
        let text = json_text(value, args.field.as_deref())
            .map_err(|message| CliError::at(&place, message))?;
        field(place, args.of_field(), text.as_bytes(), &mut bytes, sink)
    })
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
