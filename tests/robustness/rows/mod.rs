//! The rows of the table in `docs/format.md` that are bytes with numbers: what comes in, and its class.
//!
//! Held against every way to read a filter (`readers.rs`).

mod count_prefix;
mod numbers;
mod values;

use nutfilter::error::DecodeErrorKind;
use nutfilter::{Params, SortedHashes};
use nutfilter_harness::response::base64;

pub(crate) use count_prefix::count_prefix_rows;

/// An input, and what every way of reading it has to make of it.
#[derive(Clone)]
pub(crate) struct Row {
    /// The cell of the table that it belongs to.
    pub(crate) cell: &'static str,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) n: u64,
    pub(crate) p: u32,
    pub(crate) m: u64,
    pub(crate) class: Result<(), DecodeErrorKind>,
}

impl Row {
    /// The response that carries the row; written here, as the library writes none that is wrong.
    pub(crate) fn json(&self) -> Vec<u8> {
        let (n, p, m) = (self.n, self.p, self.m);
        let content = base64(&self.bytes);
        let json =
            format!(r#"{{"n":{n},"p":{p},"m":{m},"content":"{content}","timestamp":1767225600}}"#);
        json.into_bytes()
    }
}

const P: u32 = 19;
const M: u64 = 784_931;
const LARGEST: u64 = u32::MAX as u64;
const MIB: usize = 1 << 20;

/// All rows of up to a megabyte.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Rows::default();
    rows.counts();
    rows.parameters();
    rows.cuts();
    rows.ranges();
    rows.repeats();
    rows.ends();
    rows.rows
}

/// The rows so far, and the cell of the next ones.
#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    cell: &'static str,
}

impl Rows {
    /// Adds an input for these N, P and M.
    fn push(
        &mut self,
        class: Result<(), DecodeErrorKind>,
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
        (n, p, m): (u64, u32, u64),
    ) {
        self.rows.push(Row {
            cell: self.cell,
            name: name.into(),
            bytes: bytes.into(),
            n,
            p,
            m,
            class,
        });
    }

    fn valid(
        &mut self,
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
        numbers: (u64, u32, u64),
    ) {
        self.push(Ok(()), name, bytes, numbers);
    }

    fn invalid(
        &mut self,
        kind: DecodeErrorKind,
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
        numbers: (u64, u32, u64),
    ) {
        self.push(Err(kind), name, bytes, numbers);
    }
}

/// A filter of so many items, each of 33 bytes.
fn honest(n: u8, p: u32, m: u64) -> Vec<u8> {
    let set = SortedHashes::from_items((0..n).map(|i| [i; 33]));
    let params = Params::new(p, m).expect("within the limits");
    set.encode(params).expect("a small filter").into_bytes()
}
