//! Errors of parameters, of decoding, and of building a set.
//!
//! Every error carries the numbers needed to find the fault. The detailed kinds are private, so a new detail
//! does not break the API. `kind` gives the class of an error. The class of a [`DecodeError`] is part of the
//! contract: tests require the same class from every decoder.

use core::error::Error;

/// A table of faults: the enum, `kind` and the message of its error. A row has the numbers of a fault, its class and
/// its text.
macro_rules! faults {
    (
        $(#[$meta:meta])*
        $vis:vis enum $fault:ident of $error:ident: $kind:ident {
            $($(#[$cfg:meta])* $variant:ident $({ $($field:ident: $type:ty),* })?
                => $class:ident, $text:literal $(, $argument:expr)*;)*
        }
    ) => {
        $(#[$meta])*
        $vis enum $fault {
            $($(#[$cfg])* $variant $({ $($field: $type),* })?),*
        }

        impl $error {
            /// The class of the error.
            #[must_use]
            pub fn kind(&self) -> $kind {
                match self.0 {
                    $($(#[$cfg])* $fault::$variant { .. } => $kind::$class,)*
                }
            }
        }

        impl core::fmt::Display for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.0 {
                    $($(#[$cfg])* $fault::$variant $({ $($field),* })? => {
                        write!(f, $text $(, $argument)*)
                    })*
                }
            }
        }

        impl Error for $error {}
    };
}

/// The texts of an error that is a public enum: a row has a pattern and its text.
macro_rules! error_texts {
    ($error:ident { $($variant:pat => $text:literal $(, $argument:expr)*;)* }) => {
        impl core::fmt::Display for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $($variant => write!(f, $text $(, $argument)*),)*
                }
            }
        }

        impl core::error::Error for $error {}
    };
}
pub(crate) use error_texts;

/// Parameters outside the limits of the format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamsError(pub(crate) ParamsFault);

faults! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) enum ParamsFault of ParamsError: ParamsErrorKind {
        RemainderBits { p: u64 } => RemainderBits,
            "P is {p}; expected 0 to 32 remainder bits";
        InverseRate { m: u64 } => InverseRate,
            "M is {m}; expected 1 to {}", u32::MAX;
        Rate { rate: f64 } => Rate,
            "a false-positive rate of {rate} is not between 1/{} and 1", u32::MAX;
    }
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

faults! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum DecodeFault of DecodeError: DecodeErrorKind {
        ItemCount { n: u64 } => BadParameter,
            "filter declares {n} items; the format allows at most {}", u32::MAX;
        TooFewBytes { n: u32, len: u64, min: u64 } => TooShort,
            "filter of {n} items has {len} bytes; expected at least {min}";
        TooManyBytes { n: u32, len: u64, max: u64 } => TooLong,
            "filter of {n} items has {len} bytes; expected at most {max}";
        RunCut { item: u32, n: u32, bits: u64 } => TooShort,
            "filter declares {n} items, but its {bits} bits end within the unary run of item {item}";
        RemainderCut { item: u32, n: u32, bits: u64 } => TooShort,
            "filter declares {n} items, but its {bits} bits end within the remainder of item {item}";
        OutOfRange { item: u32, range: u64 } => OutOfRange,
            "item {item} lies beyond the range of {range} values";
        TrailingData { n: u32, end_bit: u64, bits: u64 } => TrailingData,
            "trailing data: the {n} items end at bit {end_bit} of {bits}";
        Padding { n: u32, end_bit: u64 } => Padding,
            "the padding bits of the last byte are not zero (the {n} items end at bit {end_bit})";
        CompactSizeCut { len: u64 } => TooShort,
            "truncated number of items: {len} bytes";
        CompactSizeNotMinimal { n: u64, width: u8 } => NonCanonical,
            "the number of items, {n}, is encoded in {width} bytes, not in the fewest possible";
    }
}

/// A filter cannot be made from the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildError(pub(crate) BuildFault);

faults! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum BuildFault of BuildError: BuildErrorKind {
        TooManyItems { n: u64 } => ItemCount,
            "{n} items exceed the limit of one filter, {}", u32::MAX;
        TooManyBits { n: u32, bits: u128 } => TooLarge,
            "the filter of these {n} items would take {bits} bits, more than memory can address";
        OutOfMemory { bytes: u64 } => OutOfMemory,
            "could not allocate {bytes} bytes for a filter";
        NoRoomForHashes { items: u64 } => OutOfMemory,
            "could not allocate memory for the hashes of {items} items";
        HasherDiffers => HasherMismatch,
            "the two sets were hashed with different keys, so they cannot be merged";
        OtherCount { n: u32, pushed: u64 } => ItemCount,
            "the encoder expected {n} hashes but received {pushed}";
        MalformedPiece { len: u64 } => BadPiece,
            "these {len} bytes are not a valid piece of a filter";
        OtherFilter { piece: u64 } => BadPiece,
            "piece {piece} was encoded with a different N, P or M";
        PieceOrder { piece: u64 } => Unsorted,
            "piece {piece} overlaps the pieces before it";
        RecordLength { len: u64, record_bytes: u64 } => IncompleteInput,
            "{len} bytes are not a multiple of the record size {record_bytes}";
        #[cfg(feature = "bitcoin")]
        PreviousScripts { given: u64, spent: u64 } => IncompleteInput,
            "the block spends {spent} outputs, but {given} previous scripts were given";
        Unsorted { item: u64 } => Unsorted,
            "value {item} is smaller than the one before it";
        ValueOutOfRange { item: u64, value: u64, range: u64 } => OutOfRange,
            "value {item} is {value}, at or beyond the range of {range} values";
    }
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

/// A filter has no resident form, or the bytes of one are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentError(pub(crate) ResidentFault);

faults! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum ResidentFault of ResidentError: ResidentErrorKind {
        InverseRate { m: u64, most: u64 } => Unsuitable,
            "M is {m}; a resident filter allows at most {most}";
        Crowded { n: u32, exceptions: u64 } => Unsuitable,
            "hashes are not uniformly distributed: {exceptions} of {n} items do not fit in the lines of a resident filter";
        TooShort { len: u64 } => Damaged, "{len} bytes are too few for a resident filter";
        Magic => NotResident, "these bytes are not a resident filter";
        Version { version: u32 } => Version,
            "unsupported resident filter version {version}";
        Length { len: u64, lines: u64, count: u64 } => Damaged,
            "a resident filter of {lines} lines and {count} exceptions does not take {len} bytes";
        Checksum { stored: u64, computed: u64 } => Damaged,
            "damaged resident filter: checksum {stored:016x}, computed {computed:016x}";
        Header { n: u32, m: u64 } => Damaged,
            "resident filter of {n} items with M = {m} has invalid or unknown numbers in its header or padding";
        Line { line: u64 } => Damaged,
            "resident filter line {line} has tags out of order or the wrong counts";
        Exception { key: u64 } => Damaged,
            "resident filter exception {key:x} is out of order or does not belong to a full line";
        TooManyItems { n: u32, items: u64 } => Damaged,
            "resident filter declares {n} items but has {items}";
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// Each message has these words and numbers, is one line, and does not end with a full stop. Other tests have the whole
    /// messages of the faults that are not here.
    #[test]
    fn errors_carry_their_numbers() {
        let [n, item] = [7001, 7002];
        let [len, bits, end_bit, m, lines] = [7003, 7004, 7005, 7006, 7007];
        let params: [(_, &[&str]); 2] = [
            (ParamsFault::InverseRate { m: 0 }, &["M is 0", "4294967295"]),
            (ParamsFault::Rate { rate: 1.5 }, &["1.5"]),
        ];
        let decode: [(_, &[&str]); 5] = [
            (DecodeFault::ItemCount { n: 1 << 32 }, &["4294967296", "4294967295"]),
            (DecodeFault::RunCut { item, n, bits }, &["7001", "7002", "7004", "run"]),
            (DecodeFault::RemainderCut { item, n, bits }, &["7001", "7002", "7004", "remainder"]),
            (DecodeFault::TrailingData { n, end_bit, bits }, &["7001", "7004", "7005"]),
            (DecodeFault::CompactSizeCut { len }, &["7003"]),
        ];
        let build: [(_, &[&str]); 12] = [
            (BuildFault::TooManyItems { n: 1 << 32 }, &["4294967296"]),
            (BuildFault::TooManyBits { n, bits: 7004 }, &["7001", "7004"]),
            (BuildFault::OutOfMemory { bytes: 7003 }, &["7003 bytes"]),
            (BuildFault::NoRoomForHashes { items: 7004 }, &["7004 items"]),
            (BuildFault::HasherDiffers, &["keys", "merged"]),
            (BuildFault::OtherCount { n, pushed: 7013 }, &["7001", "7013"]),
            (BuildFault::MalformedPiece { len }, &["7003 bytes"]),
            (BuildFault::OtherFilter { piece: 7015 }, &["piece 7015"]),
            (BuildFault::PieceOrder { piece: 7016 }, &["piece 7016"]),
            (BuildFault::RecordLength { len, record_bytes: 33 }, &["7003 bytes", "size 33"]),
            (BuildFault::Unsorted { item: 7008 }, &["7008"]),
            (
                BuildFault::ValueOutOfRange { item: 7009, value: 7010, range: 7011 },
                &["7009", "7010", "7011"],
            ),
        ];
        let resident: [(_, &[&str]); 11] = [
            (ResidentFault::InverseRate { m, most: 7002 }, &["7006", "7002"]),
            (ResidentFault::Crowded { n, exceptions: 7004 }, &["7001", "7004"]),
            (ResidentFault::TooShort { len }, &["7003 bytes"]),
            (ResidentFault::Magic, &["not a resident filter"]),
            (ResidentFault::Version { version: 7 }, &["version 7"]),
            (ResidentFault::Length { len, lines, count: 9 }, &["7003 bytes", "7007 lines", "9"]),
            (
                ResidentFault::Checksum { stored: 0xabc, computed: 0xdef },
                &["0000000000000abc", "0000000000000def"],
            ),
            (ResidentFault::Header { n, m }, &["7001", "7006"]),
            (ResidentFault::Line { line: 7006 }, &["7006"]),
            (ResidentFault::Exception { key: 0xabc }, &["abc"]),
            (ResidentFault::TooManyItems { n, items: 7007 }, &["7001", "7007"]),
        ];
        let params = params.map(|(fault, words)| (ParamsError(fault).to_string(), words)).to_vec();
        let decode = decode.map(|(fault, words)| (DecodeError(fault).to_string(), words));
        let build = build.map(|(fault, words)| (BuildError(fault).to_string(), words));
        let resident = resident.map(|(fault, words)| (ResidentError(fault).to_string(), words));
        for (text, words) in params.into_iter().chain(decode).chain(build).chain(resident) {
            assert!(words.iter().all(|word| text.contains(word)), "{words:?} are not in: {text}");
            assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
        }
    }
}
