//! Seeds of the targets other than those of filters: cases by hand, as the bytes that `arbitrary` makes them of again.

use std::fs;
use std::path::Path;

use arbitrary::{Arbitrary, Unstructured};
use nutfilter::gcs::{FilterHash, FilterHeader, HEAD_BYTES, seal};
use nutfilter::segment::Universe;
use nutfilter::{Params, SipHash, SortedHashes};
use nutfilter_cashu::FilterResponse;
use nutfilter_harness::{
    TARGETS, bip158, blocks, gcs_file, hashing, keyset_path, lists, pieces, segments,
    sequence_file, sort_merge, store_file, wallet_files,
};
use nutfilter_reference::{Noise, encode_values};

pub(crate) fn write(root: &Path) {
    hashing_seeds(root);
    sort_merge_seeds(root);
    response_seeds(root);
    bip158_seeds(root);
    store_file_seeds(root);
    keyset_path_seeds(root);
    segment_seeds(root);
    block_seeds(root);
    sequence_file_seeds(root);
    list_seeds(root);
    piece_seeds(root);
    gcs_file_seeds(root);
    wallet_file_seeds(root);
}

/// The fields of a case in their order, all but the last one, which takes what is left.
#[derive(Clone, Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn word(self, word: u64) -> Self {
        self.bytes(&word.to_le_bytes())
    }
}

/// Writes a seed of `case`, if its bytes make the case again, and it holds.
fn check_and_write<'a, C>(root: &Path, target: &str, name: &str, case: &C, bytes: &'a [u8])
where
    C: Arbitrary<'a> + core::fmt::Debug,
{
    let again = C::arbitrary_take_rest(Unstructured::new(bytes)).expect("enough bytes");
    assert_eq!(format!("{again:?}"), format!("{case:?}"), "{target}/{name}");
    write_bytes(root, target, name, bytes);
}

fn write_bytes(root: &Path, target: &str, name: &str, bytes: &[u8]) {
    let known = TARGETS.iter().find(|known| known.name == target);
    (known.expect("a target").replay)(bytes);
    let folder = root.join(target);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), bytes).expect("a file");
}

fn hashing_seeds(root: &Path) {
    let run = |width, count| hashing::Run { width, count };
    // 255 of a count is more than the widest kernel takes, 232 is 71.
    let runs = [
        ("points", [run(33, 255), run(33, 9), run(0, 1)]),
        ("few", [run(33, 1), run(33, 0), run(32, 2)]),
        ("short", [run(7, 240), run(8, 240), run(16, 240)]),
        ("empty", [run(0, 9), run(0, 255), run(33, 8)]),
        ("around-64", [run(63, 232), run(64, 232), run(65, 232)]),
        ("mixed", [run(48, 8), run(20, 7), run(100, 225)]),
        ("long", [run(253, 8), run(254, 8), run(255, 8)]),
        ("kilobyte", [run(251, 225), run(252, 224), run(253, 7)]),
    ];
    for (way, (name, runs)) in (0..).zip(runs) {
        for profile in 0..4 {
            let case = hashing::Case {
                // Each hash in each way, twice.
                profile: profile | ((profile + way) % 4) << 2 | (way & 4) << 2,
                level: u8::MAX,
                offset: profile * 5,
                places: [0, -1, 1, -40][usize::from(profile)],
                range: [784_931 * 70, u64::MAX, 0, 1 << 63][usize::from(profile)],
                key: [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908],
                runs,
                bytes: b"some bytes, over and over, with a period of 53 in all",
            };
            let mut fields = Fields::default()
                .bytes(&[case.profile, case.level, case.offset, case.places as u8])
                .word(case.range)
                .word(case.key[0])
                .word(case.key[1]);
            for run in case.runs {
                fields = fields.bytes(&[run.width, run.count]);
            }
            let bytes = fields.bytes(case.bytes).0;
            check_and_write(root, "hashing", &format!("{name}-{profile}"), &case, &bytes);
        }
    }
}

fn sort_merge_seeds(root: &Path) {
    let shape = |rule, size, at| sort_merge::Shape {
        rule,
        size,
        seed: rule,
        at,
    };
    let usual = [shape(0, 40, 0), shape(1, 2, 0), shape(0, 9, 0)];
    let cases = [
        ("few", 0, 0, [0; 3], usual),
        ("few-otherwise", 0, 0x0d, [0; 3], usual),
        (
            "kernels",
            253,
            1,
            [3, 0, 0],
            [shape(0, 2999, 0), shape(0, 300, 0), shape(1, 7, 0)],
        ),
        (
            "passes",
            253,
            2,
            [2, 1, 3],
            [shape(0, 3000, 0), shape(0, 2999, 0), shape(1, 2500, 0)],
        ),
        (
            "plain",
            255,
            4,
            [1, 2, 0],
            [shape(0, 9999, 0), shape(1, 900, 0), shape(0, 1, 0)],
        ),
        (
            "floats",
            255,
            8,
            [15, 0, 0],
            [
                shape(0, 10_000, 0),
                shape(0, 0, 0),
                shape(5, 9000, 77 << 50),
            ],
        ),
        (
            "equal",
            255,
            1,
            [0; 3],
            [
                shape(3, 10_000, 5),
                shape(3, 1000, u64::MAX),
                shape(3, 30, 0),
            ],
        ),
        (
            "one-bucket",
            255,
            8,
            [7, 7, 0],
            [
                shape(2, 9500, 20),
                shape(2, 9500, (9 << 58) + 44),
                shape(4, 9500, 0xff00_1234),
            ],
        ),
        (
            "ascending",
            253,
            5,
            [0; 3],
            [
                shape(6, 3000, 1 << 50),
                shape(7, 3000, u64::MAX),
                shape(6, 3000, 0x9e37_79b9_7f4a_7c15),
            ],
        ),
    ];
    let ways = [
        ("hashes", 0),
        ("items", 2),
        ("collected", 3),
        ("records", 4),
        ("passes", 6),
    ];
    let all = cases.iter().flat_map(|case| ways.map(|way| (case, way)));
    for (&(name, scale, order, parts, shapes), (way, bits)) in all {
        let case = sort_merge::Case {
            p: 200,
            m: 784_931,
            order: order | bits << 4,
            way: u8::MAX,
            scale,
            parts,
            exchanged: 7,
            shapes,
            hashes: &[0xff; 24],
        };
        let mut fields = Fields::default()
            .bytes(&[case.p])
            .bytes(&case.m.to_le_bytes())
            .bytes(&[case.order, case.way, case.scale])
            .bytes(&case.parts)
            .bytes(&case.exchanged.to_le_bytes());
        for shape in shapes {
            fields = fields
                .bytes(&[shape.rule])
                .bytes(&shape.size.to_le_bytes())
                .bytes(&[shape.seed])
                .word(shape.at);
        }
        check_and_write(
            root,
            "sort_merge",
            &format!("{name}-{way}"),
            &case,
            &fields.bytes(case.hashes).0,
        );
    }
}

const SHORT_RESPONSES: [(&str, &str); 6] = [
    (
        "empty",
        r#"{"n":0,"p":19,"m":784931,"content":"","timestamp":0}"#,
    ),
    (
        "one",
        r#"{"n":1,"p":19,"m":784931,"content":"AAAA","timestamp":1767225600}"#,
    ),
    ("missing", r#"{"n":1,"content":"AAAA","timestamp":1}"#),
    (
        "nulls",
        r#"{"n":1,"p":null,"m":null,"content":["AAAA"],"timestamp":1}"#,
    ),
    ("escapes", r#"{"n":1,"content":"\/\u0041AA","timestamp":1}"#),
    (
        "unknown",
        r#"{"x":[1,-2,3.5e7,"text",{"y":[true,false,null]}],"n":8,"p":0,"m":3,"content":"AA==","timestamp":18446744073709551615}"#,
    ),
];

fn response_seeds(root: &Path) {
    let set = SortedHashes::from_items((0..12_u8).map(|i| [i; 33]));
    let encoded = |p, m| {
        let params = Params::new(p, m).expect("within the limits");
        let filter = set.encode(params).expect("a small set");
        FilterResponse::new(&filter, 1_767_225_600).to_json()
    };
    let usual = encoded(19, 784_931);
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        usual.replacen('{', &format!(r#"{{"x":{open}{close},"#), 1)
    };
    let with = |from: &str, to: &str| usual.replacen(from, to, 1);
    let texts = [
        ("usual", usual.clone()),
        ("widest", encoded(32, u64::from(u32::MAX))),
        ("unary", encoded(0, 1)),
        ("null-p", with(r#""p":19"#, r#""p":null"#)),
        ("no-p", with(r#""p":19,"#, "")),
        ("no-m", with(r#""m":784931,"#, "")),
        ("twice", with(r#""p":19,"#, r#""p":19,"p":19,"#)),
        ("twice-and-wrong", with(r#""p":19,"#, r#""m":78.4,"p":19,"#)),
        ("p-256", with(r#""p":19"#, r#""p":256"#)),
        ("p-33", with(r#""p":19"#, r#""p":33"#)),
        ("m-0", with("784931", "0")),
        ("m-large", with("784931", "4294967296")),
        ("n-large", with(r#""n":12"#, r#""n":18446744073709551615"#)),
        ("n-larger", with(r#""n":12"#, r#""n":18446744073709551616"#)),
        ("n-negative", with(r#""n":12"#, r#""n":-12"#)),
        ("n-fraction", with(r#""n":12"#, r#""n":12.0"#)),
        ("n-exponent", with(r#""n":12"#, r#""n":1e3"#)),
        ("n-quoted", with(r#""n":12"#, r#""n":"12""#)),
        ("time-last", with("1767225600", "18446744073709551615")),
        ("nested", nested(100)),
        ("nested-deep", nested(3000)),
        (
            "nested-objects",
            with(
                "{",
                &format!("{{\"x\":{}1{},", "{\"y\":".repeat(126), "}".repeat(126)),
            ),
        ),
        ("surrogate", with(r#""content":""#, r#""content":"\ud800"#)),
        ("url-alphabet", with(r#""content":""#, r#""content":"-_-_"#)),
        ("marked", format!("\u{feff}{usual}")),
        ("followed", format!("{usual} 1")),
    ];
    let texts = texts.iter().map(|(name, text)| (*name, text.as_str()));
    for (name, text) in texts.chain(SHORT_RESPONSES) {
        write_bytes(root, "response", &format!("{name}.json"), text.as_bytes());
    }
}

fn bip158_seeds(root: &Path) {
    let scripts: &[u8] = b"\x02\x6a\x01\x19\x76\xa9\x1401234567890123456789\x88\xac\x00\x03abc\x16\x00\x1401234567890123456789\x00\x03abc";
    // A filter by itself under the key of the case.
    let hasher = SipHash::from_block_hash(&[9; 32]);
    let filter = nutfilter::bip158::build(hasher, [b"abc", b"def", b"ghi"]).expect("a small set");
    let filter = nutfilter::bip158::serialize(&filter);
    // Name, form, P, count, cut, bytes.
    type Row<'a> = (&'a str, u8, u8, u16, u8, &'a [u8]);
    let cases: [Row<'_>; 10] = [
        ("block", 0, 0, 3, 4, scripts),
        ("block-large", 0, 0, 0xfcff, 100, scripts),
        ("block-empty", 0, 0, 0, 0, b""),
        ("items", 1, 0, 5, 0, scripts),
        ("items-254", 1, 0, 0xfcfe, 0, scripts),
        ("items-cut", 1, 0, 3, 1, scripts),
        ("items-longer", 9, 0, 3, 2, scripts),
        ("items-unary", 1, 132, 5, 0, scripts),
        ("filter", 5, 0, 0, 0, &filter),
        (
            "count",
            5,
            0,
            0,
            0,
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00",
        ),
    ];
    // Every question: in one long case, or in as many short ones as there are questions.
    let asking = |bytes: &[u8]| match bytes.len() {
        49.. => 7..8,
        _ => 0..4,
    };
    let all = cases
        .iter()
        .flat_map(|case| asking(case.5).map(move |asked| (case, asked)));
    for (&(name, form, p, count, cut, bytes), asked) in all {
        let form = form | asked << 5;
        let case = bip158::Case {
            form,
            p,
            m: 77,
            key: 9,
            count,
            changes: [(0, 0), (3, u8::from(name == "items-longer"))],
            cut,
            bytes,
        };
        let mut fields = Fields::default()
            .bytes(&[form, p])
            .bytes(&case.m.to_le_bytes())
            .bytes(&[case.key])
            .bytes(&count.to_le_bytes());
        for (at, change) in case.changes {
            fields = fields.bytes(&at.to_le_bytes()).bytes(&[change]);
        }
        let name = match asked {
            7 => name.to_owned(),
            _ => format!("{name}-{asked}"),
        };
        let bytes = fields.bytes(&[cut]).bytes(bytes).0;
        check_and_write(root, "bip158", &name, &case, &bytes);
    }
}

fn store_file_seeds(root: &Path) {
    let edit = |file, what, at, with| store_file::Edit {
        file,
        what,
        at,
        with,
    };
    let none = edit(0, 0, 0, 0);
    let last = u64::MAX;
    let junk: &[u8] = b"run 0000000000000007 3\n";
    // A copy of the third run that has the last number of all, in its name, its header and the list.
    let last_id = [
        edit(0, 12, 0, last),
        edit(4, 3, 2, last),
        edit(0, 15, 20, last),
    ];
    let cases: [(&str, u8, [u8; 3], store_file::Edit); 22] = [
        ("last-number", 7, [5, 3, 2], none),
        ("empty", 0, [0; 3], none),
        ("whole", 0, [5, 11, 7], none),
        ("one-block", 0, [241, 0, 0], none),
        ("blocks", 0, [255, 242, 243], none),
        ("list-changed", 0, [5, 3, 0], edit(0, 0, 30, 1)),
        ("list-cut", 0, [5, 3, 0], edit(0, 5, 60, 0)),
        ("list-repaired", 1, [5, 3, 0], edit(0, 0, 100, 1)),
        ("list-with-junk", 1, [5, 3, 0], edit(0, 7, 74, 0)),
        ("list-twice", 1, [5, 3, 0], edit(0, 13, 2, 2)),
        ("run-last-id", 1, [5, 3, 0], edit(0, 15, 2, last)),
        ("run-another", 3, [5, 3, 0], edit(0, 14, 2, 4 << 32 | 2)),
        ("magic", 0, [5, 3, 0], edit(1, 0, 6, 1)),
        ("version", 2, [5, 3, 0], edit(1, 3, 1, 2)),
        ("items", 3, [5, 3, 0], edit(1, 3, 3, last)),
        ("mark", 2, [5, 3, 0], edit(1, 3, 4, 9)),
        ("hash", 0, [5, 3, 0], edit(1, 4, 10, 1)),
        ("hash-repaired", 6, [5, 3, 0], edit(1, 3, 12, last)),
        ("unsorted", 6, [5, 3, 0], edit(1, 3, 9, last)),
        ("exchanged", 0, [5, 5, 0], edit(1, 9, 0, 2)),
        ("block-moved", 6, [255, 255, 0], edit(1, 10, 1, 2)),
        ("gone", 0, [5, 3, 0], edit(1, 11, 0, 0)),
    ];
    for (name, repaired, runs, first) in cases {
        // In memory, reading in all ways; and in a directory.
        for (form, place) in [(0xe0, "memory"), (0xef, "directory")] {
            let case = store_file::Case {
                form,
                repaired,
                note: 3 * u8::from(repaired != 0),
                runs,
                seed: 6,
                edits: match name {
                    "last-number" => last_id,
                    _ => [first, none, none],
                },
                junk,
            };
            let mut fields = Fields::default()
                .bytes(&[form, repaired, case.note])
                .bytes(&runs)
                .bytes(&[case.seed]);
            for edit in case.edits {
                fields = fields
                    .bytes(&[edit.file, edit.what])
                    .bytes(&edit.at.to_le_bytes())
                    .word(edit.with);
            }
            check_and_write(
                root,
                "store_file",
                &format!("{name}-{place}"),
                &case,
                &fields.bytes(junk).0,
            );
        }
    }
}

fn keyset_path_seeds(root: &Path) {
    let second = "01".to_owned() + &"aB".repeat(32);
    let texts = [
        ("version-1", "009a1f293253e41e"),
        ("version-2", &second),
        ("legacy", "I2yN+iRYfk/T"),
        ("legacy-url", "I2yN-iRYfk_T"),
        ("legacy-slashes", "////++++____"),
        ("up", "../../v1/inf"),
        ("encoded", "I2yN%2BRYfk%2FT"),
        ("accent", "009a1f293253e4\u{e9}"),
        ("nul", "00\0a1f293253e41"),
        ("nothing", ""),
    ];
    for (name, text) in texts {
        for (changed, how) in [(None, "same"), (Some((3, b'-')), "changed")] {
            let case = keyset_path::Case {
                kind: text.len() as u8,
                respelled: 0xa5a5,
                changed,
                text,
            };
            let mut fields = Fields::default()
                .bytes(&[case.kind])
                .bytes(&case.respelled.to_le_bytes())
                .bytes(&[u8::from(changed.is_some())]);
            if let Some((at, to)) = changed {
                fields = fields.bytes(&[at, to]);
            }
            let bytes = fields.bytes(text.as_bytes()).0;
            check_and_write(root, "keyset_path", &format!("{name}-{how}"), &case, &bytes);
        }
    }
}

fn segment_seeds(root: &Path) {
    let write = |name: &str, case: segments::Case<'_>| {
        let bytes = Fields::default()
            .bytes(&[case.width, case.folded, case.way])
            .bytes(&case.n.to_le_bytes())
            .bytes(&[case.p, case.crowded])
            .bytes(case.bytes)
            .0;
        check_and_write(root, "segments", name, &case, &bytes);
    };
    let sets = segments::Case {
        width: 32,
        folded: 12,
        way: 1,
        n: 0x0811,
        p: 0,
        crowded: 0,
        bytes: &noise(8 * 24),
    };
    write("sets", sets);
    write(
        "crowded",
        segments::Case {
            crowded: 44,
            ..sets
        },
    );
    write("narrow", segments::Case { width: 0, ..sets });
    write("widest", segments::Case { width: 48, ..sets });
    write("no-values", segments::Case { bytes: &[], ..sets });
    let values: Vec<u64> = (0..40_u64).map(|i| i * i * 977).collect();
    let universe = Universe::new(40).expect("a width in range");
    let code = encode_values(&values, universe.remainder_bits(40));
    let code = segments::Case {
        way: 0,
        n: 40,
        bytes: &code,
        ..sets
    };
    write("code", code);
    write("other-p", segments::Case { p: 1, ..code });
    write("one-more", segments::Case { n: 41, ..code });
    write(
        "repeated",
        segments::Case {
            n: 2,
            bytes: &[0; 10],
            ..code
        },
    );
}

fn block_seeds(root: &Path) {
    let write = |name: &str, case: blocks::Case<'_>| {
        let fields = [case.way, case.width, case.folded, case.inserted];
        let bytes = Fields::default().bytes(&fields).bytes(case.bytes).0;
        check_and_write(root, "blocks", name, &case, &bytes);
    };
    let elements = blocks::Case {
        way: 1,
        width: 9,
        folded: 2,
        inserted: 4,
        bytes: &noise(32 * 6),
    };
    write("elements", elements);
    write(
        "full",
        blocks::Case {
            width: 0,
            ..elements
        },
    );
    write(
        "bitmap",
        blocks::Case {
            way: 0,
            bytes: &noise(64),
            ..elements
        },
    );
    write(
        "no-bitmap",
        blocks::Case {
            way: 0,
            bytes: &noise(63),
            ..elements
        },
    );
}

fn sequence_file_seeds(root: &Path) {
    let write = |name: String, file, what, at: u16, repaired, bytes: &[u8]| {
        let case = sequence_file::Case {
            file,
            what,
            at,
            repaired,
            bytes,
        };
        let head = [&[file, what][..], &at.to_le_bytes(), &[repaired]].concat();
        let fields = Fields::default().bytes(&head).bytes(bytes).0;
        check_and_write(root, "sequence_file", &name, &case, &fields);
    };
    // A file of each kind, by its number in the order of the names.
    for (kind, file) in [
        ("block", 1),
        ("journal", 4),
        ("inbox", 5),
        ("known", 6),
        ("older-manifest", 10),
        ("manifest", 13),
        ("part", 14),
        ("segment", 15),
    ] {
        for (what, name) in [(0, "flipped"), (1, "cut"), (2, "longer"), (4, "empty")] {
            for repaired in [0, 1] {
                let bytes: &[u8] = if what == 2 { &[0; 32] } else { &[] };
                let name = format!("{kind}-{name}-{repaired}");
                write(name, file, what, 90, repaired, bytes);
            }
        }
    }
    // Large numbers in the state, with the right checksum.
    for (name, at) in [
        ("universe", 61),
        ("commits", 74),
        ("number", 97),
        ("start", 242),
        ("until", 266),
        ("sealed", 406),
        ("opened", 417),
        ("width", 430),
        ("count", 440),
    ] {
        write(format!("state-{name}"), 20, 2, at * 8, 1, b"99999999999");
    }
}

fn list_seeds(root: &Path) {
    let manifest = br#"{"version":1,"kind":"proof_state","states":["SPENT"],"w":36,"number":0,"previous":null,"time":9,"segments":[{"start":0,"end":9,"n":0,"length":24,"sha256":"0000000000000000000000000000000000000000000000000000000000000000"},{"start":0,"end":4,"n":0,"length":24,"sha256":"0000000000000000000000000000000000000000000000000000000000000000"},{"start":4,"end":9,"n":0,"length":24,"sha256":"0000000000000000000000000000000000000000000000000000000000000000"}]}"#;
    let info = br#"{"b":20,"timeout":3600,"open_interval":60,"blocks":[{"start":0,"end":5},{"start":5,"end":null}]}"#;
    let nested: Vec<u8> = (0..7).flat_map(|at| [0, 70 - at, at]).collect();
    for (name, way, since, bytes) in [
        ("manifest", 0, 4, &manifest[..]),
        ("blocks", 1, 0, info),
        ("intervals", 2, 7, &[0, 9, 1, 0, 4, 2, 4, 5, 3, 9, 2, 4]),
        ("gap", 2, 0, &[0, 4, 1, 5, 4, 1]),
        ("overlap", 2, 0, &[0, 4, 1, 3, 4, 1]),
        ("six-levels", 2, 65, &nested[..18]),
        ("seven-levels", 2, 0, &nested),
    ] {
        let case = lists::Case { way, since, bytes };
        let head = [&[way][..], &since.to_le_bytes()].concat();
        let fields = Fields::default().bytes(&head).bytes(bytes).0;
        check_and_write(root, "lists", name, &case, &fields);
    }
}

fn piece_seeds(root: &Path) {
    for (name, more, at, to) in [
        ("whole", 0, 0, 0),
        ("too-few", 1, 0, 0),
        ("n", 0, 8 * 20, 255),
        ("items", 0, 8 * 24, 255),
        ("first", 0, 8 * 32, 255),
        ("last", 0, 8 * 45, 1),
        ("bits", 0, 8 * 53, 255),
        ("code", 0, 8 * 56, 0xff),
    ] {
        for (p, m) in [(192, 0), (0, 1), (32, u32::MAX)] {
            let bytes = noise(8 * 24);
            let case = pieces::Case {
                p,
                m,
                more,
                at,
                to,
                bytes: &bytes,
            };
            let fields = Fields::default()
                .bytes(&[p])
                .bytes(&m.to_le_bytes())
                .bytes(&[more])
                .bytes(&at.to_le_bytes())
                .bytes(&[to])
                .bytes(&bytes)
                .0;
            check_and_write(root, "pieces", &format!("{name}-{p}"), &case, &fields);
        }
    }
}

/// Pseudorandom bytes.
fn noise(bytes: usize) -> Vec<u8> {
    Noise(1).flat_map(u64::to_le_bytes).take(bytes).collect()
}

fn gcs_file_seeds(root: &Path) {
    let write = |name: &str, framed, bytes: &[u8]| {
        let case = gcs_file::Case { framed, bytes };
        let fields = Fields::default().bytes(&[framed]).bytes(bytes).0;
        check_and_write(root, "gcs_file", name, &case, &fields);
    };
    let filter = SortedHashes::from_items(["a", "b", "c"]).encode(Params::CASHU);
    let filter = filter.expect("a filter");
    let header = FilterHeader {
        hash: FilterHash::Nut25,
        params: filter.params(),
        n: u64::from(filter.n()),
        timestamp: 1_800_000_000,
        key_check: 0,
    };
    let head = header.to_bytes();
    let contents = [&head[HEAD_BYTES..], filter.bytes()].concat();
    write("three", 1, &contents);
    write("truncated", 1, &contents[..20]);
    write("one-bit-too-many", 1, &[&contents[..], &[0]].concat());
    for (name, place, value) in [("hash", 0, 9), ("p", 1, 64), ("n", 6, 255)] {
        let mut wrong = contents.clone();
        wrong[place] = value;
        write(name, 1, &wrong);
    }
    let mut file = [&head[..], filter.bytes()].concat();
    write("without-checksum", 0, &file);
    seal(&mut file);
    write("whole", 0, &file);
}

fn wallet_file_seeds(root: &Path) {
    let write = |name: &str, way, flip: u16, max: u16, bytes: &[u8]| {
        let case = wallet_files::Case {
            way,
            flip,
            max,
            bytes,
        };
        let head = [&[way][..], &flip.to_le_bytes(), &max.to_le_bytes()].concat();
        let fields = Fields::default().bytes(&head).bytes(bytes).0;
        check_and_write(root, "wallet_files", name, &case, &fields);
    };
    let file = nutfilter_wallet::internals::cache_file(&[7; 32], 5, b"{}");
    write("cache", 0, 0, 99, &file);
    write("cache-cut", 0, 0, 99, &file[..70]);
    write("cache-too-large", 0, 0, 1, &file);
    for (name, flip) in [
        ("magic", 0),
        ("checksum", 99),
        ("length", 321),
        ("body", 705),
    ] {
        write(name, 1, flip, 99, b"{}");
    }
    let bookmark = |position: &str| {
        format!(
            r#"{{"version":1,"mint":"http://m","kind":"blind_signature","candidates":"c","reported":{{"00":{{"open":1,"settled":true}}}},{position}}}"#
        )
    };
    let sealed = r#"{"start":0,"end":9,"sha256":null}"#;
    let open = r#"{"height":1,"bits":"AAAAAAAAAAAAAAAAAAAAAA=="}"#;
    let blocks = format!(r#""format":"blocks","blocks":[{sealed}],"open":{open}"#);
    write("blocks", 2, 0, 0, bookmark(&blocks).as_bytes());
    let segments = r#""format":"segments","manifest":"{}""#;
    write("segments", 2, 0, 0, bookmark(segments).as_bytes());
}
