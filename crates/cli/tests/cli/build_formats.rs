//! Input formats (`--input`), the keyed profile, and `.gcs` files.

use crate::nutfilter::{Place, assert_contains, hex, item, lines};

const EMAILS: [&str; 3] = ["alice@example.org", "bob@example.org", "Zoë <z@example.org>"];

fn raw(place: &Place, args: &str, input: &[u8]) -> Vec<u8> {
    let build = "build - --format raw";
    place.run_with(format!("{build} {args}"), input).ok()
}

#[test]
fn input_formats_of_the_same_items_give_the_same_filter() {
    let place = Place::new();
    let join = |line: &dyn Fn(&str) -> String, end: &str| -> String {
        EMAILS.iter().map(|email| line(email) + end).collect()
    };
    let wanted = raw(&place, "", join(&|email| hex(email.as_bytes()), "\n").as_bytes());
    let plain = |email: &str| email.to_owned();
    for (args, input) in [
        ("--input text", join(&plain, "\n")),
        ("--input text", join(&plain, "\r\n\n")),
        ("--input text", "\u{feff}".to_owned() + join(&plain, "\n").trim_end()),
    ] {
        assert!(raw(&place, args, input.as_bytes()) == wanted, "{args:?}: other bytes of {input}");
    }
}

#[test]
fn check_prints_items_as_given() {
    let place = Place::new();
    place.write("items", EMAILS.join("\n"));
    let build = "build items --input text -o f.gcs";
    place.run(build).ok();
    let check = |args: &str, input: &str| {
        let check = "check f.gcs - --quiet";
        let ran = place.run_with(format!("{check} {args}"), input.as_bytes());
        ran.text()
    };
    let alice = EMAILS[0];
    let asked = format!("{alice}\nmallory@example.org\n");
    let told = format!("maybe\t{alice}\nabsent\tmallory@example.org\n");
    assert_eq!(check("--input text", &asked), told);
    let asked = format!("{alice}\nmallory\n");
    let told: serde_json::Value =
        serde_json::from_str(&check("--input text --json", &asked)).expect("JSON");
    let wanted = [
        serde_json::json!({"item": alice, "answer": "maybe"}),
        serde_json::json!({"item": "mallory", "answer": "absent"}),
    ];
    assert_eq!(told["answers"], serde_json::json!(wanted));
}

#[test]
fn first_invalid_item_names_the_other_formats() {
    let place = Place::new();
    let build = |args: &str, input: &[u8]| {
        let ran = place.run_with(format!("build - -o out.gcs {args}"), input);
        ran.error()
    };
    for input in [&b"user@example.org\n"[..], b"\n\x02\xa9\xac", b"id,y\n", b"{\"n\":1}"] {
        let error = build("", input);
        assert_contains(&error, "is not a hex digit; items are lines of hex unless");
        assert_contains(&error, "--input text (lines of text)");
        assert_contains(&error, "--record-bytes LEN");
    }
    // A typing error among valid lines does not change the format.
    let error = build("", b"00ff\n00fg\n");
    assert!(!error.contains("--input"), "{error}");
    place.fails("build - --input csv", "[possible values: hex, text]");
    assert_eq!(place.names(), Vec::<String>::new());
}

#[test]
fn input_that_is_not_text_is_never_hashed_as_lines() {
    let place = Place::new();
    let text = EMAILS.join("\n");
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (name, bytes, wanted) in [
        (
            "items.gz",
            [b"\x1f\x8b\x08\0", text.as_bytes()].concat(),
            "line 1: not UTF-8 text, from column 2 on",
        ),
        (
            "items.zip",
            [b"PK\x03\x04\x14\0", text.as_bytes()].concat(),
            "line 1: a NUL byte in column 6",
        ),
        (
            "utf16-mark",
            [b"\xff\xfe", &utf16[..]].concat(),
            "line 1: UTF-16, not UTF-8; convert it first",
        ),
        ("utf16", utf16, "line 1: UTF-16, not UTF-8; convert it first"),
        (
            "joined",
            "\u{feff}00\n\u{feff}11\n".into(),
            "line 2: a byte-order mark in column 1; remove it where files were joined",
        ),
        ("joined-line", "\u{feff}00\u{feff}11\n".into(), "line 1: a byte-order mark in column 3"),
        ("latin1", b"plain\ncaf\xe9\n".to_vec(), "line 2: not UTF-8 text, from column 4 on"),
    ] {
        place.write(name, bytes);
        place.fails(format!("build {name} --input text -o out.gcs"), wanted);
        let wanted = match name.contains("utf16") {
            true => "line 1: UTF-16, not UTF-8",
            false => "is not a hex digit",
        };
        place.fails(format!("build {name} -o out.gcs"), wanted);
    }
    assert!(!place.names().contains(&"out.gcs".to_owned()));
    for name in ["items.gz", "latin1"] {
        let expected = "expected a response in JSON, a .gcs file";
        place.fails(format!("inspect {name}"), expected);
    }
}

#[test]
fn siphash_profile_requires_its_key() {
    let place = Place::new();
    place.write("items", EMAILS.join("\n"));
    let key = [7_u8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 200];
    place.write("key", key);
    place.write("key.hex", hex(&key) + "\n");
    place.write("other", [8; 16]);
    place.write("short", [8; 15]);
    let text = "--input text";
    let build = |key: &str, output: &str| {
        let keyed = format!("--profile siphash --key-file {key}");
        place.run(format!("build items -o {output} --timestamp 5 {text} {keyed}"))
    };
    for output in ["f.gcs", "f.json"] {
        build("key", output).ok();
        let bytes = place.read(output);
        build("key.hex", output).ok();
        assert!(place.read(output) == bytes);
    }
    build("short", "out").error_with("short: invalid key: expected 16 bytes or 32 hex digits");
    build("missing", "out").error_with("missing: No such file");
    let none = place.run("build items --input text --profile siphash");
    none.error_with("--key-file");

    let counts = |args: &str| place.run(format!("check {args} {text} --count"));
    let all = "maybe\t3\nabsent\t0\n";
    assert_eq!(counts("f.json items --profile siphash --key-file key").text(), all);
    // The header names the hash, and tells whether the key is right.
    assert_eq!(counts("f.gcs items --key-file key.hex").text(), all);
    counts("f.gcs items --key-file other").error_with("built with a different key");
    counts("f.gcs items").error_with("needs --key-file");
    counts("f.gcs items --profile nut25").error_with("built with --profile siphash, not nut25");

    let shown = place.run("inspect f.gcs").text();
    assert_contains(&shown, "profile        siphash\n");
}

#[test]
fn gcs_file_holds_all_that_a_reader_needs() {
    let place = Place::new();
    place.write("items", lines(0..1000));
    let key = "000102030405060708090a0b0c0d0e0f";
    for (profile, id) in [("nut25", 1), ("nut23", 2), ("bip158", 3)] {
        let keyed: &str = if id == 3 { &format!("--block-hash {key}") } else { "" };
        let args = format!("build items --m 1000 --timestamp 1767225600 --profile {profile}");
        place.run(format!("{args} {keyed} -o f.gcs")).ok();
        let file = place.read("f.gcs");
        let plain = place.run(format!("{args} {keyed} --format raw")).ok();
        assert_eq!(&file[..12], [&b"\x89GCS\r\n\x1a\n"[..], &[1, 1, id, 9]].concat());
        assert_eq!(file[12..16], 1000_u32.to_le_bytes());
        assert_eq!(file[16..24], 1000_u64.to_le_bytes());
        assert_eq!(file[24..32], 1_767_225_600_u64.to_le_bytes());
        // BIP158 starts with N: 3 bytes of CompactSize.
        let coded = if id == 3 { &plain[3..] } else { &plain[..] };
        assert_eq!(file[36..file.len() - 4], *coded);

        let counts = place.run(format!("check f.gcs items --count {keyed}"));
        assert_contains(&counts.stderr, "as of 1767225600");
        assert_eq!(counts.text(), "maybe\t1000\nabsent\t0\n");
        let shown = place.run("inspect f.gcs --json").json();
        assert_eq!((&shown["profile"], &shown["p"]), (&profile.into(), &9.into()));
    }
    // The file name decides, unless the format is given.
    let first = |args: &str, name: &str| {
        place.run(format!("build items -o {name} {args}")).ok();
        place.read(name)[0]
    };
    assert_eq!(first("", "f.json"), b'{');
    assert_eq!(first("--format json", "f.gcs"), b'{');
    assert_eq!(first("--format gcs", "f.bin"), 0x89);
}

#[test]
fn malformed_gcs_header_is_one_clear_error() {
    let place = Place::new();
    place.write("items", lines(0..100));
    place.run("build items -o f.gcs").ok();
    let good = place.read("f.gcs");
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        let end = bad.len() - 4;
        let checksum = crc32fast::hash(&bad[..end]);
        bad[end..].copy_from_slice(&checksum.to_le_bytes());
        bad
    };
    let flipped = |at: usize| {
        let mut bad = good.clone();
        bad[at] ^= 1;
        bad
    };
    let text_mode: Vec<u8> = good.iter().copied().filter(|&byte| byte != b'\r').collect();
    for (bad, wanted) in [
        (good[..12].to_vec(), "truncated .gcs file: 12 bytes"),
        (good[..good.len() - 1].to_vec(), "damaged or truncated .gcs file"),
        ([&good[..], b"x"].concat(), "damaged or truncated .gcs file"),
        (flipped(16), "checksum"),
        (flipped(50), "checksum"),
        (text_mode, "line endings"),
        (with(8, 2), "unsupported .gcs version 2"),
        (with(9, 2), "unsupported kind 2"),
        (with(10, 9), "unknown hash 9"),
        (with(11, 33), "P is 33"),
        (with(16, 99), "99 items"),
        (with(23, 1), "72057594037928036 items"),
    ] {
        place.write("bad.gcs", bad);
        for args in ["check bad.gcs items", "inspect bad.gcs"] {
            let error = place.run(args).error();
            assert!(error.starts_with("error: bad.gcs: "), "{error}");
            assert!(error.contains(wanted), "{wanted}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}

#[test]
fn records_and_line_formats_are_exclusive() {
    let place = Place::new();
    place.write("records", item(1));
    let args = "build records --record-bytes 33 --input text";
    place.fails(args, "cannot be used with");
}
