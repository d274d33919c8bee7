//! Replays a year of events with the real codecs, and prints what each format of state filters costs.
//!
//! ```sh
//! cargo run --release -p nutfilter-cashu --example simulate -- [--rate EVENTS_PER_SECOND] [--days DAYS]
//!     [--sync SECONDS] [--refresh SECONDS] [--candidates COUNT] [--states COUNT] [--block-width B] [--widths W,W,...]
//! cargo run --release -p nutfilter-cashu --example simulate -- --merges VALUES,VALUES,...
//! ```
//!
//! With `--merges`, only merges segments of so many values each, in memory. Prints one JSON object. Times are of one thread. Events come at a steady rate, and their elements are random.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::str::FromStr;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use nutfilter::segment::{Segment, Universe};
use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::state_filters::manifest::{Level, REQUEST_BYTES, cheapest_cover, hash};
use nutfilter_cashu::state_filters::{
    Block, BlockInfo, BlockInterval, Element, Event, Manifest, ManifestSegment, Positions,
};
use serde_json::{Value, json};
use xorf::{BinaryFuse16, Filter as _};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Options {
    rate: u64,
    days: u64,
    sync: u64,
    refresh: u64,
    candidates: u64,
    states: u64,
    block_width: u32,
    widths: Vec<u32>,
    merges: Vec<u64>,
}

impl Options {
    fn events(&self) -> u64 {
        self.days * 86_400 * self.rate
    }

    fn lookups(&self) -> u64 {
        self.candidates * self.states
    }
}

fn main() -> Result<()> {
    let options = options()?;
    if !options.merges.is_empty() {
        let merges = options
            .merges
            .iter()
            .flat_map(|&n| MERGED.map(|parts| merge(parts, n)));
        let merges = merges.collect::<Result<Vec<_>>>()?;
        println!(
            "{:#}",
            json!({"machine": machine(), "width": 36, "merges": merges})
        );
        return Ok(());
    }
    let mut segments = Vec::new();
    for &width in &options.widths {
        segments.push(replay(&options, Universe::new(width)?)?);
    }
    let record = json!({
        "machine": machine(),
        "rate": options.rate, "days": options.days, "events": options.events(),
        "sync": options.sync, "refresh": options.refresh, "lookups": options.lookups(),
        "blocks": blocks(&options)?,
        "segments": segments,
        "per_keyset": per_keyset(&options)?,
        "fuse16_per_block": fuse(&options)?,
    });
    println!("{record:#}");
    Ok(())
}

fn options() -> Result<Options> {
    let mut options = Options {
        rate: 1,
        days: 365,
        sync: 3_600,
        refresh: 60,
        candidates: 10_000,
        states: 2,
        block_width: 21,
        widths: vec![33, 36, 40, 48],
        merges: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--rate" => options.rate = value.parse()?,
            "--days" => options.days = value.parse()?,
            "--sync" => options.sync = value.parse()?,
            "--refresh" => options.refresh = value.parse()?,
            "--candidates" => options.candidates = value.parse()?,
            "--states" => options.states = value.parse()?,
            "--block-width" => options.block_width = value.parse()?,
            "--widths" => options.widths = list(&value)?,
            "--merges" => options.merges = list(&value)?,
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    Ok(options)
}

fn list<T: FromStr>(text: &str) -> std::result::Result<Vec<T>, T::Err> {
    text.split(',').map(str::parse).collect()
}

/// The hash of event `number`: a bijection whose outputs look random.
fn event(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn element(number: u64) -> Element {
    let mut element = [0; 32];
    element[..8].copy_from_slice(&event(number).to_be_bytes());
    element[8..16].copy_from_slice(&number.to_be_bytes());
    element
}

/// The numbers of elements that are never inserted.
fn others(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|number| u64::MAX / 3 + number)
}

fn nanoseconds(since: Instant, count: u64) -> f64 {
    since.elapsed().as_nanos() as f64 / count.max(1) as f64
}

/// The draft: every block of the period, and a wallet that follows it.
fn blocks(options: &Options) -> Result<Value> {
    let (width, events, lookups) = (options.block_width, options.events(), options.lookups());
    let capacity = u64::from(Block::capacity(width)?);
    let candidates = others(lookups).map(|number| Positions::of(&element(number)));
    let candidates: Vec<_> = candidates.collect();
    let (mut storage, mut chance, mut matches, mut sealed) = (0, 0.0, 0, 0_u64);
    let (mut inserting, mut testing) = (0.0, 0.0);
    for first in (0..events).step_by(capacity as usize) {
        let count = capacity.min(events - first);
        let elements: Vec<_> = (first..first + count).map(element).collect();
        let started = Instant::now();
        let mut block = Block::new(width)?;
        elements.iter().for_each(|element| block.insert(element));
        inserting += started.elapsed().as_nanos() as f64;
        let started = Instant::now();
        let found = candidates.iter().filter(|&&one| block.may_contain_at(one));
        matches += found.count();
        testing += started.elapsed().as_nanos() as f64;
        chance += block.false_positive_rate();
        storage += block.as_bytes().len();
        sealed += 1;
    }
    // A follower downloads the list and the open block each time, and every block once more when it is sealed.
    let interval = |height: u64| BlockInterval {
        start: height * capacity / options.rate,
        end: (height < sealed).then_some((height + 1) * capacity / options.rate),
    };
    let info = BlockInfo {
        b: width,
        timeout: 604_800,
        open_interval: Some(options.refresh),
        blocks: (0..=sealed).map(interval).collect(),
    };
    let syncs = 86_400.0 / options.sync as f64;
    let block = (1_u64 << width) as f64 / 8.0;
    let sealed_a_day = 86_400.0 * options.rate as f64 / capacity as f64;
    let list = gzipped(&info.to_json())? as f64;
    Ok(json!({
        "width": width, "capacity": capacity, "count": sealed,
        "block_bytes": block, "storage": storage,
        "chance_per_lookup": chance,
        "cold_restore": {
            "bytes": storage, "expected_false": chance * lookups as f64, "found_false": matches,
        },
        "follow_a_day": {
            "bytes": (block + list) * syncs + block * sealed_a_day,
            "of_which_open_blocks": block * syncs, "of_which_list_gzip": list * syncs,
        },
        "insert_ns": inserting / events as f64,
        "test_ns": testing / (lookups * sealed) as f64,
    }))
}

/// A published segment.
struct Published {
    listed: ManifestSegment,
    segment: Segment,
}

impl Published {
    fn new(start: u64, end: u64, segment: Segment) -> Self {
        let file = segment.to_bytes();
        let listed = ManifestSegment {
            start,
            end,
            n: segment.n(),
            length: file.len() as u64,
            sha256: hash(&file),
        };
        Self { listed, segment }
    }
}

/// The totals of the merges of one level.
#[derive(Clone, Copy, Default)]
struct Merges {
    count: u64,
    values: u64,
    bytes: u64,
    nanoseconds: f64,
}

/// The cover, and the parts that are still listed.
struct Sequence {
    universe: Universe,
    cover: Vec<Published>,
    /// With the time until which they are listed.
    parts: Vec<(ManifestSegment, u64)>,
    merges: [Merges; Level::ALL.len()],
}

impl Sequence {
    /// Merges what is finished, by the rule of `crates/sequence`.
    fn compact(&mut self) -> Result<()> {
        let now = self.cover.last().map_or(1, |last| last.listed.end);
        for (level, merges) in Level::ALL.into_iter().zip(&mut self.merges) {
            let unit = |one: &Published| (one.listed.end - 1) / level.seconds();
            let current = (now - 1) / level.seconds();
            // Everything before was merged when it was finished.
            let end = self.cover.partition_point(|one| unit(one) < current);
            let Some(finished) = self.cover[..end].last().map(unit) else {
                break;
            };
            let start = self.cover[..end].partition_point(|one| unit(one) < finished);
            if end - start < 2 {
                continue;
            }
            let parts: Vec<_> = self.cover.drain(start..end).collect();
            let interval = (parts[0].listed.start, parts[parts.len() - 1].listed.end);
            let until = now + level.grace();
            self.parts
                .extend(parts.iter().map(|one| (one.listed, until)));
            let segments: Vec<_> = parts.into_iter().map(|one| one.segment).collect();
            let started = Instant::now();
            let union = Segment::merge(&segments)?;
            merges.nanoseconds += started.elapsed().as_nanos() as f64;
            merges.count += 1;
            merges.values += u64::from(union.n());
            let merged = Published::new(interval.0, interval.1, union);
            merges.bytes += merged.listed.length;
            self.cover.insert(start, merged);
        }
        self.parts.retain(|(_, until)| *until > now);
        Ok(())
    }

    fn manifest(&self, number: u64, time: u64) -> Manifest {
        let parts = self.parts.iter().map(|(part, _)| *part);
        let cover = self.cover.iter().map(|one| one.listed);
        let mut segments: Vec<_> = cover.chain(parts).collect();
        segments.sort_by_key(|one| (one.start, std::cmp::Reverse(one.end)));
        Manifest {
            kind: Event::ProofState,
            states: vec!["SPENT"],
            universe: self.universe,
            number,
            previous: Some(hash(&number.to_le_bytes())),
            time,
            segments,
        }
    }
}

/// A wallet that comes at a fixed time after each multiple of its interval.
#[derive(Default)]
struct Follower {
    after: u64,
    bookmark: u64,
    syncs: u64,
    objects: u64,
    segments: u64,
    manifests: u64,
    manifests_gzip: u64,
}

impl Follower {
    fn sync(&mut self, manifest: &Manifest) -> Result<()> {
        let json = manifest.to_json();
        self.manifests += json.len() as u64;
        self.manifests_gzip += gzipped(&json)?;
        for one in cheapest_cover(&manifest.segments, self.bookmark) {
            self.segments += one.length;
            self.objects += 1;
        }
        self.bookmark = manifest.end();
        self.syncs += 1;
        Ok(())
    }

    fn report(&self, sync: u64) -> Value {
        let seconds = (self.syncs * sync).max(1) as f64;
        let a_day = |total: u64| total as f64 * 86_400.0 / seconds;
        json!({
            "seconds_after_the_hour": self.after,
            "bytes": a_day(self.segments + self.manifests_gzip),
            "of_which_segments": a_day(self.segments),
            "of_which_manifest_gzip": a_day(self.manifests_gzip),
            "manifest_plain": a_day(self.manifests),
            "objects": a_day(self.objects),
            "heads_estimated": a_day((self.objects + self.syncs) * REQUEST_BYTES),
        })
    }
}

/// Publishes and compacts the whole period, with followers in its last 31 days.
fn replay(options: &Options, universe: Universe) -> Result<Value> {
    let mut sequence = Sequence {
        universe,
        cover: Vec::new(),
        parts: Vec::new(),
        merges: Default::default(),
    };
    let end = options.days * 86_400;
    let from = end.saturating_sub(31 * 86_400).max(options.sync);
    // At all times between two full hours.
    let mut followers = core::array::from_fn::<_, 12, _>(|i| Follower {
        after: options.sync * i as u64 / 12 + options.refresh,
        ..Follower::default()
    });
    let (mut as_published, mut encoding, mut number) = (0, 0.0, 0);
    let mut time = 0;
    while time < end {
        let next = (time + options.refresh).min(end);
        let hashes = (time * options.rate..next * options.rate)
            .map(event)
            .collect();
        let started = Instant::now();
        let segment = Segment::from_hashes(universe, hashes)?;
        encoding += started.elapsed().as_nanos() as f64;
        let micro = Published::new(time, next, segment);
        as_published += micro.listed.length;
        sequence.cover.push(micro);
        sequence.compact()?;
        (time, number) = (next, number + 1);
        for follower in &mut followers {
            if time < from || (time - follower.after) % options.sync >= options.refresh {
                continue;
            }
            match follower.bookmark {
                0 => follower.bookmark = time,
                _ => follower.sync(&sequence.manifest(number, time))?,
            }
        }
    }
    let compacted: u64 = sequence.cover.iter().map(|one| one.listed.length).sum();
    let manifest = gzipped(&sequence.manifest(number, time).to_json())?;
    let objects = sequence.cover.len();
    let segments: Vec<_> = sequence.cover.into_iter().map(|one| one.segment).collect();
    let started = Instant::now();
    let all = Segment::merge(&segments)?;
    let merging = nanoseconds(started, u64::from(all.n()));
    let chance = all.false_positive_rate();
    drop(segments);
    let candidates: Vec<_> = others(options.lookups()).map(event).collect();
    let file = all.to_bytes();
    let started = Instant::now();
    let matches = Segment::parse(&file)?.matches(&candidates);
    let restoring = started.elapsed().as_secs_f64();
    let block = u64::from(Block::capacity(options.block_width)?);
    let of_block = Segment::from_hashes(universe, (0..block).map(event).collect())?.file_bytes();
    let levels = Level::ALL.into_iter().zip(sequence.merges);
    let merges = levels.map(|(level, merges)| {
        json!({
            "level": format!("{level:?}"), "count": merges.count, "bytes_written": merges.bytes,
            "ns_per_value": merges.nanoseconds / merges.values.max(1) as f64,
            "ms_per_merge": merges.nanoseconds / 1e6 / merges.count.max(1) as f64,
        })
    });
    Ok(json!({
        "width": universe.width(),
        "segment_of_a_block": of_block,
        "storage": {
            "as_published": as_published,
            "by_the_block": of_block as f64 * options.events() as f64 / block as f64,
            "compacted": compacted, "objects": objects, "merged_to_one": file.len(),
        },
        "chance_per_lookup": chance,
        "cold_restore": {
            "bytes": compacted + manifest, "expected_false": chance * candidates.len() as f64,
            "found_false": matches.iter().filter(|found| **found).count(),
            "validate_and_test_seconds": restoring,
        },
        "follow_a_day": followers.map(|follower| follower.report(options.sync)),
        "insert_ns": encoding / options.events() as f64,
        "merge_all_ns_per_value": merging,
        "merges": merges.collect::<Vec<_>>(),
    }))
}

/// Numbers of segments that are merged at once.
const MERGED: [u64; 5] = [2, 12, 24, 60, 100];

/// Merges this many segments of `n` values in memory: decodes, merges, encodes. Median of up to nine runs.
fn merge(parts: u64, n: u64) -> Result<Value> {
    let universe = Universe::new(36)?;
    let part =
        |part| Segment::from_hashes(universe, (part * n..(part + 1) * n).map(event).collect());
    let segments = (0..parts)
        .map(part)
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let bytes: usize = segments.iter().map(Segment::file_bytes).sum();
    let mut times = Vec::new();
    for _ in 0..(50_000_000 / (parts * n)).clamp(3, 9) {
        let started = Instant::now();
        black_box(Segment::merge(&segments)?);
        times.push(nanoseconds(started, parts * n));
    }
    times.sort_by(f64::total_cmp);
    let time = times[times.len() / 2];
    Ok(json!({
        "parts": parts, "values_per_part": n, "ns_per_value": time,
        "ns_per_value_and_level": time / (parts as f64).log2(),
        "read_megabytes_per_second": bytes as f64 * 1e3 / (time * (parts * n) as f64),
    }))
}

/// One filter of all events, as in NUT-25: any change needs a new download.
fn per_keyset(options: &Options) -> Result<Value> {
    let hashes: Vec<_> = (0..options.events()).map(event).collect();
    let started = Instant::now();
    let filter = SortedHashes::from_hashes(hashes).encode(Params::CASHU)?;
    let building = started.elapsed().as_secs_f64();
    let bytes = filter.bytes().len();
    let chance = 1.0 / Params::CASHU.m() as f64;
    Ok(json!({
        "bytes": bytes,
        "chance_per_lookup": chance,
        "cold_restore": {"bytes": bytes, "expected_false": chance * options.lookups() as f64},
        // At the end of the period.
        "follow_a_day": {"bytes": bytes as f64 * 86_400.0 / options.sync as f64},
        "build_seconds": building,
    }))
}

/// Binary fuse filters with fingerprints of 16 bits, one for the events of each block.
fn fuse(options: &Options) -> Result<Value> {
    const TESTS: u64 = 1_000_000;
    let events = u64::from(Block::capacity(options.block_width)?);
    let hashes: Vec<_> = (0..events).map(event).collect();
    let started = Instant::now();
    let filter = BinaryFuse16::try_from(&hashes)?;
    let building = nanoseconds(started, events);
    let bytes = filter.len() as u64 * 2;
    let blocks = options.events() as f64 / events as f64;
    let candidates: Vec<_> = others(TESTS).map(event).collect();
    let started = Instant::now();
    let found = candidates.iter().filter(|one| filter.contains(one)).count();
    let testing = nanoseconds(started, TESTS);
    let chance = blocks / 65_536.0;
    Ok(json!({
        "block_bytes": bytes, "storage": bytes as f64 * blocks,
        "chance_per_lookup": chance,
        "cold_restore": {
            "bytes": bytes as f64 * blocks, "expected_false": chance * options.lookups() as f64,
        },
        "found_rate": black_box(found) as f64 / TESTS as f64,
        "insert_ns": building, "test_ns": testing,
    }))
}

fn gzipped(bytes: &[u8]) -> Result<u64> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len() as u64)
}

fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split(": ").nth(1));
    model.unwrap_or("unknown").to_owned()
}
