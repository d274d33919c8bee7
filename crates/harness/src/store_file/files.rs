//! The files of a kept store, written and read by what `src/store` says of them and by none of its code.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nutfilter::{ItemHash, Nut23};
use nutfilter_store::StoreErrorKind;

/// The name of the list.
pub(super) const LIST: &str = "nutfilter-store";

/// What tells one set from another.
pub(super) type Mark = [u64; 3];

const FIRST_LINE: &str = "nutfilter store 1";
const HEADER_BYTES: usize = 64;
const CHECKED: usize = 56;
const BLOCK_BYTES: usize = 4096;
const MAGIC: [u8; 8] = *b"nutrun\r\n";

/// The files of a directory.
pub(super) type Files = BTreeMap<Name, Vec<u8>>;

/// The number of a run, or none: the list.
pub(super) type Name = Option<u64>;

/// The name of a run.
pub(super) fn run_name(id: u64) -> String {
    format!("run-{id:016x}.hashes")
}

/// The name of a file.
pub(super) fn file_name(of: Name) -> String {
    of.map_or_else(|| LIST.to_owned(), run_name)
}

/// The run of this name, if it is one.
pub(super) fn run_of(name: &str) -> Name {
    let digits = name.strip_prefix("run-")?.strip_suffix(".hashes")?;
    let id = u64::from_str_radix(digits, 16).ok()?;
    (run_name(id) == name).then_some(id)
}

/// The files of a store with these runs, each of them sorted.
pub(super) fn written(mark: Mark, note: &[u8], runs: &[Vec<u64>]) -> Files {
    let mut files = Files::new();
    let [first, second, label] = mark;
    let mut list = format!("{FIRST_LINE}\nset {first:016x} {second:016x} {label:016x}\n");
    if !note.is_empty() {
        list += "note ";
        for byte in note {
            let _ = write!(list, "{byte:02x}");
        }
        list += "\n";
    }
    for (id, hashes) in (0..).zip(runs) {
        let _ = writeln!(list, "run {id:016x} {}", hashes.len());
        files.insert(Some(id), run(mark, id, hashes));
    }
    list += "sum ";
    let mut list = list.into_bytes();
    repair_list(&mut list);
    files.insert(None, list);
    files
}

fn run(mark: Mark, id: u64, hashes: &[u64]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let said = [1, id, hashes.len() as u64].into_iter().chain(mark);
    bytes.extend(said.flat_map(u64::to_le_bytes));
    bytes.resize(HEADER_BYTES, 0);
    for block in hashes.chunks(511) {
        for hash in block {
            bytes.extend_from_slice(&hash.to_le_bytes());
        }
        bytes.extend([0; 8]);
    }
    repair_header(&mut bytes);
    repair_blocks(&mut bytes);
    bytes
}

/// Makes the sum right, where there is one.
pub(super) fn repair_list(list: &mut Vec<u8>) {
    if let Some(at) = list.windows(4).rposition(|word| word == b"sum ") {
        list.truncate(at);
        let sum = Nut23.hash(list);
        list.extend_from_slice(format!("sum {sum:016x}\n").as_bytes());
    }
}

/// Makes the checksum of a run's header right, where it has one.
pub(super) fn repair_header(run: &mut [u8]) {
    if let Some(header) = run.first_chunk_mut::<HEADER_BYTES>() {
        let sum = Nut23.hash(&header[..CHECKED]);
        header[CHECKED..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Makes the checksums of a run's blocks right.
pub(super) fn repair_blocks(run: &mut [u8]) {
    let Some((header, blocks)) = run.split_first_chunk_mut::<HEADER_BYTES>() else {
        return;
    };
    let seed = Nut23.hash(header);
    for (number, block) in (0..).zip(blocks.chunks_mut(BLOCK_BYTES)) {
        if let Some((hashes, sum)) = block.split_last_chunk_mut::<8>() {
            *sum = checksum(seed, number, &words(hashes)).to_le_bytes();
        }
    }
}

/// Eight lanes, each a chain of exclusive or, multiplication and rotation; then one over the lanes.
fn checksum(seed: u64, block: u64, hashes: &[u64]) -> u64 {
    let mixed = |lane: u64, word: u64| {
        let product = (lane ^ word).wrapping_mul(0x5851_f42d_4c95_7f2d);
        product.rotate_left(29)
    };
    let first = seed.wrapping_add(block.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let lanes = (0..8_usize).map(|lane| {
        let start = first.rotate_left(8 * lane as u32) ^ lane as u64;
        hashes
            .iter()
            .skip(lane)
            .step_by(8)
            .fold(start, |lane, &hash| mixed(lane, hash))
    });
    let sum = lanes.fold(hashes.len() as u64, mixed);
    sum ^ sum >> 32
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// What the files say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The note of the last commit.
    pub(super) note: Vec<u8>,
    /// How many hashes the list says there are.
    pub(super) items: u64,
    /// The runs in the list.
    pub(super) runs: Vec<u64>,
    /// The hashes of all runs, sorted; an error where a block is damaged, which shows when it is read.
    pub(super) hashes: Result<Vec<u64>, StoreErrorKind>,
}

/// Reads them.
///
/// # Errors
///
/// The class of what is wrong with the list, or with the first run in it whose header or length is.
pub(super) fn said(files: &Files, mark: Mark) -> Result<Said, StoreErrorKind> {
    let list = files.get(&None).ok_or(StoreErrorKind::Io)?;
    let (listed_mark, note, listed) = read_list(list).ok_or(StoreErrorKind::Damaged)?;
    if listed_mark != mark {
        return Err(StoreErrorKind::OtherSet);
    }
    let mut said = Said {
        note,
        items: 0,
        runs: Vec::new(),
        hashes: Ok(Vec::new()),
    };
    for (id, items) in listed {
        let bytes = files.get(&Some(id)).ok_or(StoreErrorKind::Io)?;
        check_header(bytes, id, items, mark)?;
        said.items = said
            .items
            .checked_add(items)
            .ok_or(StoreErrorKind::TooManyItems)?;
        said.runs.push(id);
        match (&mut said.hashes, read_blocks(bytes)) {
            (Ok(all), Some(hashes)) => all.extend(hashes),
            _ => said.hashes = Err(StoreErrorKind::Damaged),
        }
    }
    if let Ok(all) = &mut said.hashes {
        // What is sorted in pieces is merged by this one.
        all.sort();
    }
    Ok(said)
}

type Listed = (Mark, Vec<u8>, Vec<(u64, u64)>);

fn read_list(list: &[u8]) -> Option<Listed> {
    let text = str::from_utf8(list).ok()?;
    let sum = text.rfind("sum ")?;
    if text[sum..] != format!("sum {:016x}\n", Nut23.hash(&list[..sum])) {
        return None;
    }
    let mut lines = text[..sum].lines();
    if lines.next()? != FIRST_LINE {
        return None;
    }
    let number = |digits: &str, radix| {
        let whole = digits.chars().all(|digit| digit.is_digit(radix));
        whole.then(|| u64::from_str_radix(digits, radix).ok())?
    };
    let mut words = lines.next()?.strip_prefix("set ")?.split(' ');
    let mut mark = [0; 3];
    for word in &mut mark {
        *word = number(words.next()?, 16)?;
    }
    let mut lines = lines.peekable();
    let mut note = Vec::new();
    if let Some(digits) = lines.peek().and_then(|line| line.strip_prefix("note ")) {
        for pair in digits.as_bytes().chunks(2) {
            let pair = str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            note.push(number(pair, 16)? as u8);
        }
        lines.next();
    }
    let run = |line: &str| {
        let (id, items) = line.strip_prefix("run ")?.split_once(' ')?;
        // The last number of all leaves none for the next run.
        let id = number(id, 16).filter(|&id| id < u64::MAX)?;
        Some((id, number(items, 10)?))
    };
    Some((mark, note, lines.map(run).collect::<Option<_>>()?))
}

fn check_header(bytes: &[u8], id: u64, items: u64, mark: Mark) -> Result<(), StoreErrorKind> {
    let damaged = StoreErrorKind::Damaged;
    let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(damaged)?;
    let words = words(header);
    if header[..8] != MAGIC || words[1] != 1 || words[7] != Nut23.hash(&header[..CHECKED]) {
        return Err(damaged);
    }
    if words[4..7] != mark {
        return Err(StoreErrorKind::OtherSet);
    }
    let needed = u128::from(items) * 8 + u128::from(items.div_ceil(511)) * 8 + 64;
    if words[2] != id || words[3] != items || needed != bytes.len() as u128 {
        return Err(damaged);
    }
    Ok(())
}

/// The hashes, if all blocks are whole and in order.
fn read_blocks(bytes: &[u8]) -> Option<Vec<u64>> {
    let (header, blocks) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let seed = Nut23.hash(header);
    let mut all = Vec::new();
    for (number, block) in (0..).zip(blocks.chunks(BLOCK_BYTES)) {
        let mut hashes = words(block);
        let sum = hashes.pop()?;
        if sum != checksum(seed, number, &hashes) {
            return None;
        }
        all.extend(hashes);
    }
    all.is_sorted().then_some(all)
}
