//! The binary format of `COPY`.
//!
//! ```text
//! "PGCOPY\n\xff\r\n\0"  flags: u32  length: u32, so many bytes of an extension
//! per row:  fields: i16  { length: i32, -1 for null   that many bytes } for each
//! in the end: -1 as i16, and nothing behind it
//! ```
//!
//! All numbers are big-endian. The stream arrives in pieces that can end anywhere.

/// Start of every stream.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// Bits 16 to 31 of the flags are critical: a reader must give up on unknown ones. Bit 16 means that each row
/// starts with an oid, which no current Postgres sends.
const CRITICAL_FLAGS: u32 = 0xffff_0000;

/// Maximum field length, 16 MiB. No field of a mint comes near it.
const MAX_FIELD_BYTES: usize = 16 << 20;

/// Parses rows of `N` fields from the pieces of a stream.
///
/// # Cost
///
/// Memory for the pieces that were fed but not read yet.
pub(super) struct BinaryCopy<const N: usize> {
    buffer: Vec<u8>,
    /// Position up to which the buffer was read.
    at: usize,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Header,
    Rows,
    Ended,
}

/// The fields of a row; `None` for null.
pub(super) type Row<'b, const N: usize> = [Option<&'b [u8]>; N];

impl<const N: usize> BinaryCopy<N> {
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![],
            at: 0,
            stage: Stage::Header,
        }
    }

    /// Adds a piece of the stream.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        self.buffer.extend_from_slice(piece);
    }

    /// The next row; `None` if it has not arrived yet, or if the stream has ended.
    pub(super) fn next_row(&mut self) -> Result<Option<Row<'_, N>>, String> {
        if self.stage == Stage::Header && !self.header()? {
            return Ok(None);
        }
        let fields = self.buffer[self.at..].first_chunk().copied();
        if self.stage == Stage::Rows && fields.map(i16::from_be_bytes) == Some(-1) {
            self.at += 2;
            self.stage = Stage::Ended;
        }
        if self.stage == Stage::Ended {
            return match self.buffer.len() - self.at {
                0 => Ok(None),
                more => Err(format!("{more} bytes after the end")),
            };
        }
        let mut rest = &self.buffer[self.at..];
        let Some(fields) = take::<2>(&mut rest).map(i16::from_be_bytes) else {
            return Ok(None);
        };
        if usize::try_from(fields) != Ok(N) {
            return Err(format!("row has {fields} fields, expected {N}"));
        }
        let mut row = [None; N];
        for field in &mut row {
            let Some(length) = take::<4>(&mut rest).map(i32::from_be_bytes) else {
                return Ok(None);
            };
            if length == -1 {
                continue;
            }
            let length = match usize::try_from(length) {
                Ok(length) if length <= MAX_FIELD_BYTES => length,
                _ => return Err(format!("invalid field length {length}")),
            };
            let Some((bytes, behind)) = rest.split_at_checked(length) else {
                return Ok(None);
            };
            *field = Some(bytes);
            rest = behind;
        }
        self.at = self.buffer.len() - rest.len();
        Ok(Some(row))
    }

    /// Checks at the end of the stream that it was complete.
    pub(super) fn finish(&self) -> Result<(), String> {
        match self.stage {
            Stage::Ended if self.at == self.buffer.len() => Ok(()),
            _ => Err(format!(
                "truncated; {} bytes of an unfinished row",
                self.buffer.len() - self.at
            )),
        }
    }

    /// Reads the header. Returns false if it has not arrived yet.
    fn header(&mut self) -> Result<bool, String> {
        let mut rest = &self.buffer[self.at..];
        let seen = rest.len().min(SIGNATURE.len());
        if rest[..seen] != SIGNATURE[..seen] {
            return Err("not in binary COPY format".to_owned());
        }
        let parts = (
            take::<11>(&mut rest),
            take::<4>(&mut rest).map(u32::from_be_bytes),
            take::<4>(&mut rest).map(u32::from_be_bytes),
        );
        let (Some(_), Some(flags), Some(extension)) = parts else {
            return Ok(false);
        };
        if flags & CRITICAL_FLAGS != 0 {
            return Err(format!("unknown flags {flags:#x}"));
        }
        let extension = extension as usize;
        if extension > MAX_FIELD_BYTES {
            return Err(format!("header extension of {extension} bytes is too long"));
        }
        let Some((_, behind)) = rest.split_at_checked(extension) else {
            return Ok(false);
        };
        self.at = self.buffer.len() - behind.len();
        self.stage = Stage::Rows;
        Ok(true)
    }
}

fn take<const L: usize>(rest: &mut &[u8]) -> Option<[u8; L]> {
    let (head, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rows = Vec<[Option<Vec<u8>>; 2]>;

    fn stream(extension: &[u8], rows: &Rows) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([0; 4]);
        bytes.extend((extension.len() as u32).to_be_bytes());
        bytes.extend(extension);
        for row in rows {
            bytes.extend([0, 2]);
            for field in row {
                match field {
                    None => bytes.extend([0xff; 4]),
                    Some(field) => {
                        bytes.extend((field.len() as u32).to_be_bytes());
                        bytes.extend(field);
                    }
                }
            }
        }
        bytes.extend([0xff; 2]);
        bytes
    }

    fn rows() -> Rows {
        vec![
            [Some(vec![1, 2, 3]), Some(vec![])],
            [None, Some(vec![7; 300])],
            [None, None],
        ]
    }

    fn read<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<Rows, String> {
        let mut copy = BinaryCopy::<2>::new();
        let mut rows = vec![];
        for piece in pieces {
            copy.feed(piece);
            while let Some(row) = copy.next_row()? {
                rows.push(row.map(|field| field.map(<[u8]>::to_vec)));
            }
        }
        copy.finish()?;
        Ok(rows)
    }

    #[test]
    fn rows_are_parsed_wherever_the_pieces_end() {
        let bytes = stream(b"more", &rows());
        assert_eq!(read([&bytes[..]]), Ok(rows()));
        assert_eq!(read(bytes.chunks(1)), Ok(rows()));
        for cut in 0..=bytes.len() {
            assert_eq!(
                read([&bytes[..cut], &bytes[cut..]]),
                Ok(rows()),
                "cut at {cut}"
            );
        }
        assert_eq!(read([&stream(b"", &vec![])[..]]), Ok(vec![]));
    }

    #[test]
    fn truncated_stream_is_refused() {
        let bytes = stream(b"", &rows());
        for end in 0..bytes.len() {
            assert!(read([&bytes[..end]]).is_err(), "end at {end}");
        }
        assert!(
            read([&bytes[..], b"x"])
                .unwrap_err()
                .contains("after the end")
        );
    }

    #[test]
    fn invalid_stream_is_refused_with_the_value() {
        let whole = stream(b"", &rows());
        let changed = |at: usize, bytes: &[u8]| {
            let mut changed = whole.clone();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            read([&changed[..]]).unwrap_err()
        };
        assert!(changed(0, b"p").contains("not in binary COPY format"));
        assert!(changed(11, &[0, 1, 0, 0]).contains("0x10000"));
        assert!(changed(15, &[0xff; 4]).contains("header extension of 4294967295 bytes"));
        assert!(changed(19, &[0, 3]).contains("3 fields, expected 2"));
        assert!(changed(19, &[0xff, 0xfe]).contains("-2 fields"));
        assert!(changed(21, &[0xff, 0xff, 0xff, 0xfe]).contains("field length -2"));
        assert!(changed(21, &[0x7f, 0xff, 0xff, 0xff]).contains("length 2147483647"));
    }
}
