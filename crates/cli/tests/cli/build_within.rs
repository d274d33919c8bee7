//! `build --memory`: the same bytes with less memory, and no leftover files.

use serde_json::Value;

use crate::nutfilter::{Place, assert_contains, item, lines};

/// The minimum limit; about 28,000 items make two runs.
const LEAST: &str = "256K";

#[test]
fn memory_limit_changes_no_byte_of_any_format() {
    let place = Place::new();
    // Enough for several runs, with some duplicate items.
    let text = lines(0..40_000) + &lines(100..200);
    place.write("lines", &text);
    let records: Vec<u8> = (0..40_000).chain(100..200).flat_map(item).collect();
    place.write("records", &records);
    let time = "--timestamp 5";
    for format in ["raw", "json"] {
        for extra in ["", "--p 6 --m 64", "--profile nut23"] {
            let with = format!("--format {format} {time} {extra}");
            let wanted = place.run(format!("build lines {with}")).ok();
            for input in ["build lines", "build records --record-bytes 33"] {
                let limited = format!("{input} --memory {LEAST} --scratch . {with}");
                let ran = place.run(&limited);
                assert_contains(&ran.stderr, "40100 items, 100 of them duplicates; ");
                assert!(ran.ok() == wanted, "{limited:?}: other bytes");
                let to_file = format!("{limited} --output out");
                assert_eq!(place.run(&to_file).ok(), b"");
                assert!(place.read("out") == wanted, "{to_file:?}: other bytes");
            }
            let limited = format!("build - --memory 1MiB {with}");
            let ran = place.run_with(&limited, text.as_bytes());
            assert!(ran.ok() == wanted, "{limited:?}: other bytes");
        }
    }
    assert_eq!(place.names(), ["lines", "out", "records"]);
}

#[test]
fn summary_is_the_same_with_a_memory_limit() {
    let place = Place::new();
    place.write("items", lines(0..500) + &lines(0..3));
    let summary = |args: &str| -> Value {
        let with = "build items -o out --json --timestamp 7";
        place.run(format!("{with} {args}")).json()
    };
    for format in ["raw", "json"] {
        let limited = summary(&format!("--format {format} --memory {LEAST}"));
        assert_eq!(limited, summary(&format!("--format {format}")));
        assert_eq!(limited["written"], place.read("out").len());
    }
}

#[test]
fn invalid_memory_limits_are_errors_and_leave_nothing() {
    let place = Place::new();
    place.write("items", lines(0..20_000));
    place.write("bad", lines(0..20_000) + "0g\n");
    place.fail_each(
        "build",
        "
        items --memory 255K => limit of 261120 bytes
        items --memory 0 => at least 262144
        items --memory many => is not a size, such as 1048576, 512M or 2GiB
        items --memory -1 => is below zero
        items --memory 99999999T => is too large
        items --scratch . => --memory
        items --memory 256K --scratch no/such => no/such/.nutfilter-
        items --memory 256K -o no/such/out => no/such
        items --memory 256K --profile bip158 => --memory cannot be used with --profile bip158
        bad --memory 256K -o out => bad, line 20001: 'g' in column 2
        items --memory 256K --record-bytes 7 => are not a multiple of the record size",
    );
    assert_eq!(place.names(), ["bad", "items"]);
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_reported_and_the_old_output_stays() {
    let place = Place::new();
    place.write("items", lines(0..20_000));
    for format in ["raw", "json"] {
        let args = format!("build items --memory {LEAST} --scratch . --format {format}");
        let error = place.run(format!("{args} -o /dev/full")).error();
        assert!(
            error.starts_with("error: /dev/full: No space left"),
            "{error}"
        );
    }
    // The error occurs before the output is complete, so the old file is untouched.
    place.write("out", "old");
    place.write("bad", lines(0..20_000) + "0g\n");
    place
        .run(format!("build bad --memory {LEAST} -o out"))
        .error();
    assert_eq!(place.read("out"), b"old");
    assert_eq!(place.names(), ["bad", "items", "out"]);
}
