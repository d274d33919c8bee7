//! Errors of parameters, of decoding, and of building a set.
//!
//! Every error carries the numbers needed to find the fault. The detailed kinds are private, so a new detail
//! does not break the API. `kind` gives the class of an error. The class of a [`DecodeError`] is part of the
//! contract: tests require the same class from every decoder.

use core::error::Error;
use core::fmt;

/// Parameters outside the limits of the format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamsError(pub(crate) ParamsFault);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ParamsFault {
    RemainderBits { p: u64 },
    InverseRate { m: u64 },
    Rate { rate: f64 },
}

/// The class of a [`ParamsError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParamsErrorKind {
    /// P is too large.
    RemainderBits,
    /// M is 0 or too large.
    InverseRate,
    /// The false-positive rate is outside the limits.
    Rate,
}

impl ParamsError {
    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> ParamsErrorKind {
        match self.0 {
            ParamsFault::RemainderBits { .. } => ParamsErrorKind::RemainderBits,
            ParamsFault::InverseRate { .. } => ParamsErrorKind::InverseRate,
            ParamsFault::Rate { .. } => ParamsErrorKind::Rate,
        }
    }
}

impl fmt::Display for ParamsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ParamsFault::RemainderBits { p } => {
                write!(f, "P is {p}, and the format allows 0 to 32 remainder bits")
            }
            ParamsFault::InverseRate { m } => {
                write!(f, "M is {m}, and the format allows 1 to {}", u32::MAX)
            }
            ParamsFault::Rate { rate } => write!(
                f,
                "a false-positive rate of {rate} is not between 1/{} and 1",
                u32::MAX
            ),
        }
    }
}

impl Error for ParamsError {}

/// The bytes are not a valid filter for the declared numbers.
///
/// The message counts from 0. It numbers items in the order of their values and bits by their position in the
/// bytes: "item 0" is the smallest value, and a filter of N items ends with item N - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError(pub(crate) DecodeFault);

/// The class of a [`DecodeError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// A declared number is outside the limits of the format.
    BadParameter,
    /// The bits end before the last item does, or there are too few bytes for the declared number of items.
    TooShort,
    /// There are more bytes than any filter with this number of items can have.
    TooLong,
    /// An item is not below F = N * M.
    OutOfRange,
    /// Whole bytes follow the last item.
    TrailingData,
    /// The padding bits of the last byte are not all zero.
    Padding,
    /// A number is written in more bytes than it needs.
    NonCanonical,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeFault {
    ItemCount { n: u64 },
    TooFewBytes { n: u32, len: u64, min: u64 },
    TooManyBytes { n: u32, len: u64, max: u64 },
    RunCut { item: u32, n: u32, bits: u64 },
    RemainderCut { item: u32, n: u32, bits: u64 },
    OutOfRange { item: u32, range: u64 },
    TrailingData { n: u32, end_bit: u64, bits: u64 },
    Padding { n: u32, end_bit: u64 },
    CompactSizeCut { len: u64 },
    CompactSizeNotMinimal { n: u64, width: u8 },
}

impl DecodeError {
    /// The class of the fault.
    #[must_use]
    pub fn kind(&self) -> DecodeErrorKind {
        match self.0 {
            DecodeFault::ItemCount { .. } => DecodeErrorKind::BadParameter,
            DecodeFault::TooFewBytes { .. }
            | DecodeFault::RunCut { .. }
            | DecodeFault::RemainderCut { .. }
            | DecodeFault::CompactSizeCut { .. } => DecodeErrorKind::TooShort,
            DecodeFault::TooManyBytes { .. } => DecodeErrorKind::TooLong,
            DecodeFault::OutOfRange { .. } => DecodeErrorKind::OutOfRange,
            DecodeFault::TrailingData { .. } => DecodeErrorKind::TrailingData,
            DecodeFault::Padding { .. } => DecodeErrorKind::Padding,
            DecodeFault::CompactSizeNotMinimal { .. } => DecodeErrorKind::NonCanonical,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DecodeFault::ItemCount { n } => {
                write!(
                    f,
                    "filter declares {n} items, and the format allows {}",
                    u32::MAX
                )
            }
            DecodeFault::TooFewBytes { n, len, min } => {
                write!(
                    f,
                    "filter declares {n} items, which take at least {min} bytes, and has {len}"
                )
            }
            DecodeFault::TooManyBytes { n, len, max } => {
                write!(
                    f,
                    "filter declares {n} items, which take at most {max} bytes, and has {len}"
                )
            }
            DecodeFault::RunCut { item, n, bits } => write!(
                f,
                "filter declares {n} items, but its {bits} bits end within the unary run of item {item}"
            ),
            DecodeFault::RemainderCut { item, n, bits } => write!(
                f,
                "filter declares {n} items, but its {bits} bits end within the remainder of item {item}"
            ),
            DecodeFault::OutOfRange { item, range } => {
                write!(f, "item {item} lies beyond the range of {range} values")
            }
            DecodeFault::TrailingData { n, end_bit, bits } => write!(
                f,
                "filter declares {n} items, which end at bit {end_bit}, but goes on to bit {bits}"
            ),
            DecodeFault::Padding { n, end_bit } => write!(
                f,
                "the bits that pad the last byte are not zero (the {n} items end at bit {end_bit})"
            ),
            DecodeFault::CompactSizeCut { len } => {
                write!(
                    f,
                    "the number of items is cut short: {len} bytes are not enough for it"
                )
            }
            DecodeFault::CompactSizeNotMinimal { n, width } => write!(
                f,
                "the number of items, {n}, is written in {width} bytes, more than it needs"
            ),
        }
    }
}

impl Error for DecodeError {}

/// A filter cannot be made from the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildError(pub(crate) BuildFault);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuildFault {
    TooManyItems {
        n: u64,
    },
    TooManyBits {
        n: u32,
        bits: u128,
    },
    OutOfMemory {
        bytes: u64,
    },
    NoRoomForHashes {
        items: u64,
    },
    HasherDiffers,
    OtherCount {
        n: u32,
        pushed: u64,
    },
    MalformedPiece {
        len: u64,
    },
    OtherFilter {
        piece: u64,
    },
    PieceOrder {
        piece: u64,
    },
    RecordLength {
        len: u64,
        record_bytes: u64,
    },
    #[cfg(feature = "bitcoin")]
    PreviousScripts {
        given: u64,
        spent: u64,
    },
    Unsorted {
        item: u64,
    },
    ValueOutOfRange {
        item: u64,
        value: u64,
        range: u64,
    },
}

/// The class of a [`BuildError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuildErrorKind {
    /// More items than the format allows, or than were declared; or fewer than were declared.
    ItemCount,
    /// The filter would be longer than the address space.
    TooLarge,
    /// Memory cannot be allocated.
    OutOfMemory,
    /// Two sets have different hashers or keys.
    HasherMismatch,
    /// The input is not a whole number of records, or scripts are missing.
    IncompleteInput,
    /// Hashes, values or pieces are not in ascending order.
    Unsorted,
    /// A piece is damaged, or belongs to another filter.
    BadPiece,
    /// A value is not below N * M.
    OutOfRange,
}

impl BuildError {
    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> BuildErrorKind {
        match self.0 {
            BuildFault::TooManyItems { .. } | BuildFault::OtherCount { .. } => {
                BuildErrorKind::ItemCount
            }
            BuildFault::TooManyBits { .. } => BuildErrorKind::TooLarge,
            BuildFault::OutOfMemory { .. } | BuildFault::NoRoomForHashes { .. } => {
                BuildErrorKind::OutOfMemory
            }
            BuildFault::HasherDiffers => BuildErrorKind::HasherMismatch,
            BuildFault::RecordLength { .. } => BuildErrorKind::IncompleteInput,
            #[cfg(feature = "bitcoin")]
            BuildFault::PreviousScripts { .. } => BuildErrorKind::IncompleteInput,
            BuildFault::Unsorted { .. } | BuildFault::PieceOrder { .. } => BuildErrorKind::Unsorted,
            BuildFault::MalformedPiece { .. } | BuildFault::OtherFilter { .. } => {
                BuildErrorKind::BadPiece
            }
            BuildFault::ValueOutOfRange { .. } => BuildErrorKind::OutOfRange,
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            BuildFault::TooManyItems { n } => {
                write!(f, "{n} items are more than one filter holds ({})", u32::MAX)
            }
            BuildFault::TooManyBits { n, bits } => write!(
                f,
                "the filter of these {n} items would take {bits} bits, more than memory can address"
            ),
            BuildFault::OutOfMemory { bytes } => {
                write!(f, "no memory for a filter of {bytes} bytes")
            }
            BuildFault::NoRoomForHashes { items } => {
                write!(f, "no memory for the hashes of {items} items")
            }
            BuildFault::HasherDiffers => {
                write!(
                    f,
                    "the two sets were hashed with different keys, so they cannot be merged"
                )
            }
            BuildFault::OtherCount { n, pushed } => write!(
                f,
                "the encoder was made for {n} hashes and received {pushed}"
            ),
            BuildFault::MalformedPiece { len } => {
                write!(f, "these {len} bytes are not a valid piece of a filter")
            }
            BuildFault::OtherFilter { piece } => {
                write!(f, "piece {piece} has another N, P or M than stated")
            }
            BuildFault::PieceOrder { piece } => {
                write!(
                    f,
                    "piece {piece} begins before the end of the pieces before it"
                )
            }
            BuildFault::RecordLength { len, record_bytes } => write!(
                f,
                "{len} bytes are not a multiple of the record size {record_bytes}"
            ),
            #[cfg(feature = "bitcoin")]
            BuildFault::PreviousScripts { given, spent } => write!(
                f,
                "the block spends {spent} outputs, and {given} previous scripts were given"
            ),
            BuildFault::Unsorted { item } => {
                write!(f, "value {item} is smaller than the one before it")
            }
            BuildFault::ValueOutOfRange { item, value, range } => write!(
                f,
                "value {item} is {value}, at or beyond the range of {range} values"
            ),
        }
    }
}

impl Error for BuildError {}

/// A seek index that is damaged or belongs to another filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekIndexError(pub(crate) SeekIndexFault);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeekIndexFault {
    TooShort { len: u64, needed: u64 },
    Magic,
    Version { version: u32 },
    Length { len: u64, lines: u64 },
    Checksum { stored: u64, computed: u64 },
    Line { line: u64 },
    Gap { gap: u64 },
    OtherFilter,
}

/// The class of a [`SeekIndexError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SeekIndexErrorKind {
    /// The bytes are not an index.
    NotAnIndex,
    /// The index has another version. Build it again from the filter.
    Version,
    /// The index is truncated or damaged.
    Damaged,
    /// The index belongs to another filter.
    OtherFilter,
}

impl SeekIndexError {
    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> SeekIndexErrorKind {
        match self.0 {
            SeekIndexFault::Magic => SeekIndexErrorKind::NotAnIndex,
            SeekIndexFault::Version { .. } => SeekIndexErrorKind::Version,
            SeekIndexFault::TooShort { .. }
            | SeekIndexFault::Length { .. }
            | SeekIndexFault::Checksum { .. }
            | SeekIndexFault::Line { .. }
            | SeekIndexFault::Gap { .. } => SeekIndexErrorKind::Damaged,
            SeekIndexFault::OtherFilter => SeekIndexErrorKind::OtherFilter,
        }
    }
}

impl fmt::Display for SeekIndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SeekIndexFault::TooShort { len, needed } => {
                write!(
                    f,
                    "a seek index takes at least {needed} bytes, and this one has {len}"
                )
            }
            SeekIndexFault::Magic => write!(f, "these bytes are not a seek index"),
            SeekIndexFault::Version { version } => {
                write!(
                    f,
                    "seek index of version {version}, which this build does not know"
                )
            }
            SeekIndexFault::Length { len, lines } => {
                write!(f, "a seek index of {lines} lines does not take {len} bytes")
            }
            SeekIndexFault::Checksum { stored, computed } => write!(
                f,
                "seek index is damaged: checksum {stored:016x} is stored, {computed:016x} computed"
            ),
            SeekIndexFault::Line { line } => {
                write!(
                    f,
                    "seek index line {line} points outside the filter or backwards, or is not full"
                )
            }
            SeekIndexFault::Gap { gap } => {
                write!(
                    f,
                    "seek index gap {gap} is outside the filter, out of order or too short"
                )
            }
            SeekIndexFault::OtherFilter => {
                write!(f, "seek index was made for another filter")
            }
        }
    }
}

impl Error for SeekIndexError {}

/// A filter has no resident form, or the bytes of one are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentError(pub(crate) ResidentFault);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResidentFault {
    InverseRate { m: u64, most: u64 },
    Crowded { n: u32, exceptions: u64 },
    TooShort { len: u64 },
    Magic,
    Version { version: u32 },
    Length { len: u64, lines: u64, count: u64 },
    Checksum { stored: u64, computed: u64 },
    Header { n: u32, m: u64 },
    Line { line: u64 },
    Exception { key: u64 },
    TooManyItems { n: u32, items: u64 },
}

/// The class of a [`ResidentError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResidentErrorKind {
    /// M is too large, or the hashes are too far from uniform. Use a seek index.
    Unsuitable,
    /// The bytes are not a resident filter.
    NotResident,
    /// The bytes have another version. Make them again from the filter.
    Version,
    /// The bytes are truncated or damaged.
    Damaged,
}

impl ResidentError {
    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> ResidentErrorKind {
        match self.0 {
            ResidentFault::InverseRate { .. } | ResidentFault::Crowded { .. } => {
                ResidentErrorKind::Unsuitable
            }
            ResidentFault::Magic => ResidentErrorKind::NotResident,
            ResidentFault::Version { .. } => ResidentErrorKind::Version,
            _ => ResidentErrorKind::Damaged,
        }
    }
}

impl fmt::Display for ResidentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ResidentFault::InverseRate { m, most } => {
                write!(f, "M is {m}, and a resident filter allows up to {most}")
            }
            ResidentFault::Crowded { n, exceptions } => write!(
                f,
                "hashes are not uniform: {exceptions} of {n} items have no room in the lines of a resident filter"
            ),
            ResidentFault::TooShort { len } => {
                write!(f, "{len} bytes are too few for a resident filter")
            }
            ResidentFault::Magic => write!(f, "these bytes are not a resident filter"),
            ResidentFault::Version { version } => write!(
                f,
                "resident filter of version {version}, which this build does not know"
            ),
            ResidentFault::Length { len, lines, count } => write!(
                f,
                "a resident filter of {lines} lines and {count} exceptions does not take {len} bytes"
            ),
            ResidentFault::Checksum { stored, computed } => write!(
                f,
                "resident filter is damaged: checksum {stored:016x} is stored, {computed:016x} computed"
            ),
            ResidentFault::Header { n, m } => write!(
                f,
                "resident filter of {n} items with M = {m} has invalid or unknown numbers in its header or padding"
            ),
            ResidentFault::Line { line } => write!(
                f,
                "resident filter line {line} has tags out of order or the wrong counts"
            ),
            ResidentFault::Exception { key } => write!(
                f,
                "resident filter exception {key:x} is out of order or does not belong to a full line"
            ),
            ResidentFault::TooManyItems { n, items } => {
                write!(f, "resident filter declares {n} items and has {items}")
            }
        }
    }
}

impl Error for ResidentError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// Checks that the message contains these words, is one line, and does not end with a full stop.
    fn says(error: impl Error, words: &[&str]) {
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{word} is not in: {text}");
        }
        assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
    }

    #[test]
    fn errors_of_parameters_and_bytes_carry_their_numbers() {
        let params = |fault, words| says(ParamsError(fault), words);
        params(ParamsFault::RemainderBits { p: 77 }, &["P is 77"]);
        params(ParamsFault::InverseRate { m: 0 }, &["M is 0", "4294967295"]);
        params(ParamsFault::Rate { rate: 1.5 }, &["1.5"]);

        let decode = |fault, words| says(DecodeError(fault), words);
        let (n, len, bits, item, end_bit) = (7001, 7002, 7003, 7004, 7005);
        let (min, max, range) = (7006, 7007, 7008);
        let count = DecodeFault::ItemCount { n: 1 << 32 };
        decode(count, &["4294967296", "4294967295"]);
        let few = DecodeFault::TooFewBytes { n, len, min };
        decode(few, &["7001", "7002", "7006"]);
        let many = DecodeFault::TooManyBytes { n, len, max };
        decode(many, &["7001", "7002", "7007"]);
        let run = DecodeFault::RunCut { item, n, bits };
        decode(run, &["7001", "7003", "7004", "run"]);
        let remainder = DecodeFault::RemainderCut { item, n, bits };
        decode(remainder, &["7001", "7003", "7004", "remainder"]);
        let beyond = DecodeFault::OutOfRange { item, range };
        decode(beyond, &["7004", "7008"]);
        let trailing = DecodeFault::TrailingData { n, end_bit, bits };
        decode(trailing, &["7001", "7003", "7005"]);
        let padding = DecodeFault::Padding { n, end_bit };
        decode(padding, &["7001", "7005", "pad"]);
        decode(DecodeFault::CompactSizeCut { len }, &["7002"]);
        let long = DecodeFault::CompactSizeNotMinimal { n: 9, width: 5 };
        decode(long, &["9", "5 bytes"]);
    }

    #[test]
    fn errors_of_building_and_of_indexes_carry_their_numbers() {
        let build = |fault, words| says(BuildError(fault), words);
        build(BuildFault::TooManyItems { n: 1 << 32 }, &["4294967296"]);
        let bits = BuildFault::TooManyBits {
            n: 7001,
            bits: 7002,
        };
        build(bits, &["7001", "7002"]);
        build(BuildFault::OutOfMemory { bytes: 7003 }, &["7003 bytes"]);
        build(BuildFault::NoRoomForHashes { items: 7004 }, &["7004 items"]);
        build(BuildFault::HasherDiffers, &["keys", "merged"]);
        let (n, pushed) = (7012, 7013);
        build(BuildFault::OtherCount { n, pushed }, &["7012", "7013"]);
        build(BuildFault::MalformedPiece { len: 7014 }, &["7014 bytes"]);
        build(BuildFault::OtherFilter { piece: 7015 }, &["piece 7015"]);
        build(BuildFault::PieceOrder { piece: 7016 }, &["piece 7016"]);
        let (len, record_bytes) = (7005, 33);
        let records = BuildFault::RecordLength { len, record_bytes };
        build(records, &["7005 bytes", "size 33"]);
        #[cfg(feature = "bitcoin")]
        {
            let (given, spent) = (7006, 7007);
            let scripts = BuildFault::PreviousScripts { given, spent };
            build(scripts, &["7006", "7007"]);
        }
        build(BuildFault::Unsorted { item: 7008 }, &["7008"]);
        let (item, value, range) = (7009, 7010, 7011);
        let beyond = BuildFault::ValueOutOfRange { item, value, range };
        build(beyond, &["7009", "7010", "7011"]);

        let index = |fault, words| says(SeekIndexError(fault), words);
        let (len, needed, lines) = (7001, 7002, 7003);
        index(SeekIndexFault::TooShort { len, needed }, &["7001", "7002"]);
        index(SeekIndexFault::Magic, &["not a seek index"]);
        index(SeekIndexFault::Version { version: 7 }, &["version 7"]);
        index(SeekIndexFault::Length { len, lines }, &["7001", "7003"]);
        let (stored, computed) = (0xabc, 0xdef);
        let checksum = SeekIndexFault::Checksum { stored, computed };
        index(checksum, &["0000000000000abc", "0000000000000def"]);
        index(SeekIndexFault::Line { line: 7004 }, &["7004"]);
        index(SeekIndexFault::Gap { gap: 7003 }, &["gap 7003"]);
        index(SeekIndexFault::OtherFilter, &["another filter"]);

        let resident = |fault, words| says(ResidentError(fault), words);
        let (m, most, n, exceptions, count) = (7001, 7002, 7003, 7004, 7005);
        resident(ResidentFault::InverseRate { m, most }, &["7001", "7002"]);
        let crowded = ResidentFault::Crowded { n, exceptions };
        resident(crowded, &["7003", "7004"]);
        resident(ResidentFault::TooShort { len }, &["7001 bytes"]);
        resident(ResidentFault::Magic, &["not a resident filter"]);
        resident(ResidentFault::Version { version: 7 }, &["version 7"]);
        let length = ResidentFault::Length { len, lines, count };
        resident(length, &["7001 bytes", "7003 lines", "7005"]);
        let checksum = ResidentFault::Checksum { stored, computed };
        resident(checksum, &["0000000000000abc", "0000000000000def"]);
        resident(ResidentFault::Header { n, m }, &["7001", "7003"]);
        resident(ResidentFault::Line { line: 7006 }, &["7006"]);
        resident(ResidentFault::Exception { key: 0xabc }, &["abc"]);
        let items = 7007;
        resident(ResidentFault::TooManyItems { n, items }, &["7003", "7007"]);
    }
}
