//! The whole scan of a light client, with Golomb-coded filters and with binary fuse filters: verify each filter against
//! its filter header, then look for the wallet's scripts. docs/block-filters.md has the question, the method and results.
//!
//!     cargo run --release --manifest-path benches/peers/Cargo.toml --bin block_filters -- DIRECTORY
//!
//! The first run writes filters to DIRECTORY (2.2 GB for 50,000 blocks); later runs read them. All contenders scan a
//! thousand filters in turns, so that a host whose speed changes slows all of them. A figure is CPU time per filter.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bitcoin::BlockHash;
use bitcoin::bip158::BlockFilter;
use bitcoin::hashes::Hash;
use clap::Parser;
use nutfilter::bip158::{self, BlockMatch, HeaderChain, ScanError, Scratch, Watchlist};
use nutfilter::internals::SimdLevel;
use nutfilter::{ItemHash, SipHash, SortedHashes};
use nutfilter_benchmarks::machine::Machine;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::time::{ClockId, clock_gettime};
use xorf::{
    BinaryFuse8, BinaryFuse8Ref, BinaryFuse16, BinaryFuse16Ref, DmaSerializable, Filter, FilterRef,
};

#[derive(Parser)]
struct Options {
    /// Where the filters are, or are written
    directory: PathBuf,
    /// The number of blocks
    #[arg(long, default_value_t = 50_000)]
    filters: usize,
    /// The numbers of scripts
    #[arg(long, value_delimiter = ',', default_value = "24,120,480,1000,20000")]
    scripts: Vec<usize>,
    /// Run only the rows whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Write the record to this file
    #[arg(long)]
    output: Option<PathBuf>,
}

/// P2WPKH: OP_0 and a hash of 20 bytes.
const SCRIPT: usize = 22;
const SCRIPT_BYTES: NonZeroUsize = NonZeroUsize::new(SCRIPT).unwrap();

/// Every hundredth block pays the wallet, so that each contender has something to find.
const PAID: usize = 100;

/// Blocks that all contenders scan in turns.
const TURN: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build; its times mean nothing");
    }
    let blocks: Vec<[u8; 32]> = (0..options.filters).map(block_hash).collect();
    let names = ["gcs", "fuse16", "fuse8"];
    let path = |name: &str| {
        options
            .directory
            .join(format!("{}-{name}", options.filters))
    };
    if !names.iter().all(|name| path(name).exists()) {
        fs::create_dir_all(&options.directory)?;
        make(&blocks, &names.map(path))?;
    }
    let [gcs, fuse16, fuse8] = names.map(|name| Stored::load(&path(name)));
    let (gcs, fuse16, fuse8) = (gcs?, fuse16?, fuse8?);
    let mut rows = Vec::new();
    for &count in &options.scripts {
        let wallet = Wallet::new(count);
        let expected = |found: &[usize]| {
            (0..blocks.len())
                .step_by(PAID)
                .all(|at| found.binary_search(&at).is_ok())
        };
        let mut contenders = contenders(&wallet, &gcs, &fuse16, &fuse8, &blocks);
        contenders.retain(|contender| contender.name.contains(&options.only));
        for start in (0..blocks.len()).step_by(TURN) {
            let turn = start..blocks.len().min(start + TURN);
            for contender in &mut contenders {
                let (cpu, wall) = (cpu_time(), Instant::now());
                (contender.scan)(turn.clone(), &mut contender.found);
                contender.cpu += cpu_time() - cpu;
                contender.wall += wall.elapsed();
            }
        }
        let cpu = cpu_time();
        let lists = if options.only.is_empty() {
            100_000_usize.div_ceil(count)
        } else {
            1
        };
        for _ in 0..lists {
            let list: Watchlist = wallet.scripts.chunks(SCRIPT).collect();
            assert_eq!(list.len(), count);
        }
        let list_ns = (cpu_time() - cpu).as_secs_f64() * 1e9 / (lists * count) as f64;
        println!("\n{count} scripts, {list_ns:.0} ns each for making the list");
        println!("                                   CPU µs  wall µs    bytes  false blocks");
        rows.push(serde_json::json!({ "name": "make-list", "scripts": count, "cpu_ns": list_ns }));
        for contender in contenders {
            let each = |time: Duration| time.as_secs_f64() * 1e6 / blocks.len() as f64;
            let (cpu, wall) = (each(contender.cpu), each(contender.wall));
            let false_blocks = contender.found.iter().filter(|&at| at % PAID != 0).count();
            assert!(
                !contender.finds || expected(&contender.found),
                "{} misses a payment",
                contender.name
            );
            let (name, bytes) = (contender.name, contender.bytes / blocks.len());
            println!("{name:<32} {cpu:>8.2} {wall:>8.2} {bytes:>8} {false_blocks:>6}");
            rows.push(serde_json::json!({
                "name": name, "scripts": count, "cpu_us": cpu, "wall_us": wall, "bytes": bytes, "false_blocks": false_blocks,
            }));
        }
    }
    if let Some(output) = &options.output {
        let record = serde_json::json!({ "machine": Machine::this(), "filters": blocks.len(), "rows": rows });
        fs::write(output, serde_json::to_string_pretty(&record)? + "\n")?;
    }
    Ok(())
}

/// Scans a range of blocks and appends those that match.
type Scan<'a> = Box<dyn FnMut(std::ops::Range<usize>, &mut Vec<usize>) + 'a>;

/// One way to scan.
struct Contender<'a> {
    name: String,
    /// The mean size of its filters, in bytes, times their number.
    bytes: usize,
    /// Whether it reports blocks.
    finds: bool,
    scan: Scan<'a>,
    found: Vec<usize>,
    cpu: Duration,
    wall: Duration,
}

struct Contenders<'a>(Vec<Contender<'a>>);

impl<'a> Contenders<'a> {
    fn add(
        &mut self,
        name: &str,
        bytes: usize,
        finds: bool,
        scan: impl FnMut(std::ops::Range<usize>, &mut Vec<usize>) + 'a,
    ) {
        self.0.push(Contender {
            name: name.to_owned(),
            bytes,
            finds,
            scan: Box::new(scan),
            found: Vec::new(),
            cpu: Duration::ZERO,
            wall: Duration::ZERO,
        });
    }
}

fn contenders<'a>(
    wallet: &'a Wallet,
    gcs: &'a Stored,
    fuse16: &'a Stored,
    fuse8: &'a Stored,
    blocks: &'a [[u8; 32]],
) -> Vec<Contender<'a>> {
    let mut all = Contenders(Vec::new());
    let size = gcs.bytes.len();
    let key = |at: usize| SipHash::from(blocks[at]);
    let given = move |range: std::ops::Range<usize>| {
        let all = range.map(move |at| (at as u32, blocks[at], gcs.filter(at)));
        all.collect::<Vec<_>>()
    };
    type Found<'w> = Result<BlockMatch<'w, (u32, [u8; 32])>, ScanError<(u32, [u8; 32])>>;
    let report = |found: &mut Vec<usize>, block: Found<'_>| {
        found.push(block.expect("a valid filter").block.0 as usize);
    };

    // The whole scan, then its parts.
    for level in SimdLevel::available() {
        all.add(
            &format!("whole/ours/{level}"),
            size,
            true,
            move |range, found| {
                let mut scratch = Scratch::new().with_level(level);
                let blocks = wallet
                    .list
                    .scan_verified(&mut scratch, &gcs.chain, &given(range));
                blocks.into_iter().for_each(|block| report(found, block));
            },
        );
    }
    all.add("whole/ours/all-threads", size, true, move |range, found| {
        let blocks = wallet.list.par_scan_verified(&gcs.chain, &given(range));
        blocks.into_iter().for_each(|block| report(found, block));
    });
    let scripts: Vec<&[u8]> = wallet.scripts.chunks(SCRIPT).collect();
    all.add("whole/rust-bitcoin", size, true, move |range, found| {
        for at in range {
            let filter = BlockFilter::new(gcs.filter(at));
            let header = filter.filter_header(&gcs.previous(at).into());
            assert_eq!(Some(header.into()), gcs.chain.header(at as u32));
            let hash = BlockHash::from_byte_array(blocks[at]);
            if filter
                .match_any(&hash, scripts.iter().copied())
                .expect("a valid filter")
            {
                found.push(at);
            }
        }
    });
    for (name, fuse, wide) in [("fuse16", fuse16, true), ("fuse8", fuse8, false)] {
        let best = Some(SimdLevel::detect());
        let mut hashes_at = vec![
            ("our-hash".to_owned(), best, 1),
            ("siphasher".to_owned(), None, 1),
            ("verified-side-by-side".to_owned(), best, 32),
        ];
        // As on a CPU without the later levels.
        let earlier = SimdLevel::available().filter(|&level| Some(level) != best);
        hashes_at.extend(earlier.map(|level| (format!("our-hash/{level}"), Some(level), 1)));
        for (hash, level, together) in hashes_at {
            let mut hashes = vec![0; wallet.scripts.len() / SCRIPT];
            all.add(
                &format!("whole/{name}/{hash}"),
                fuse.bytes.len(),
                true,
                move |range, found| {
                    for start in range.clone().step_by(together) {
                        let batch = start..range.end.min(start + together);
                        fuse.verify(batch.clone());
                        for at in batch {
                            wallet.hash(&blocks[at], level, &mut hashes);
                            if fuse_matches(fuse.filter(at), &hashes, wide) {
                                found.push(at);
                            }
                        }
                    }
                },
            );
        }
    }
    for (name, together) in [("one-by-one", 1), ("side-by-side", 32)] {
        all.add(
            &format!("part/verify/{name}"),
            size,
            false,
            move |range, _| {
                for start in range.clone().step_by(together) {
                    gcs.verify(start..range.end.min(start + together));
                }
            },
        );
    }
    let none = Watchlist::new();
    all.add("part/verify-and-decode", size, false, move |range, _| {
        let scratch = &mut Scratch::new();
        assert!(
            none.scan_verified(scratch, &gcs.chain, &given(range))
                .is_empty()
        );
    });
    for level in SimdLevel::available() {
        let none = Watchlist::new();
        let mut scratch = Scratch::new().with_level(level);
        all.add(
            &format!("part/decode/{level}"),
            size,
            false,
            move |range, _| {
                for at in range {
                    assert!(
                        !none
                            .match_any(&mut scratch, key(at), gcs.filter(at))
                            .expect("a valid filter")
                    );
                }
            },
        );
        let mut scratch = Scratch::new().with_level(level);
        all.add(
            &format!("part/match/{level}"),
            size,
            true,
            move |range, found| {
                for at in range {
                    let scripts = wallet.list.matches(&mut scratch, key(at), gcs.filter(at));
                    if !scripts.expect("a valid filter").is_empty() {
                        found.push(at);
                    }
                }
            },
        );
    }
    for (hash, level) in [("ours", Some(SimdLevel::detect())), ("siphasher", None)] {
        let mut hashes = vec![0; wallet.scripts.len() / SCRIPT];
        all.add(&format!("part/hash/{hash}"), 0, false, move |range, _| {
            for at in range {
                wallet.hash(&blocks[at], level, &mut hashes);
            }
        });
    }
    all.0
}

/// Whether a binary fuse filter, of 16 or 8 bits, has any of the hashes.
fn fuse_matches(stored: &[u8], hashes: &[u64], wide: bool) -> bool {
    // Every hash is tested, as the other contenders do.
    let (descriptor, fingerprints) = stored.split_at(BinaryFuse16::DESCRIPTOR_LEN);
    let found = if wide {
        let filter = BinaryFuse16Ref::from_dma(descriptor, fingerprints);
        hashes.iter().filter(|hash| filter.contains(hash)).count()
    } else {
        let filter = BinaryFuse8Ref::from_dma(descriptor, fingerprints);
        hashes.iter().filter(|hash| filter.contains(hash)).count()
    };
    found > 0
}

/// Scripts that are looked for. The first one is paid.
struct Wallet {
    scripts: Vec<u8>,
    list: Watchlist,
}

impl Wallet {
    fn new(count: usize) -> Self {
        let mut scripts = paid_script().to_vec();
        let mut random = SmallRng::seed_from_u64(count as u64);
        while scripts.len() < count * SCRIPT {
            scripts.extend_from_slice(&script(&mut random));
        }
        let list = scripts.chunks(SCRIPT).collect();
        Self { scripts, list }
    }

    /// By our code at a level, or the crate siphasher.
    fn hash(&self, block: &[u8; 32], level: Option<SimdLevel>, hashes: &mut [u64]) {
        if let Some(level) = level {
            SipHash::from(*block).hash_records_at(level, &self.scripts, SCRIPT_BYTES, hashes);
        } else {
            let key = *block.first_chunk().expect("16 of 32 bytes");
            let hasher = siphasher::sip::SipHasher24::new_with_key(&key);
            for (script, out) in self.scripts.chunks(SCRIPT).zip(&mut *hashes) {
                *out = hasher.hash(script);
            }
        }
        std::hint::black_box(hashes);
    }
}

fn script(random: &mut SmallRng) -> [u8; SCRIPT] {
    let mut script = [0; SCRIPT];
    script[1] = 20;
    random.fill(&mut script[2..]);
    script
}

fn paid_script() -> [u8; SCRIPT] {
    [7; SCRIPT]
}

fn block_hash(number: usize) -> [u8; 32] {
    SmallRng::seed_from_u64(number as u64).random()
}

/// The number of scripts of a block: about normal around 7,380, so that filters have 19.4 KB on average, as the study
/// measured; one in a hundred is nearly empty. The spread (2,000) is our guess.
fn block_items(random: &mut SmallRng) -> usize {
    if random.random_ratio(1, 100) {
        return random.random_range(1..=20);
    }
    let normal = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    (7_450.0 + 2_000.0 * normal).max(200.0) as usize
}

/// Writes the filters of all kinds, each preceded by its length in 4 bytes and padded to an even length.
fn make(blocks: &[[u8; 32]], paths: &[PathBuf; 3]) -> Result<(), Box<dyn Error>> {
    eprintln!("writing the filters of {} blocks", blocks.len());
    let temporary = paths.each_ref().map(|path| path.with_extension("part"));
    let mut files = Vec::new();
    for path in &temporary {
        files.push(BufWriter::new(fs::File::create(path)?));
    }
    let mut put = |kind: usize, parts: [&[u8]; 2]| -> std::io::Result<()> {
        let len = parts[0].len() + parts[1].len();
        let file = &mut files[kind];
        file.write_all(&(len as u32).to_le_bytes())?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        file.write_all(&[0][..len % 2])
    };
    for (at, block) in blocks.iter().enumerate() {
        let mut random = SmallRng::seed_from_u64(at as u64 + (1 << 32));
        let mut items: Vec<u8> = (0..block_items(&mut random))
            .flat_map(|_| script(&mut random))
            .collect();
        if at % PAID == 0 {
            items.extend_from_slice(&paid_script());
        }
        let key = SipHash::from(*block);
        let set = SortedHashes::builder(key).hash_records(&items, SCRIPT)?;
        put(0, [&bip158::serialize(&set.encode(bip158::PARAMS)?), &[]])?;
        let mut descriptor = [0; BinaryFuse16::DESCRIPTOR_LEN];
        let fuse = BinaryFuse16::try_from(set.as_slice())?;
        fuse.dma_copy_descriptor_to(&mut descriptor);
        put(1, [&descriptor, fuse.dma_fingerprints()])?;
        let fuse = BinaryFuse8::try_from(set.as_slice())?;
        fuse.dma_copy_descriptor_to(&mut descriptor);
        put(2, [&descriptor, fuse.dma_fingerprints()])?;
    }
    for ((mut file, from), to) in files.into_iter().zip(&temporary).zip(paths) {
        file.flush()?;
        fs::rename(from, to)?;
    }
    Ok(())
}

/// The filters of one kind, and the filter headers that commit to them.
struct Stored {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
    chain: HeaderChain,
}

impl Stored {
    fn load(path: &Path) -> Result<Self, Box<dyn Error>> {
        let bytes = fs::read(path)?;
        let mut ends = Vec::new();
        let mut at = 0;
        while let Some(len) = bytes.get(at..at + 4) {
            let len = u32::from_le_bytes(len.try_into()?) as usize;
            ends.push((at + 4, at + 4 + len));
            at += 4 + len + len % 2;
        }
        let mut chain = HeaderChain::new(0, [0; 32]);
        let hashes = ends
            .iter()
            .map(|&(start, end)| bip158::filter_hash(&bytes[start..end]));
        chain.extend_from([0; 32], hashes)?;
        Ok(Self { bytes, ends, chain })
    }

    fn filter(&self, at: usize) -> &[u8] {
        let (start, end) = self.ends[at];
        &self.bytes[start..end]
    }

    /// Verifies filters side by side.
    fn verify(&self, range: std::ops::Range<usize>) {
        let filters = range.map(|at| (at as u32, self.filter(at)));
        let faults = self.chain.verify_all(filters);
        assert!(faults.iter().all(Option::is_none), "a filter is damaged");
    }

    fn previous(&self, at: usize) -> bip158::FilterHeader {
        at.checked_sub(1)
            .and_then(|at| self.chain.header(at as u32))
            .unwrap_or_default()
    }
}

/// The CPU time of all threads of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
