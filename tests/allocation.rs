//! Memory: reading bytes from anybody takes at most twice the input and 64 KiB, whatever they declare.
//!
//! A file of its own with one test, because the counting allocator counts for the whole process.

use nutfilter::{Filter, FilterResponse, Nut25, Params, SipHash, SortedHashes, bip158};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const FIXED: usize = 64 * 1024;

#[test]
fn reading_takes_at_most_twice_the_input_and_64_kib() {
    let small = Params::new(0, u64::from(u32::MAX)).unwrap();
    let honest = SortedHashes::<Nut25>::from_items((0..20_000_u32).map(u32::to_le_bytes))
        .encode(Params::default())
        .unwrap();
    let json = FilterResponse::new(&honest, 1).to_json();
    let ones = vec![0xff_u8; 1 << 20];
    let zeros = vec![0_u8; 1 << 20];

    for (bytes, n, params) in [
        (honest.bytes(), 20_000, Params::default()),
        (honest.bytes(), 20_001, Params::default()),
        (&ones[..3], u64::from(u32::MAX), Params::default()),
        (&ones[..], 410_000, Params::default()),
        (&ones[..], 1, small),
        (&zeros[..], 8 << 20, small),
        (&zeros[..], (8 << 20) + 1, small),
    ] {
        let what = format!("{n} items in {} bytes, {params:?}", bytes.len());
        bounded(&what, bytes.len(), || {
            let _ = Filter::<Nut25>::parse(bytes, n, params);
            let admitted = Filter::<Nut25>::admit(bytes, n, params);
            let _ = admitted.map(|admitted| admitted.matches(&[b"target"]));
        });
    }

    let nested = format!(r#"{{"x": {}"#, "[".repeat(1 << 20));
    let lists = format!(r#"{{"x": [{}1]}}"#, "[],".repeat(1 << 18));
    let huge_count = json.replace(r#""n":20000"#, r#""n":4294967295"#);
    let escaped = json.replace('/', r"\/");
    // Strings where none belong: an error that quotes them writes six characters for each.
    let quoted = format!("\"{}\"", "\u{7f}".repeat(1 << 20));
    let as_member = |name: &str| json.replacen('{', &format!("{{\"{name}\": {quoted}, "), 1);
    let strings = [
        quoted.clone(),
        as_member("n"),
        as_member("p"),
        as_member("content"),
        as_member("timestamp"),
        as_member(&"\u{7f}".repeat(1 << 20)),
    ];
    let texts = [json.clone(), nested, lists, huge_count, escaped];
    // Escapes make a parser copy. Lengths just beyond a power of two are where its buffer is largest.
    let sparse = |every: usize, len: usize| {
        format!("{}{}", "A".repeat(every - 1), r"\/").repeat(len / every)
    };
    let mut long = Vec::new();
    for len in [(1 << 20) + 64, 3_200_000] {
        for every in [2, 1000, 100_000] {
            let text = sparse(every, len);
            long.push(format!(r#"{{"n":1,"content":"{text}","timestamp":1}}"#));
            long.push(format!(r#"{{"n":8,"content":["{text}"],"timestamp":1}}"#));
            long.push(format!(r#"{{"n":1,"{text}":1}}"#));
            long.push(format!(r#"{{"n":1,"x":"{text}"}}"#));
            long.push(format!(r#"{{"n":"{text}"}}"#));
        }
    }
    // A content that fits its numbers, so that it is decoded.
    let fitting = format!(
        r#"{{"n":6291456,"p":0,"m":16,"content":"{}\/A==","timestamp":1}}"#,
        "AAAA".repeat(1 << 19)
    );
    assert!(FilterResponse::from_json(fitting.as_bytes()).is_ok());
    long.push(fitting);
    for text in texts.iter().chain(&strings).chain(&long) {
        let what: String = text.chars().take(60).collect();
        bounded(&what, text.len(), || {
            let _ = FilterResponse::from_json(text.as_bytes());
        });
    }

    let serialized = [&[0xfe, 0xff, 0xff, 0xff, 0xff], &ones[..1000]].concat();
    bounded("a block filter", serialized.len(), || {
        let _ = bip158::parse(SipHash::new(0, 0), &serialized);
    });

    // A counter that counts nothing would have passed all that.
    assert!(peak_of(|| drop(vec![1_u8; 2 * FIXED])) >= 2 * FIXED);
}

fn bounded(what: &str, input: usize, read: impl Fn()) {
    let peak = peak_of(read);
    assert!(
        peak <= 2 * input + FIXED,
        "{what}: {peak} bytes for an input of {input}"
    );
}

fn peak_of(run: impl Fn()) -> usize {
    let profiler = dhat::Profiler::builder().testing().build();
    run();
    let peak = dhat::HeapStats::get().max_bytes;
    drop(profiler);
    peak
}
