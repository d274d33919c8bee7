//! Filters of Bitcoin blocks against the `bitcoin` crate: what both make, what both read, and what they answer.
//!
//! That crate's reader is the more lenient one. It does not look at padding, at what follows the last value, or at
//! values beyond the range, and takes a count that is cut or not minimal for 0. So the comparison goes one way:
//! what is accepted here it reads, to the same answers.

use std::sync::OnceLock;

use arbitrary::Arbitrary;
use bitcoin::bip158::{BlockFilter, BlockFilterReader, GcsFilterReader, GcsFilterWriter};
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::{Amount, Block, BlockHash, Network, OutPoint, ScriptBuf, TxIn, TxOut, Txid};
use nutfilter::bip158::{self, FilterHash, FilterHeader};
use nutfilter::{DecodeErrorKind, Filter, Params, SipHash};

use crate::{is_long, seeded};

/// A filter by its items or its bytes, with damage.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// What the filter is of: see `Form`; by the fifth bit, whether it is compared or read; by the highest three,
    /// what is asked: see `Case::asks`.
    pub form: u8,
    /// P, for other filters than the basic one.
    pub p: u8,
    /// M, likewise.
    pub m: u32,
    /// What the key is made of.
    pub key: u8,
    /// How many scripts stand before those that are spelled out: modulo 4 for most cases, modulo 512 for one in 64
    /// of the long ones.
    pub count: u16,
    /// Bytes of the serialised filter that are changed: where, and what is exclusive-ored in.
    pub changes: [(u16, u8); 2],
    /// How many bytes of it are cut off.
    pub cut: u8,
    /// Scripts, one after another: a byte for the length of each (modulo 40), then its bytes. Or the filter itself.
    pub bytes: &'a [u8],
}

/// What a case is about, by the lowest two bits of its form.
enum Form {
    /// The filter of a block with these scripts.
    Block,
    /// These scripts, or other items, with any parameters.
    Items,
    /// These bytes.
    Bytes,
}

impl Case<'_> {
    /// Builds or reads, and compares.
    ///
    /// # Panics
    ///
    /// Where the two crates disagree about what both accept.
    pub fn check(&self) {
        let form = match self.form % 8 {
            0 => Form::Block,
            1..=4 => Form::Items,
            _ => Form::Bytes,
        };
        match form {
            Form::Block => self.check_block(),
            Form::Items => self.check_items(),
            Form::Bytes => {
                let params = self.params();
                let queries: Vec<&[u8]> = self.bytes.chunks(3).take(3).collect();
                self.check_read(self.bytes, params, &queries);
            }
        }
    }

    /// Whether this of four questions is asked: one of them, as each takes as long as all that comes before it, or
    /// all in a long input that says so.
    fn asks(&self, what: u8) -> bool {
        self.asks_all() || self.form >> 5 & 3 == what
    }

    fn asks_all(&self) -> bool {
        self.form >> 5 == 7 && is_long::<Self>(self.bytes)
    }

    fn check_items(&self) {
        let scripts = self.scripts();
        let params = self.params();
        let (k0, k1) = self.keys();
        let mut theirs = Vec::new();
        let mut writer = GcsFilterWriter::new(&mut theirs, k0, k1, params.m(), params.p() as u8);
        scripts.iter().for_each(|script| writer.add_element(script));
        let written = writer.finish().expect("memory takes everything");
        assert_eq!(written, theirs.len(), "{self:?}");
        if self.asks_all() || self.form & 16 == 0 {
            // That crate leaves out what is empty; here it is an item like any other.
            let some = scripts.iter().filter(|script| !script.is_empty());
            let ours = bip158::build_with(self.hasher(), some, params).expect("a small set");
            assert_eq!(bip158::serialize(&ours), theirs, "{self:?}");
        }
        if self.asks_all() || self.form & 16 != 0 {
            self.damage(&mut theirs);
            let queries: Vec<&[u8]> = scripts.iter().rev().take(3).map(Vec::as_slice).collect();
            self.check_read(&theirs, params, &queries);
        }
    }

    fn damage(&self, bytes: &mut Vec<u8>) {
        for (at, change) in self.changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= change;
        }
        if self.form & 8 == 0 {
            bytes.truncate(bytes.len() - usize::from(self.cut).min(bytes.len()));
        } else {
            bytes.extend(seeded::bytes(self.cut.into(), usize::from(self.cut % 12)));
        }
    }

    /// Reads these bytes with both.
    fn check_read(&self, bytes: &[u8], params: Params, queries: &[&[u8]]) {
        let parsed = match params == bip158::PARAMS {
            true => bip158::parse(self.hasher(), bytes),
            false => bip158::parse_with(self.hasher(), bytes, params),
        };
        let filter = match parsed {
            Ok(filter) => filter,
            Err(error) => {
                // Whatever is wrong, there are words for it.
                assert!(!self.asks(1) || !error.to_string().is_empty());
                // Not read by the other one, for it multiplies N by M without looking: an N of 2^64 - 1 is a
                // panic with overflow checks, and another F without.
                if let Some(n) = count(bytes)
                    && n > u64::from(u32::MAX)
                {
                    assert_eq!(error.kind(), DecodeErrorKind::BadParameter, "{self:?}");
                }
                return;
            }
        };
        assert_eq!(bip158::serialize(&filter), bytes, "{self:?}");
        assert_eq!(Some(u64::from(filter.n())), count(bytes), "{self:?}");
        self.check_answers(&filter, bytes, queries);
    }

    /// Asks both. Nothing in the other crate's reader overflows now: N and M are below 2^32, and P is at most 32,
    /// with which a sum beyond 64 bits takes half a gigabyte. It takes its time, bit by bit, and goes through all of
    /// the filter for each question.
    fn check_answers(&self, filter: &Filter<'_, SipHash>, bytes: &[u8], queries: &[&[u8]]) {
        let theirs = Theirs::new(self, filter.params(), bytes);
        let one = |query: &[u8]| match self.key & 1 {
            0 => theirs.any(&[query]),
            _ => theirs.all(&[query]),
        };
        let first = match (self.asks_all(), queries.len()) {
            (true, _) | (_, 0) => 0,
            (false, queries) => usize::from(self.cut) % queries,
        };
        let few = if self.asks_all() { 3 } else { 1 };
        let ours = match self.asks(0) || self.asks(3) {
            true => filter.matches(queries),
            false => Vec::new(),
        };
        if self.asks(0) {
            for (query, &found) in queries.iter().zip(&ours).skip(first).take(few) {
                assert_eq!(one(query), found, "{query:?}: {self:?}");
            }
        }
        if self.asks(1) {
            for query in queries.iter().skip(first).take(few) {
                assert_eq!(filter.contains(query), one(query), "{query:?}: {self:?}");
            }
        }
        if self.asks(2) {
            let any = theirs.any(queries);
            assert_eq!(filter.match_any(queries), any, "{self:?}");
        }
        if self.asks(3) {
            assert_eq!(!ours.contains(&false), theirs.all(queries), "{self:?}");
        }
    }

    fn check_block(&self) {
        let scripts = self.scripts();
        let created = scripts.len().min(usize::from(self.cut));
        let (created, spent) = scripts.split_at(created);
        let previous: Vec<ScriptBuf> = spent.iter().cloned().map(ScriptBuf::from_bytes).collect();
        let block = block(u32::from(self.key), created, previous.len());
        let theirs = BlockFilter::new_script_filter(&block, |spent: &OutPoint| {
            Ok(previous[spent.vout as usize].as_script())
        });
        let theirs = theirs.expect("every script is there");
        let ours = bip158::block_filter(&block, &previous).expect("a small block");
        assert_eq!(bip158::serialize(&ours), theirs.content, "{self:?}");
        if self.asks(0) {
            let hash = block.block_hash();
            let read = bip158::parse(SipHash::from_block_hash(hash.as_ref()), &theirs.content);
            assert_eq!(read.as_ref(), Ok(&ours), "{self:?}");
            let some = scripts.iter().take(if self.asks_all() { 6 } else { 1 });
            for script in some {
                let found = theirs.match_any(&hash, [script.as_slice()].into_iter());
                assert_eq!(ours.contains(script), found.expect("a filter"), "{self:?}");
            }
        }
        if self.asks(1) {
            let one_more = [previous.as_slice(), &[ScriptBuf::new()]].concat();
            assert!(bip158::block_filter(&block, &one_more).is_err(), "{self:?}");
        }
        if self.asks(2) {
            let before = FilterHeader::hash(&[self.key]);
            let header = theirs.filter_header(&before);
            assert_eq!(bip158::filter_header(&ours, &before), header, "{self:?}");
            let hash = FilterHash::hash(&theirs.content);
            assert_eq!(bip158::filter_hash(&ours), hash, "{self:?}");
        }
        if self.asks(3) {
            let items: Vec<&[u8]> = bip158::block_items(&block, &previous).collect();
            let all = theirs.match_all(&block.block_hash(), items.iter().copied());
            assert!(all.expect("a filter"), "{self:?}");
            assert!(ours.matches(&items).iter().all(|&found| found), "{self:?}");
        }
    }

    /// Some of a rule, with repeats, empty ones and such as begin with OP_RETURN; then those that are spelled out.
    fn scripts(&self) -> Vec<Vec<u8>> {
        let count = match self.count {
            count @ 0xfc00.. if is_long::<Self>(self.bytes) => count % 512,
            count => count % 4,
        };
        let by_rule = seeded::numbers(u64::from(self.count)).take(count.into());
        let by_rule = by_rule.map(|number| match number % 16 {
            0 => Vec::new(),
            1 => vec![0x6a, number as u8 >> 4],
            _ => seeded::bytes(number >> 4 & 0x3ff, 25),
        });
        let mut scripts: Vec<Vec<u8>> = by_rule.collect();
        let mut rest = self.bytes;
        while let Some((&length, others)) = rest.split_first() {
            let (script, others) = others.split_at(usize::from(length % 40).min(others.len()));
            scripts.push(script.to_vec());
            rest = others;
        }
        scripts
    }

    /// The basic filter's, or others that code in little space.
    fn params(&self) -> Params {
        if self.p < 128 {
            return bip158::PARAMS;
        }
        let p = u32::from(self.p) % 33;
        let most = 1_u64 << (p + 6).min(32);
        Params::new(p, (u64::from(self.m) % most).max(1)).expect("within the limits")
    }

    fn block_hash(&self) -> BlockHash {
        BlockHash::from_byte_array([self.key; 32])
    }

    fn hasher(&self) -> SipHash {
        SipHash::from_block_hash(self.block_hash().as_ref())
    }

    fn keys(&self) -> (u64, u64) {
        let word = u64::from_le_bytes([self.key; 8]);
        (word, word)
    }
}

/// The other crate's readers.
struct Theirs<'a> {
    basic: Option<BlockFilterReader>,
    general: GcsFilterReader,
    bytes: &'a [u8],
}

impl<'a> Theirs<'a> {
    fn new(case: &Case<'_>, params: Params, bytes: &'a [u8]) -> Self {
        let (k0, k1) = case.keys();
        let basic = params == bip158::PARAMS;
        Self {
            basic: basic.then(|| BlockFilterReader::new(&case.block_hash())),
            general: GcsFilterReader::new(k0, k1, params.m(), params.p() as u8),
            bytes,
        }
    }

    fn any(&self, queries: &[&[u8]]) -> bool {
        let queries = queries.iter().copied();
        match &self.basic {
            Some(reader) => reader.match_any(&mut { self.bytes }, queries),
            None => self.general.match_any(&mut { self.bytes }, queries),
        }
        .expect("a filter that was accepted here")
    }

    fn all(&self, queries: &[&[u8]]) -> bool {
        let queries = queries.iter().copied();
        match &self.basic {
            Some(reader) => reader.match_all(&mut { self.bytes }, queries),
            None => self.general.match_all(&mut { self.bytes }, queries),
        }
        .expect("a filter that was accepted here")
    }
}

/// The count in front, by that crate's reading of it.
fn count(bytes: &[u8]) -> Option<u64> {
    let count = bitcoin::consensus::deserialize_partial::<bitcoin::VarInt>(bytes);
    count.ok().map(|(count, _)| count.0)
}

/// A block whose coinbase creates half of the scripts, and whose other transaction the rest and spends `spent`
/// outputs, whose scripts go by their number.
fn block(nonce: u32, created: &[Vec<u8>], spent: usize) -> Block {
    static GENESIS: OnceLock<Block> = OnceLock::new();
    let mut block = GENESIS
        .get_or_init(|| genesis_block(Network::Regtest))
        .clone();
    block.header.nonce = nonce;
    let output = |script: &Vec<u8>| TxOut {
        value: Amount::from_sat(1),
        script_pubkey: ScriptBuf::from_bytes(script.clone()),
    };
    let (first, second) = created.split_at(created.len() / 2);
    let mut transaction = block.txdata[0].clone();
    block.txdata[0].output = first.iter().map(output).collect();
    if spent > 0 || !second.is_empty() {
        transaction.output = second.iter().map(output).collect();
        let input = |number| TxIn {
            previous_output: OutPoint::new(Txid::from_byte_array([7; 32]), number),
            ..TxIn::default()
        };
        transaction.input = (0..spent as u32).map(input).collect();
        block.txdata.push(transaction);
    }
    block
}
