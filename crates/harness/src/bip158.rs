//! Compares filters of Bitcoin blocks with the `bitcoin` crate: encoding, decoding, and answers.
//!
//! The decoder of that crate is more lenient. It ignores padding, data after the last value, and values beyond the
//! range, and reads a truncated or non-minimal count as 0. So the comparison has one direction: that crate must
//! decode every filter that is accepted here, and give the same answers.

use std::sync::OnceLock;

use arbitrary::Arbitrary;
use bitcoin::bip158::{
    BlockFilter, BlockFilterReader, FilterHash, FilterHeader, GcsFilterReader, GcsFilterWriter,
};
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::{Amount, Block, BlockHash, Network, OutPoint, ScriptBuf, TxIn, TxOut, Txid};
use nutfilter::bip158::{self, ScanFault, Scratch, Watchlist};
use nutfilter::error::DecodeErrorKind;
use nutfilter::{DecodeError, Filter, Params, SipHash};

use crate::{is_long, levels_of, seeded};

/// A filter given by its items or its bytes, with damage.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// The contents of the filter (modulo 8): a block with these scripts; these scripts, or other items, with any parameters; or
    /// these bytes. The fourth bit selects the damage.
    pub form: u8,
    /// P, for filters other than the basic one.
    pub p: u8,
    /// M, for filters other than the basic one.
    pub m: u32,
    /// The seed of the key.
    pub key: u8,
    /// The number of generated scripts before the given ones: modulo 4 in most cases, modulo 512 in one of 64 long
    /// ones.
    pub count: u16,
    /// Changed bytes of the serialised filter: the place, and the value to exclusive-or.
    pub changes: [(u16, u8); 2],
    /// How many bytes are cut off.
    pub cut: u8,
    /// Scripts, one after another: a byte for the length of each (modulo 40), then its bytes. Or the filter
    /// itself.
    pub bytes: &'a [u8],
}

impl Case<'_> {
    /// Encodes or decodes, and compares.
    pub fn check(&self) {
        match self.form % 8 {
            0 => self.check_block(),
            1..=4 => self.check_items(),
            _ => {
                let queries: Vec<&[u8]> = self.bytes.chunks(3).take(3).collect();
                self.check_read(self.bytes, self.params(), &queries);
            }
        }
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
        // That crate omits empty items; here they are items like any other.
        let some = scripts.iter().filter(|script| !script.is_empty());
        let ours = bip158::build_with(self.hasher(), some, params).expect("a small set");
        assert_eq!(bip158::serialize(&ours), theirs, "{self:?}");
        self.damage(&mut theirs);
        let queries: Vec<&[u8]> = scripts.iter().rev().take(3).map(Vec::as_slice).collect();
        self.check_read(&theirs, params, &queries);
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

    /// Decodes these bytes with both crates.
    fn check_read(&self, bytes: &[u8], params: Params, queries: &[&[u8]]) {
        let parsed = match params == bip158::PARAMS {
            true => bip158::parse(self.hasher(), bytes),
            false => bip158::parse_with(self.hasher(), bytes, params),
        };
        if params == bip158::PARAMS {
            self.check_watchlist(bytes, &parsed, queries);
        }
        let filter = match parsed {
            Ok(filter) => filter,
            Err(error) => {
                // Every error has a text.
                assert!(!error.to_string().is_empty());
                // Do not decode this with the other crate. It multiplies N by M without a check: an N of 2^64 - 1
                // panics with overflow checks, and gives another F without them.
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

    /// A watchlist must give the same error or the same answers as the filter itself.
    fn check_watchlist(
        &self,
        bytes: &[u8],
        parsed: &Result<Filter<impl AsRef<[u8]>, SipHash>, DecodeError>,
        queries: &[&[u8]],
    ) {
        let key = self.hasher();
        let mut list: Watchlist = queries.iter().collect();
        // More scripts than there are items select another strategy.
        let others = seeded::bytes(self.key.into(), usize::from(self.cut) * 24);
        list.extend(others.chunks(24));
        self.check_batch(bytes, &list);
        for level in levels_of(self.key, self.form >> 5 == 7 && is_long::<Self>(self.bytes)) {
            let mut scratch = Scratch::new().with_level(level);
            let any = list.match_any(&mut scratch, key, bytes);
            let found = list.matches(&mut scratch, key, bytes);
            match parsed {
                Ok(filter) => {
                    let mut found = found.expect("a valid filter");
                    found.sort_unstable();
                    let mut scripts: Vec<&[u8]> = list.iter().collect();
                    scripts.sort_unstable();
                    let answers = filter.matches(&scripts);
                    let expected = scripts.iter().zip(answers).filter(|(_, found)| *found);
                    assert!(
                        expected.map(|(script, _)| *script).eq(found.iter().copied()),
                        "{level}: {self:?}"
                    );
                    assert_eq!(any, Ok(!found.is_empty()), "{level}: {self:?}");
                }
                Err(error) => {
                    assert_eq!(any, Err(*error), "{level}: {self:?}");
                    assert_eq!(found, Err(*error), "{level}: {self:?}");
                }
            }
        }
    }

    /// A scan of this filter among others must give what each gives alone.
    fn check_batch(&self, bytes: &[u8], list: &Watchlist) {
        let mut batch: Vec<(SipHash, &[u8])> =
            others().iter().map(|(key, filter)| (*key, filter.as_slice())).collect();
        let at = usize::from(self.cut) % (batch.len() + 1);
        batch.insert(at, (self.hasher(), bytes));
        let mut scratch = Scratch::new();
        let mut expected = Vec::new();
        for &(key, filter) in &batch {
            match list.matches(&mut scratch, key, filter) {
                Ok(scripts) if scripts.is_empty() => {}
                Ok(scripts) => expected.push(Ok((key, scripts))),
                Err(error) => expected.push(Err((key, ScanFault::Invalid(error)))),
            }
        }
        let found = list.scan(&mut scratch, &batch);
        let found = found.into_iter().map(|one| match one {
            Ok(found) => Ok((found.block, found.scripts)),
            Err(error) => Err((error.block, error.fault)),
        });
        assert!(found.eq(expected), "{self:?}");
    }

    /// Looks up items with both crates. Nothing in the other decoder can overflow here: N and M are below 2^32,
    /// and P is at most 32, so that a sum beyond 64 bits needs half a gigabyte. It is slow, because it works bit
    /// by bit and reads the whole filter for each look-up.
    fn check_answers(
        &self,
        filter: &Filter<impl AsRef<[u8]>, SipHash>,
        bytes: &[u8],
        queries: &[&[u8]],
    ) {
        let theirs = Theirs::new(self, filter.params(), bytes);
        let ours = filter.matches(queries);
        for (query, &found) in queries.iter().zip(&ours) {
            let one = match self.key & 1 {
                0 => theirs.any(&[query]),
                _ => theirs.all(&[query]),
            };
            let answers = [found, filter.contains(query)];
            assert_eq!(answers, [one; 2], "{query:?}: {self:?}");
        }
        let any = theirs.any(queries);
        assert_eq!(filter.match_any(queries), any, "{self:?}");
        assert_eq!(!ours.contains(&false), theirs.all(queries), "{self:?}");
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
        let hash = block.block_hash();
        let read = bip158::parse(hash, &theirs.content);
        assert!(read.is_ok_and(|read| read == ours), "{self:?}");
        for script in scripts.iter().take(2) {
            let found = theirs.match_any(&hash, [script.as_slice()].into_iter());
            assert_eq!(ours.contains(script), found.expect("a filter"), "{self:?}");
        }
        let one_more = [previous.as_slice(), &[ScriptBuf::new()]].concat();
        assert!(bip158::block_filter(&block, &one_more).is_err(), "{self:?}");
        let before = FilterHeader::hash(&[self.key]);
        let header = theirs.filter_header(&before);
        let hash = bip158::filter_hash(&theirs.content);
        assert_eq!(hash, FilterHash::hash(&theirs.content).into(), "{self:?}");
        assert_eq!(hash.filter_header(before), header.into(), "{self:?}");
        let items: Vec<&[u8]> = bip158::block_items(&block, &previous).collect();
        let all = theirs.match_all(&block.block_hash(), items.iter().copied());
        assert!(all.expect("a filter"), "{self:?}");
        assert!(ours.matches(&items).iter().all(|&found| found), "{self:?}");
    }

    /// Generated scripts, with duplicates, empty ones and some that begin with OP_RETURN; then the given ones.
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

    /// The parameters of the basic filter, or others with short codes.
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

/// The other crate's decoders.
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

/// The leading count, as decoded by that crate.
fn count(bytes: &[u8]) -> Option<u64> {
    let count = bitcoin::consensus::deserialize_partial::<bitcoin::VarInt>(bytes);
    count.ok().map(|(count, _)| count.0)
}

/// A block whose coinbase creates half of the scripts. Its other transaction creates the rest, and spends `spent`
/// outputs whose scripts depend on their number.
fn block(nonce: u32, created: &[Vec<u8>], spent: usize) -> Block {
    static GENESIS: OnceLock<Block> = OnceLock::new();
    let mut block = GENESIS.get_or_init(|| genesis_block(Network::Regtest)).clone();
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

/// Filters of 60 to 600 items, enough that a scan decodes them side by side.
fn others() -> &'static [(SipHash, Vec<u8>)] {
    static OTHERS: OnceLock<Vec<(SipHash, Vec<u8>)>> = OnceLock::new();
    OTHERS.get_or_init(|| {
        let one = |number: u64| {
            let key = SipHash::new(number, 1);
            let items = seeded::bytes(number, 60 * number as usize * 8);
            let filter = bip158::build(key, items.chunks(8)).expect("a small set");
            (key, bip158::serialize(&filter))
        };
        (1..=10).map(one).collect()
    })
}
