//! `.gcs` files of filters: what is accepted is written again byte for byte, and its filter is the reference's.

use arbitrary::Arbitrary;
use nutfilter::gcs::GcsHeader;
use nutfilter::{Filter, Nut25};
use nutfilter_reference::decode;

/// Bytes of a file, with or without a valid frame.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Whether head and checksum are made valid (the lowest bit).
    pub framed: u8,
    /// The file, or what follows its head.
    pub bytes: &'a [u8],
}

impl Case<'_> {
    /// Parses the header, then the filter.
    pub fn check(&self) {
        let mut file = self.bytes.to_vec();
        if self.framed % 2 == 1 {
            let head = *b"\x89GCS\r\n\x1a\n\x01\x01";
            file.splice(..0, head);
            seal(&mut file);
        }
        let (header, coded) = match GcsHeader::parse(&file) {
            Ok(parts) => parts,
            Err(error) => {
                let words = error.to_string();
                assert!((1..200).contains(&words.len()), "{words}");
                return;
            }
        };
        let mut again = header.to_bytes().to_vec();
        again.extend_from_slice(coded);
        seal(&mut again);
        assert!(again == file, "{header:?} of another file: {self:?}");
        let (p, m) = (header.params.p(), header.params.m());
        let wanted = decode(coded, header.n, p, m);
        let filter = Filter::parse_with(Nut25, coded, header.n, header.params);
        match (filter, wanted) {
            (Ok(filter), Ok(wanted)) => assert!(filter.values().eq(wanted), "{self:?}"),
            (Err(_), Err(_)) => {}
            (filter, wanted) => panic!("{filter:?}, and by the reference {wanted:?}: {self:?}"),
        }
    }
}

/// Appends the checksum.
fn seal(file: &mut Vec<u8>) {
    file.extend_from_slice(&crc32fast::hash(file).to_le_bytes());
}
