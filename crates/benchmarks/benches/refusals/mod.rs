//! Rejecting invalid input of two sizes: the cost per byte must not grow with the size.

use std::collections::BTreeMap;
use std::fmt::Write;

use nutfilter::internals::{SimdLevel, Strategy};
use nutfilter::{Filter, IndexInterval, Params, RawValues, SeekIndex, SortedHashes};
use nutfilter_cashu::FilterResponse;

/// Lengths in bytes. Even the smaller one outweighs the constant cost of a call.
const SIZES: [(&str, usize); 2] = [("64k", 64 << 10), ("1m", 1 << 20)];

/// The largest cost of a byte of the larger input, in percent of one of the smaller input.
const ALLOWED: f64 = 125.0;

/// A name, and a function that makes the input and the call that rejects it.
type Refusal = (&'static str, fn(usize, SimdLevel) -> Box<dyn FnMut()>);

/// Bits of a filter, at each level.
const OF_BITS: [Refusal; 8] = [
    ("ones-p0", |len, level| {
        // One run of ones: it stays in range until the bits end.
        bits(vec![0xff; len], 1, params(0, u64::from(u32::MAX)), level)
    }),
    ("ones", |len, level| {
        let n = len as u64 * 8 * 100 / 2_050;
        bits(vec![0xff; len], n, Params::CASHU, level)
    }),
    ("zeros-p0", |len, level| {
        let n = len as u64 * 8 - 9;
        bits(vec![0; len], n, params(0, u64::from(u32::MAX)), level)
    }),
    ("zeros", |len, level| {
        let n = len as u64 * 8 / 20 - 1;
        bits(vec![0; len], n, Params::CASHU, level)
    }),
    ("last-byte", |len, level| {
        let (bytes, n) = damaged(honest(len));
        bits(bytes, n, Params::CASHU, level)
    }),
    ("last-byte-of-equal-differences", |len, level| {
        // A reader that starts in the middle cannot find the start of an item.
        let n = (len * 8 / 21) as u64;
        let values: Vec<u64> = (1..=n).map(|i| i * (Params::CASHU.m() - 1)).collect();
        let filter = Filter::from_values(&values, Params::CASHU).expect("a filter");
        let (bytes, n) = damaged((filter.into_bytes(), n));
        bits(bytes, n, Params::CASHU, level)
    }),
    ("last-byte-looked-up", |len, level| {
        let (bytes, n) = damaged(honest(len));
        matched(bytes, n, Strategy::Lookup, level)
    }),
    ("last-byte-merged", |len, level| {
        let (bytes, n) = damaged(honest(len));
        matched(bytes, n, Strategy::Merge, level)
    }),
];

/// JSON and indexes, which do not depend on the level.
const OF_BYTES: [Refusal; 8] = [
    ("json-depth", |len, _| {
        text(format!(r#"{{"x":{}"#, "[".repeat(len)))
    }),
    ("json-lists", |len, _| {
        text(format!(r#"{{"x":[{}1]"#, "[],".repeat(len / 3)))
    }),
    ("json-repeated-members", |len, _| {
        text(format!(r#"{{{}"n":1,"n":1}}"#, r#""x":1,"#.repeat(len / 6)))
    }),
    ("json-long-string", |len, _| {
        text(format!(r#"{{"n":"{}"}}"#, r"\u0041".repeat(len / 6)))
    }),
    ("json-no-end", |len, _| {
        text(format!(r#"{{"content":"{}"#, "A".repeat(len)))
    }),
    ("base64-last-letter", |len, _| {
        text(response(&format!("{}-", "A".repeat(len - 1))))
    }),
    ("base64-escaped-last-letter", |len, _| {
        text(response(&format!(r"{}\u0041-", r"\/".repeat(len / 2 - 1))))
    }),
    ("index-last-byte", |len, _| {
        let (bytes, n) = honest(len);
        let filter = Filter::parse_with(RawValues, bytes, n, Params::CASHU).expect("a filter");
        // Three items per entry: about as many bytes as the filter.
        let mut bytes = SeekIndex::build(&filter, IndexInterval::Items(3)).to_bytes();
        *bytes.last_mut().expect("a checksum") ^= 1;
        Box::new(move || assert!(SeekIndex::from_bytes(&bytes).is_err()))
    }),
];

fn params(p: u32, m: u64) -> Params {
    Params::new(p, m).expect("within the limits")
}

/// A valid filter of about `len` bytes, and N.
fn honest(len: usize) -> (Vec<u8>, u64) {
    let n = (len * 8 / 21) as u64;
    let set = SortedHashes::<nutfilter::Nut25>::from_items((0..n).map(u64::to_le_bytes));
    let filter = set.encode(Params::CASHU).expect("a filter");
    (filter.into_bytes(), n)
}

/// The same with one byte too many, which is noticed only after everything else.
fn damaged((mut bytes, n): (Vec<u8>, u64)) -> (Vec<u8>, u64) {
    bytes.push(1);
    (bytes, n)
}

fn bits(bytes: Vec<u8>, n: u64, params: Params, level: SimdLevel) -> Box<dyn FnMut()> {
    Box::new(move || {
        let admitted =
            Filter::check_length_with(RawValues, &bytes[..], n, params).expect("by its length");
        assert!(admitted.with_level(level).validate().is_err());
    })
}

fn matched(bytes: Vec<u8>, n: u64, strategy: Strategy, level: SimdLevel) -> Box<dyn FnMut()> {
    let targets: Vec<u64> = (0..100)
        .map(|i| i * (n * Params::CASHU.m() / 100))
        .collect();
    Box::new(move || {
        let admitted = Filter::check_length_with(RawValues, &bytes[..], n, Params::CASHU);
        let admitted = admitted.expect("by its length").with_level(level);
        assert!(admitted.matches_values_by(strategy, &targets).is_err());
    })
}

fn text(json: String) -> Box<dyn FnMut()> {
    Box::new(move || assert!(FilterResponse::from_json(json.as_bytes()).is_err()))
}

/// A response whose count fits its content, so that the content is decoded.
fn response(content: &str) -> String {
    let n = content.len() * 3 / 4 * 4;
    format!(r#"{{"n":{n},"p":0,"m":16,"content":"{content}","timestamp":1}}"#)
}

/// Makes each call once through `counted` and prints the name of its row.
pub(crate) fn count(levels: &[&str], counted: fn(&mut dyn FnMut())) {
    let once = |name: &str, level: SimdLevel, make: fn(usize, SimdLevel) -> Box<dyn FnMut()>| {
        for (size, len) in SIZES {
            counted(&mut *make(len, level));
            println!("refuse/{name}/{size}/{level}");
        }
    };
    for level in SimdLevel::available().filter(|level| levels.contains(&level.name())) {
        for (name, make) in OF_BITS {
            once(name, level, make);
        }
    }
    for (name, make) in OF_BYTES {
        let level = SimdLevel::available().next().expect("the plain one");
        once(name, level, make);
    }
}

/// Removes the rows of rejected inputs from `counts`. Returns a report of their cost per byte at both sizes, and whether
/// one of them costs too much.
pub(crate) fn judge(counts: &mut BTreeMap<String, u64>) -> (String, bool) {
    let (mut report, mut failed) = (String::new(), false);
    let [(small, small_len), (large, large_len)] = SIZES;
    let names: Vec<String> = counts
        .keys()
        .filter(|name| name.starts_with("refuse/"))
        .cloned()
        .collect();
    for name in names
        .iter()
        .filter(|name| name.contains(&format!("/{small}/")))
    {
        let other = name.replace(&format!("/{small}/"), &format!("/{large}/"));
        let each = |name: &String, len: usize| counts[name] as f64 / len as f64;
        let (before, after) = (each(name, small_len), each(&other, large_len));
        let too_much = after * 100.0 > before * ALLOWED;
        failed |= too_much;
        let mark = if too_much { "  NOT LINEAR" } else { "" };
        let _ = writeln!(report, "{before:>12.3} {after:>12.3} a byte   {name}{mark}");
    }
    counts.retain(|name, _| !names.contains(name));
    let _ = writeln!(
        report,
        "{} refusals, at {small} and {large}",
        names.len() / 2
    );
    (report, failed || names.is_empty())
}
