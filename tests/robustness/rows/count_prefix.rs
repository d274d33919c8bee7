//! Filters with their count in front.

use nutfilter::error::DecodeErrorKind::{self, BadParameter, NonCanonical, TooLong, TooShort};

use super::MIB;

/// The rows of a filter with its count in front: bytes, and N or the class.
pub(crate) fn count_prefix_rows() -> Vec<(&'static str, Vec<u8>, Result<u32, DecodeErrorKind>)> {
    let cell = "CompactSize longer than needed; cut; 2^32 and more";
    let mut rows: Vec<(&str, Vec<u8>, Result<u32, DecodeErrorKind>)> = vec![
        ("N = 0 with no bytes", vec![0], Ok(0)),
        ("N = 0 with bytes", vec![0, 0], Err(TooLong)),
        (cell, vec![], Err(TooShort)),
        (cell, vec![0xfd, 0, 0], Err(NonCanonical)),
        (cell, vec![0xfd, 0xfc, 0], Err(NonCanonical)),
        (cell, vec![0xfe, 0xff, 0xff, 0, 0], Err(NonCanonical)),
        (cell, [&[0xff; 5][..], &[0; 4]].concat(), Err(NonCanonical)),
        (cell, vec![0xff; 9], Err(BadParameter)),
        (
            cell,
            [&[0xff; 9][..], &[0; MIB]].concat(),
            Err(BadParameter),
        ),
        (cell, vec![0xff, 0, 0, 0, 0, 1, 0, 0, 0], Err(BadParameter)),
        // 253 items in no bytes.
        (cell, vec![0xfd, 0xfd, 0], Err(TooShort)),
    ];
    for (first, width) in [(0xfd, 2), (0xfe, 4), (0xff, 8)] {
        for given in 0..width {
            rows.push((
                cell,
                [vec![first], vec![0xff; given]].concat(),
                Err(TooShort),
            ));
        }
    }
    // A count of each width that is right.
    for (count, n) in [
        (vec![1], 1),
        (vec![252], 252),
        (vec![0xfd, 253, 0], 253),
        (vec![0xfd, 0x34, 0x12], 0x1234),
        (vec![0xfd, 0xff, 0xff], 65_535),
        (vec![0xfe, 0, 0, 1, 0], 65_536),
        (vec![0xfe, 0x56, 0x34, 0x12, 0], 0x12_3456_u32),
    ] {
        let zeros = vec![0; (n as usize * 20).div_ceil(8)];
        rows.push((
            "zeros of a length that fits N",
            [count, zeros].concat(),
            Ok(n),
        ));
    }
    rows
}
