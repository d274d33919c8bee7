//! `nutfilter build FILE --input text --format raw` from the fastest crates: memchr for lines, the fastest hash and sort,
//! and dsi-bitstream. It does not check that lines are UTF-8.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use memchr::memchr_iter;
use nutfilter_reference as reference;

use super::best_of_crates::{default_range, write};
use super::sorts_and_hashes::{fastest_sort, mur3_crate};

/// Bytes that are read at once. Larger blocks leave the cache.
const BLOCK: usize = 256 << 10;

/// The filter of a file's lines with the NUT-25 hash, in the bytes that `nutfilter` writes.
pub(crate) fn build_file(path: &Path) -> io::Result<Vec<u8>> {
    build(File::open(path)?)
}

fn build(lines: impl Read) -> io::Result<Vec<u8>> {
    let mut hashes = hashes(lines)?;
    fastest_sort(&mut hashes);
    let (range, p) = default_range(hashes.len() as u64);
    let (mut bits, mut last) = (0, 0);
    let values = hashes.iter().map(|&hash| {
        let value = reference::map(hash, range);
        bits += ((value - last) >> p) as usize + 1 + p;
        last = value;
        value
    });
    let words = write(values, p);
    let mut bytes = Vec::with_capacity(words.len() * 8);
    for word in words {
        bytes.extend_from_slice(&(!word).to_ne_bytes());
    }
    bytes.truncate(bits.div_ceil(8));
    if let Some(end) = bytes.last_mut() {
        *end &= 0xff << (bits.next_multiple_of(8) - bits);
    }
    Ok(bytes)
}

/// The hashes of all lines that are not empty.
fn hashes(mut lines: impl Read) -> io::Result<Vec<u64>> {
    let (mut hashes, mut block, mut filled) = (Vec::new(), vec![0; BLOCK], 0);
    let mut add = |line: &[u8]| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            hashes.push(mur3_crate(line));
        }
    };
    loop {
        if filled == block.len() {
            block.resize(2 * filled, 0);
        }
        let read = lines.read(&mut block[filled..])?;
        if read == 0 {
            add(&block[..filled]);
            return Ok(hashes);
        }
        filled += read;
        let mut start = 0;
        for end in memchr_iter(b'\n', &block[..filled]) {
            add(&block[start..end]);
            start = end + 1;
        }
        block.copy_within(start..filled, 0);
        filled -= start;
    }
}

#[cfg(test)]
mod tests {
    use nutfilter::{Params, SortedHashes};

    use super::*;

    #[test]
    fn the_bytes_are_those_of_nutfilter() {
        for n in [0, 1, 2, 9, 10, 20_000] {
            let items: Vec<String> = (0..n)
                .map(|i| "x".repeat(i % 90) + &i.to_string())
                .collect();
            let text = items.join("\r\n\n") + &"\n".repeat(n % 2);
            let set = SortedHashes::from_items(&items);
            let filter = set.encode(Params::default()).unwrap();
            assert_eq!(build(text.as_bytes()).unwrap(), filter.bytes(), "{n}");
        }
    }
}
