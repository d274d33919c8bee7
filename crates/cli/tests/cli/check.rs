use std::io::Read;
use std::process::Stdio;

use crate::nutfilter::{Place, hex, item, lines};

/// Items 0..1000 in a response file, and items 995..1005 to check.
fn place_with_filter() -> Place {
    let place = Place::new();
    place.write("spent.hex", lines(0..1000));
    place.run("build spent.hex -o spent.json --timestamp 1767225600").ok();
    place.write("mine.hex", lines(995..1005));
    place.write("theirs.hex", lines(1000..1010));
    place
}

/// The note on stderr.
const AS_OF: &str = "filter of 1000 items, as of 1767225600 (Thu, 01 Jan 2026 00:00:00 GMT)\n";

#[test]
fn time_of_the_filter_is_on_stderr_unless_quiet() {
    let place = place_with_filter();
    let said = |more: &str| {
        let args = "check spent.json mine.hex";
        place.run(format!("{args} {more}")).stderr
    };
    assert_eq!(said(""), AS_OF);
    assert_eq!(said("--count"), AS_OF);
    assert_eq!(said("--quiet"), "");
    // The JSON object has the time, so stderr has nothing.
    assert_eq!(said("--json"), "");
}

#[test]
fn items_are_answered_in_order_and_as_given() {
    let place = place_with_filter();
    let upper = hex(&item(3)).to_uppercase();
    let text = format!("{}\n\n  {upper}\r\n{}\n{upper}", hex(&item(2000)), hex(&item(5)));
    let wanted = format!(
        "absent\t{}\nmaybe\t{upper}\nmaybe\t{}\nmaybe\t{upper}\n",
        hex(&item(2000)),
        hex(&item(5))
    );
    let ran = place.run_with("check spent.json -", text.as_bytes());
    assert_eq!(ran.text(), wanted);
}

#[test]
fn exit_code_says_whether_any_item_matched() {
    let place = place_with_filter();
    assert_eq!(place.run("check spent.json mine.hex").code, Some(0));
    let none = place.run("check spent.json theirs.hex");
    assert_eq!((none.code, none.stderr.as_str()), (Some(1), AS_OF));
    assert_eq!(none.stdout.iter().filter(|&&byte| byte == b'\n').count(), 10);
    place.run_with("check spent.json -", b"\n").error_with("no items");
}

#[test]
fn json_has_answers_counts_and_time() {
    let place = place_with_filter();
    let all = place.run("check spent.json mine.hex --json").json();
    assert_eq!((&all["maybe"], &all["absent"]), (&5.into(), &5.into()));
    assert_eq!((&all["n"], &all["as_of"]), (&1000.into(), &1_767_225_600_u64.into()));
    let answers = all["answers"].as_array().expect("answers");
    assert_eq!(answers.len(), 10);
    for (i, answer) in (995..1005).zip(answers) {
        assert_eq!(answer["item"], hex(&item(i)));
        assert_eq!(answer["answer"], if i < 1000 { "maybe" } else { "absent" });
    }
    let counts = place.run("check spent.json mine.hex --json --count").json();
    assert_eq!(counts["maybe"], 5);
    assert!(counts.get("answers").is_none());
}

#[test]
fn only_one_input_may_be_standard_input() {
    let place = place_with_filter();
    let filter = place.read("spent.json");
    let counts = place.run_with("check - mine.hex --count", &filter).text();
    assert_eq!(counts, "maybe\t5\nabsent\t5\n");
    place.run_with("check - -", &filter).error_with("both");
}

#[test]
fn errors_give_exit_code_2_and_their_place() {
    let place = place_with_filter();
    place.write("bad.hex", "00\n0g\n");
    place.write("bad.json", r#"{"n": 1, "content": "", "timestamp": 0}"#);
    place.write("endless.json", format!(r#"{{"n": "{}"}}"#, "x".repeat(100_000)));
    let error = place.run("check endless.json mine.hex").error();
    assert!(error.len() < 3_000, "{} bytes", error.len());
    place.fail_each(
        "check",
        "
        spent.json bad.hex => bad.hex, line 2: 'g' in column 2
        bad.json mine.hex => bad.json:
        endless.json mine.hex => endless.json: not a filter response
        missing.json mine.hex => missing.json: No such file
        spent.json missing.hex => missing.hex: No such file
        spent.json => give FILTER and ITEMS
        => <FILTER>
        spent.json mine.hex mine.hex => mine.hex
        spent.json mine.hex --expected 1 => --mint
        spent.json mine.hex --keyset 00 => --mint",
    );
}

#[test]
fn early_end_of_the_reader_keeps_the_exit_code() {
    let place = place_with_filter();
    // More than any pipe holds, so that the command still writes after the reader has left.
    place.write("many.hex", lines(0..40_000));
    place.write("none.hex", lines(100_000..140_000));
    for (items, code) in [("many.hex", 0), ("none.hex", 1)] {
        let mut child = place
            .command(format!("check spent.json {items}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary");
        let mut stdout = child.stdout.take().expect("a pipe");
        stdout.read_exact(&mut [0; 100]).expect("a line");
        drop(stdout);
        let output = child.wait_with_output().expect("an end");
        assert_eq!(String::from_utf8_lossy(&output.stderr), AS_OF);
        assert_eq!(output.status.code(), Some(code), "{items}");
    }
}
