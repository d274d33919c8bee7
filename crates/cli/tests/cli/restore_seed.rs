//! `restore --seed-file`, at the mint of the tutorial.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use cashu::nuts::nut00::Token;
use nutfilter_testing::loopback::Loopback;
use nutfilter_testing::seeded_mint::{BROKEN, DRAFT, KEYSETS, Mint, SIGNED};
use nutfilter_wallet::cashu::{Seed, SeedPoints};

use crate::nutfilter::{Place, Ran, assert_contains};
use crate::support::kill;

const WORDS: &str =
    "because patient dismiss crystal enforce step liar wood pottery radio high defy";

fn seed() -> Seed {
    WORDS.parse().expect("words")
}

fn mint(change: impl FnOnce(&mut Mint)) -> Loopback {
    Mint::start(&seed(), 0, change).expect("a mint")
}

fn run(url: &str, seed: &str, args: &str) -> Ran {
    let line = format!("restore --mint {url} --proxy none --seed-file - {args}");
    Place::new().run_with(line, seed.as_bytes())
}

/// No word of the seed, no secret, no blinding factor and no point is in the messages.
#[track_caller]
fn assert_silent(ran: &Ran) {
    let said: Vec<_> = ran.stderr.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let is_said =
        |text: &str| said.contains(&text) || (text.len() > 60 && ran.stderr.contains(text));
    let mut private: Vec<_> = WORDS.split(' ').map(str::to_owned).collect();
    private.push(const_hex::encode(seed().as_bytes()));
    for id in KEYSETS.iter().chain([&BROKEN]) {
        let points = SeedPoints::new(&seed(), &id.parse().expect("an id")).expect("points");
        for counter in SIGNED {
            let (secret, r) = points.note(counter).expect("a note");
            let message = points.message(counter).expect("a message").to_hex();
            private.extend([secret.to_string(), r.to_secret_hex(), message]);
        }
    }
    let leaks: Vec<_> = private.iter().filter(|text| is_said(text)).collect();
    assert!(leaks.is_empty(), "{leaks:?} in {}", ran.stderr);
    assert!(
        !said.iter().any(|part| part.len() > 16 && *part != DRAFT && !KEYSETS.contains(part)),
        "{}",
        ran.stderr
    );
}

#[test]
fn seed_gives_tokens_on_stdout_and_a_table_on_stderr() {
    let mint = mint(|mint| mint.others.clear());
    let digits = const_hex::encode(seed().as_bytes());
    for text in [format!("{WORDS}\n"), digits] {
        let ran = run(&mint.url, &text, "");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let printed = String::from_utf8(ran.stdout.clone()).expect("text");
        let [new, old] = printed.lines().collect::<Vec<_>>()[..] else {
            panic!("two tokens: {printed}");
        };
        let new: Token = new.parse().expect("a token");
        assert_eq!(u64::from(new.value().expect("a sum")), 270);
        assert!(old.starts_with("cashuA"));
        for id in KEYSETS {
            let row = ran.stderr.lines().find(|line| line.starts_with(id) && line.ends_with("GMT"));
            let row: Vec<_> = row.expect("a row").split_whitespace().take(5).collect();
            assert_eq!(row, [id, "4", "7", "0", "166"]);
        }
        assert_contains(&ran.stderr, "restored 12 notes worth 405 sat, in 2 tokens");
        assert_contains(&ran.stderr, "that one of 4 live notes was taken for spent");
        assert_silent(&ran);
    }
    let seen = mint.seen();
    let shown = seen.iter().filter_map(|asked| asked.body["outputs"].as_array());
    assert_eq!(shown.map(Vec::len).sum::<usize>(), 2 * 12);
}

#[test]
fn other_keysets_are_printed_when_one_fails() {
    let mint = mint(|mint| mint.has_filters = false);
    for (args, notes) in [("", 12), ("--fallback never", 0), ("--fallback always", 12)] {
        let ran = run(&mint.url, WORDS, args);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        for part in [
            format!("keyset {BROKEN}: "),
            format!("keyset {DRAFT}: the crate cashu does not derive"),
            format!("restored {notes} notes"),
            "notes may be missing".to_owned(),
        ] {
            assert_contains(&ran.stderr, &part);
        }
        assert_eq!(ran.stdout.is_empty(), notes == 0, "{args}");
        assert_silent(&ran);
    }
}

#[test]
fn notes_that_may_be_spent_are_printed_alone_and_only_if_wanted() {
    let mint = mint(|mint| {
        (mint.has_filters, mint.has_states) = (false, false);
        mint.others.clear();
    });
    let ran = run(&mint.url, WORDS, "");
    assert_eq!((ran.code, ran.stdout.len()), (Some(2), 0), "{}", ran.stderr);
    assert_contains(
        &ran.stderr,
        "33 notes that may be spent are not printed; rerun when the mint answers, or with --unchecked",
    );
    let ran = run(&mint.url, WORDS, "--unchecked");
    let printed = String::from_utf8(ran.stdout.clone()).expect("text");
    assert_eq!((ran.code, printed.lines().count()), (Some(2), 33));
    assert_silent(&ran);
}

#[test]
fn notes_that_the_mint_refuses_are_an_error() {
    let mint = mint(|mint| {
        mint.restores = 1.into();
        mint.others.clear();
    });
    for (args, notes) in [("", 4), ("--quiet", 0)] {
        let ran = run(&mint.url, WORDS, args);
        assert_eq!((ran.code, ran.stdout.is_empty()), (Some(2), notes == 0), "{}", ran.stderr);
        let refused = "error: keyset F87AqWquk/+C: the mint refused the messages of counters 122, 123, 124, 125";
        assert_contains(&ran.stderr, refused);
        assert_silent(&ran);
    }
}

/// As with `| head -1` and a full disk.
#[cfg(target_os = "linux")]
#[test]
fn tokens_that_are_not_written_are_an_error() {
    let place = Place::new();
    place.write("words", WORDS);
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("a device");
    for others in [vec![], vec![BROKEN]] {
        let mint = mint(|mint| mint.others = others);
        for (is_full, args) in [(true, ""), (true, "--quiet"), (false, ""), (false, "--quiet")] {
            let mut command =
                place.command(format!("restore --mint {} --seed-file words {args}", mint.url));
            match is_full {
                true => command.stdout(full()),
                false => command.stdout(std::io::pipe().expect("a pipe").1),
            };
            let ran = Ran::from(command.output().expect("the binary"));
            assert_eq!(ran.code, Some(2), "{}", ran.stderr);
            assert_contains(&ran.stderr, "error: standard output: ");
            assert_contains(&ran.stderr, "not all results were written; run the command again");
            assert!(!ran.stderr.contains("are printed"), "{}", ran.stderr);
            assert_silent(&ran);
        }
    }
}

#[cfg(unix)]
#[test]
fn signal_ends_the_restore_and_prints_what_is_known() {
    for signal in ["-INT", "-TERM"] {
        let mint = mint(|mint| mint.silent = "keys/F87A");
        let place = Place::new();
        place.write("words", WORDS);
        let line = format!("restore --mint {} --proxy none --seed-file words", mint.url);
        let mut command = place.command(line);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("the binary");
        while !mint.seen().iter().any(|asked| asked.path().contains("keys/F87A")) {
            thread::sleep(Duration::from_millis(10));
        }
        kill(&child, signal);
        let asked = Instant::now();
        let ran = Ran::from(child.wait_with_output().expect("an end"));
        // Without the signal, the answer would come after 20 s.
        assert!(asked.elapsed() < Duration::from_secs(15));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        let token: Token = String::from_utf8_lossy(&ran.stdout).trim().parse().expect("a token");
        assert_eq!(u64::from(token.value().expect("a sum")), 270);
        assert_contains(
            &ran.stderr,
            "F87AqWquk/+C: no keys of keyset F87AqWquk/+C: the caller aborted",
        );
        assert_contains(&ran.stderr, "restored 8 notes");
        assert_silent(&ran);
    }
}

#[test]
fn notes_without_a_dleq_proof_are_a_warning() {
    let mint = mint(|mint| {
        mint.others.clear();
        mint.change = |signature| drop(signature.as_object_mut().expect("one").remove("dleq"));
    });
    let ran = run(&mint.url, WORDS, "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_contains(&ran.stderr, "4 notes have no DLEQ proof");
    assert_contains(&ran.stderr, "restored 12 notes");
}

#[test]
fn wallet_without_notes_is_exit_code_1() {
    let mint = mint(|mint| mint.others.clear());
    let ran = run(&mint.url, &"07".repeat(64), "");
    assert_eq!((ran.code, ran.stdout.len()), (Some(1), 0), "{}", ran.stderr);
    assert_contains(&ran.stderr, "restored 0 notes worth 0 sat, in 0 tokens");
}

#[test]
fn invalid_seeds_are_errors_without_the_seed() {
    let mint = mint(|_| {});
    let digits = const_hex::encode(seed().as_bytes());
    for (text, error) in [
        (WORDS.replace("liar", "lier"), "word 7 is not in the English list"),
        (WORDS.replace("because ", ""), "found 11 words"),
        (WORDS.replace("liar wood", "wood liar"), "checksum"),
        (digits[1..].to_owned(), "expected 128 hex digits; found 127"),
        (String::new(), "found 0 words"),
        (format!("{WORDS}{}", " ".repeat(10_000)), "longer than 10000 bytes"),
    ] {
        let ran = run(&mint.url, &text, "");
        assert_eq!(ran.code, Some(2));
        assert_contains(&ran.stderr, error);
        assert_silent(&ran);
    }
    assert!(mint.requests().is_empty());
    let ran = run(&mint.url, WORDS, "--unit usd");
    assert_contains(&ran.stderr, "no keyset of unit \"usd\"; it has 0049c41fb72a472f (sat)");
    let place = Place::new();
    place.fail_each(
        "restore --mint http://127.0.0.1:9",
        "
        => --seed-file
        --seed-file none => none: No such file
        --seed-file a --keyset 009a1f293253e41e => --keyset
        --seed-file a pairs => PAIRS
        pairs => --keyset
        --seed-file a --fallback maybe => unannounced
    ",
    );
}

#[cfg(unix)]
#[test]
fn seed_file_that_others_may_read_is_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let mint = mint(|mint| mint.others.clear());
    let place = Place::new();
    place.write("words", WORDS);
    for (mode, is_warned) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.path("words"), permissions).expect("its owner");
        let ran = place.run(format!("restore --mint {} --proxy none --seed-file words", mint.url));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let warning = format!(
            "warning: words: other users may read the seed (mode {mode:03o}); use chmod 600"
        );
        assert_eq!(ran.stderr.contains(&warning), is_warned, "{}", ran.stderr);
        assert_silent(&ran);
    }
}
