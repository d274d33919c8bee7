use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::nutfilter::{Place, Ran, assert_contains, hex, item, lines};

#[test]
fn lines_records_and_standard_input_give_the_same_bytes() {
    let place = Place::new();
    place.write("lines", lines(0..3000));
    let records: Vec<u8> = (0..3000).flat_map(item).collect();
    place.write("records", &records);
    let wanted = place.run("build lines --format raw").ok();
    assert!(!wanted.is_empty());
    let raw = "--format raw";
    let records_args = "--record-bytes 33";
    let stdin = lines(0..3000);
    // Upper case, Windows line ends, blank lines, surrounding spaces, no final line end, another order.
    let sloppy: String =
        (0..3000).rev().map(|i| format!("\r\n \t{}  \r\n", hex(&item(i)).to_uppercase())).collect();
    for ran in [
        place.run_with(format!("build - {raw}"), stdin.as_bytes()),
        place.run_with(format!("build - {raw}"), sloppy.trim_end().as_bytes()),
        place.run(format!("build records {raw} {records_args}")),
        place.run_with(format!("build - {raw} {records_args}"), &records),
    ] {
        assert_eq!(ran.ok(), wanted);
    }
}

#[test]
fn invalid_line_is_named_by_file_and_number() {
    let place = Place::new();
    for (text, wanted) in [
        ("0011\n\n02g1\n", "spent.hex, line 3: 'g' in column 3 is not a hex digit"),
        ("0011\n021\n", "spent.hex, line 2: odd number of hex digits (3)"),
        ("0x0011\n", "spent.hex, line 1: begins with 0x"),
        ("00\n00 11\n", "spent.hex, line 2: byte 0x20 in column 3 is not a hex digit"),
    ] {
        place.write("spent.hex", text);
        for args in ["build spent.hex -o out.gcs", "build spent.hex --format raw -o out"] {
            let error = place.run(args).error();
            assert!(error.starts_with(&format!("error: {wanted}")), "{error}");
        }
        place
            .run_with("build - -o out.gcs", text.as_bytes())
            .error_with(wanted.replace("spent.hex", "standard input"));
    }
}

#[test]
fn other_invalid_inputs_are_errors() {
    let place = Place::new();
    place.write("items", lines(0..3));
    place.write("records", [7; 100]);
    // As xxd breaks lines.
    place.write("cut", format!("{}{}\n{}\n", lines(0..1), "02".repeat(30), "02".repeat(6)));
    place.fail_each(
        "build",
        "
        => <ITEMS>
        missing => missing: No such file
        . => directory
        records --record-bytes 33 => records: 100 bytes are not a multiple
        records --record-bytes 50 => --record-bytes: 50 bytes, but a note's point has 33 or 48
        cut => cut, line 2: 30 bytes, but a note's point has 33 or 48; for a set of other items use --format gcs
        cut --profile nut23 => cut, line 2: 30 bytes
        cut --input text => cut, line 1: 66 bytes
        records --record-bytes 0 => --record-bytes
        items --p 33 => P is 33
        items --m 0 => M is 0
        items --p -1 => -1 is not in 0..=4294967295
        items --m -1 => '--m <M>': invalid digit
        items --timestamp 18446744073709551616 => '--timestamp <SECONDS>': number too large
        items --record-bytes -33 => '--record-bytes <LEN>': invalid digit
        items --m many => '--m <M>': invalid digit
        items --m 4294967296 => M is 4294967296
        items --profile bip158 => needs --block-hash
        items --block-hash 00000000000000000000000000000000 => require --profile bip158 or siphash
        items --profile bip158 --block-hash 0011 => expected 64 hex digits, not 4
        items --rate 2 => rate of 2 is not between
        items --output no/such/place => no/such/place: No such file
        items --output . => .",
    );
    assert_eq!(place.names(), ["cut", "items", "records"]);
}

#[test]
fn output_file_is_complete_and_replaces_the_old_one() {
    let place = Place::new();
    place.write("items", lines(0..100));
    place.write("spent.json", "x".repeat(100_000));
    let args = "build items --output spent.json --timestamp 5";
    let ran = place.run(args);
    assert_contains(&ran.stderr, "100 items; P 19, M 784931: ");
    assert_eq!(ran.ok(), b"");
    let response: Value = serde_json::from_slice(&place.read("spent.json")).expect("JSON");
    assert_eq!((&response["n"], &response["timestamp"]), (&100.into(), &5.into()));
    assert_eq!(place.names(), ["items", "spent.json"]);
    assert_eq!(place.run(format!("{args} --quiet")).stderr, "");
}

#[cfg(unix)]
#[test]
fn output_through_a_link_replaces_its_target() {
    let place = Place::new();
    place.write("items", lines(0..100));
    place.write("target", "old");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, place.path(name)).expect("a link");
    };
    link("target", "link");
    place.run("build items -o link").ok();
    assert!(place.path("link").is_symlink());
    assert!(place.read("target").starts_with(b"{\"n\":100,"));

    link("round", "about");
    link("about", "round");
    let before = place.names();
    let error = place.run("build items -o round").error();
    assert!(error.starts_with("error: round: "), "{error}");
    assert_eq!(place.names(), before);
}

#[cfg(unix)]
#[test]
fn output_file_keeps_the_mode_of_the_old_one() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    place.write("items", lines(0..100));
    place.write("plain", "");
    place.write("out", "old");
    let mode = |name: &str| {
        let metadata = std::fs::metadata(place.path(name)).expect("a file");
        metadata.permissions().mode() & 0o7777
    };
    for wanted in [0o600, 0o640, 0o444, 0o666] {
        let permissions = Permissions::from_mode(wanted);
        std::fs::set_permissions(place.path("out"), permissions).expect("another mode");
        place.run("build items -o out").ok();
        assert_eq!(mode("out"), wanted, "{:o} instead of {wanted:o}", mode("out"));
        assert!(place.read("out").starts_with(b"{\"n\":100,"));
    }
    // A new file gets its mode from the umask, like any other.
    place.run("build items -o new").ok();
    assert_eq!(mode("new"), mode("plain"));
    assert_eq!(place.names(), ["items", "new", "out", "plain"]);
}

#[cfg(unix)]
#[test]
fn output_to_a_pipe_is_written_to_the_pipe() {
    use std::os::unix::fs::FileTypeExt;

    let place = Place::new();
    place.write("items", lines(0..100));
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe")).status();
    assert!(made.expect("mkfifo").success());
    // Open it for reading and writing, so that neither opening nor reading waits for the other end.
    let both = std::fs::OpenOptions::new().read(true).write(true).open(place.path("pipe"));
    let mut pipe = both.expect("a pipe");
    place.run("build items -o pipe").ok();
    let metadata = std::fs::metadata(place.path("pipe")).expect("the pipe");
    assert!(metadata.file_type().is_fifo());
    let mut start = [0; 9];
    pipe.read_exact(&mut start).expect("the filter");
    assert_eq!(&start, b"{\"n\":100,");
}

#[cfg(unix)]
#[test]
fn output_to_names_of_standard_output_goes_there() {
    let place = Place::new();
    place.write("items", lines(0..100));
    let args = "build items --timestamp 5";
    let wanted = place.run(args).ok();
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        let to = format!("{args} -o {name}");
        assert!(place.run(&to).ok() == wanted, "{to:?}: other bytes");
        // Append to existing contents, as `>>` does.
        let mut log = std::fs::File::create(place.path("log")).expect("a file");
        std::io::Write::write_all(&mut log, b"before\n").expect("a line");
        let mut command = place.command(format!("{args} -q -o {name}"));
        assert!(command.stdout(log).status().expect("a run").success());
        assert!(place.read("log") == [b"before\n", &wanted[..]].concat());
    }
    place.run(format!("{args} -o /dev/null")).ok();
    assert_eq!(place.names(), ["items", "log"]);
}

/// A limit on the size of files kills the process anywhere in the middle of its output.
#[cfg(target_os = "linux")]
#[test]
fn killed_build_leaves_the_old_file() {
    use std::os::unix::process::ExitStatusExt;
    const SIGXFSZ: i32 = 25;

    let place = Place::new();
    // A filter of 526 KB.
    place.write("items", lines(0..200_000));
    place.write("filter", "old");
    let command = place.command("build items --format raw -o filter");
    // In blocks of 512 bytes.
    let script = "ulimit -c 0; ulimit -f 200; exec \"$0\" \"$@\"";
    let status = std::process::Command::new("/bin/sh")
        .args(["-c", script])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(place.path("."))
        .status()
        .expect("a shell");
    assert_eq!(status.signal(), Some(SIGXFSZ), "{status}");
    assert_eq!(place.read("filter"), b"old");
}

/// A sparse file is larger than what is in it.
#[cfg(target_os = "linux")]
#[test]
fn set_larger_than_memory_is_refused_before_it_is_read() {
    let place = Place::new();
    let sparse = |name: &str, items: u64, start: &str| {
        place.write(name, start);
        let file = std::fs::File::options().write(true).open(place.path(name));
        let sized = file.expect("a file").set_len(items * 67);
        sized.expect("a sparse file");
    };
    sparse("records", 100_000_000, "");
    sparse("lines", 100_000_000, &lines(0..2_000));
    sparse("many", 1 << 32, "");
    let limited = |args: &str| {
        let command = place.command(args);
        let mut shell = std::process::Command::new("/bin/sh");
        let script = "ulimit -v 500000; exec \"$0\" \"$@\"";
        shell.args(["-c", script]).arg(command.get_program());
        shell.args(command.get_args()).current_dir(place.root());
        Ran::from(shell.env_clear().output().expect("a shell"))
    };
    let error = limited("build records --record-bytes 67 -o out").error();
    let words =
        "error: records: 100000000 items need 1,014 MiB of memory, and 488 MiB are available";
    assert!(error.starts_with(words), "{error}");
    let error = limited("build lines -o out").error();
    assert!(error.starts_with("error: lines: about 100000000 items need 1,014 MiB"), "{error}");
    let error = place.run("build many --record-bytes 67 -o out").error();
    assert_contains(&error, "a filter holds at most 4294967295");
    assert_eq!(place.names(), ["lines", "many", "records"]);
}

#[test]
fn duplicates_are_counted_and_bip158_drops_them() {
    let place = Place::new();
    place.write("items", lines(0..10) + &lines(0..3));
    place.write("equal", lines(5..6).repeat(50));
    let of_block = format!("--profile bip158 --block-hash {}", "07".repeat(16));
    for (args, wanted) in [
        ("items", "13 items, 3 of them duplicates; P 19"),
        ("equal", "50 items, 49 of them duplicates; P 19"),
        (&format!("items {of_block}"), "10 items, 3 duplicates dropped; P 19"),
        (&format!("equal {of_block}"), "1 items, 49 duplicates dropped; P 19"),
    ] {
        let said = place.run(format!("build -o out {args}")).stderr;
        assert!(said.starts_with(wanted), "{said}");
    }
}

#[test]
fn default_timestamp_is_now() {
    let place = Place::new();
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let before = clock();
    let response = place.run_with("build -", lines(0..1).as_bytes()).json();
    let timestamp = response["timestamp"].as_u64().expect("a time");
    assert!((before..=clock()).contains(&timestamp));
}

#[test]
fn empty_input_is_rejected_and_the_old_file_stays() {
    let place = Place::new();
    place.write("pub.json", "old");
    let key = "07".repeat(16);
    for more in ["", &format!("--profile bip158 --block-hash {key}"), "--record-bytes 33"] {
        let args = "build - -o pub.json";
        let error = place.fails(format!("{args} {more}"), "no items");
        assert!(error.contains("--allow-empty"), "{more:?}: {error}");
        assert_eq!(place.read("pub.json"), b"old", "{more:?}");
    }
    let blank = place.run_with("build -", b"\n\r\n");
    blank.error_with("no items");
    assert_eq!(place.names(), ["pub.json"]);
}

#[test]
fn allow_empty_builds_an_empty_filter() {
    let place = Place::new();
    let args = "build - --timestamp 7 --allow-empty";
    let ran = place.run_with(args, b"\n\r\n");
    let empty = r#"{"n":0,"p":19,"m":784931,"content":"","timestamp":7}"#;
    assert_eq!(ran.text(), format!("{empty}\n"));
}

#[test]
fn best_p_is_derived_from_m_or_rate() {
    let place = Place::new();
    place.write("items", lines(0..1000));
    let summary = |args: &str| {
        let said = place.run(format!("build items -o out {args}")).stderr;
        let json = place.run("inspect out --json").json();
        let warning = said.lines().find(|line| line.starts_with("warning"));
        let warning = warning.unwrap_or_default().to_owned();
        (json["p"].clone(), json["m"].clone(), warning)
    };
    for (args, p, m) in [
        ("--m 1000", 9, 1000),
        ("--rate 1e-3", 9, 1000),
        ("--m 1000000", 19, 1_000_000),
        ("", 19, 784_931),
    ] {
        assert_eq!(summary(args), (p.into(), m.into(), String::new()), "{args:?}");
    }
    // 20.001 bits instead of 11.5.
    let (p, _, warning) = summary("--m 1000 --p 19");
    assert_eq!(p, 19);
    assert!(
        warning.starts_with("warning: P = 19 makes the filter 74 % larger than P = 9"),
        "{warning}"
    );
    assert_eq!(summary("--m 1000 --p 19 --quiet").2, "");
    let both = place.run("build items --m 10 --rate 0.1");
    both.error_with("cannot be used with");
}

/// `script` gives the command a terminal.
#[test]
#[cfg(target_os = "linux")]
fn long_input_is_shown_on_a_terminal_until_its_end() {
    let place = Place::new();
    place.write("lines", lines(0..3000));
    for (quiet, shown) in [("", true), ("--quiet", false)] {
        let nutfilter = env!("CARGO_BIN_EXE_nutfilter");
        let command = format!(
            "(cat lines; sleep 2.1; cat lines) | '{nutfilter}' build {quiet} - --format raw -o out"
        );
        let mut script = std::process::Command::new("script");
        let script = script.args(["-qec", &command, "/dev/null"]);
        let ran = script.current_dir(place.path("")).output().unwrap();
        assert!(ran.status.success());
        let text = String::from_utf8(ran.stdout).unwrap();
        let is_cleared = text.contains("KiB read") && text.contains("\u{1b}[2K");
        assert_eq!(is_cleared, shown, "{text:?}");
    }
}
