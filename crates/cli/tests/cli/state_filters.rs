use crate::nutfilter::{Place, hex, item};

/// An element for each number, as hex lines.
fn elements(numbers: std::ops::Range<u32>) -> String {
    let place = Place::new();
    let quotes: String = numbers.map(|number| format!("quote {number}\n")).collect();
    place.write("quotes", quotes);
    place.run("element --kind mint_quote quotes").text()
}

#[test]
fn elements_follow_the_draft() {
    let place = Place::new();
    let y = "024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725";
    place.write("points", format!("{}\r\n\n{y}", y.to_uppercase()));
    let spent = "element --kind proof_state --state SPENT points";
    let element = "dce02b593be7ddd8abe04bcaf19e35094c67429c21ef5c62ab5550841a603f06\n";
    assert_eq!(place.run(spent).text(), element.repeat(2));
    let issued = "element --kind blind_signature points";
    let element = "62c10db24e577ec96363ad4ae34adfe6814ac11f0deacfc08139bc7df6093e06\n";
    assert_eq!(place.run(issued).text(), element.repeat(2));
    place.write(
        "quotes",
        "019e6Cd5A-2347-7000-8AFA-051AE571f334\n019E6Cd5A\n",
    );
    let quotes = place.run("element --kind mint_quote quotes").text();
    assert_eq!(quotes.lines().count(), 2);
    let quotes = "element --kind melt_quote --state PAID quotes";
    assert_eq!(place.run(quotes).text().lines().count(), 2);
}

#[test]
fn invalid_events_are_errors_without_output() {
    let place = Place::new();
    place.write("points", hex(&item(1)));
    place.write("short", format!("{}\n{}\n", hex(&item(1)), hex(&[2; 32])));
    place.write("prefix", hex(&[4; 33]));
    place.write("text", "not hex\n");
    for (args, wanted) in [
        ("proof_state points", "UNSPENT or PENDING or SPENT"),
        ("proof_state --state PAID points", "'PAID'"),
        ("proof_state --state SPENT short", "not 32 that begin with"),
        ("blind_signature --state SPENT points", "no states"),
        ("blind_signature prefix", "not 33 that begin with 04"),
        ("blind_signature text", "line 1"),
        ("melt_quote text", "UNPAID"),
        ("mint_quote missing", "missing"),
        ("other points", "proof_state"),
        ("proof_stat points", "proof_state"),
    ] {
        let error = place.fails(format!("element --kind {args}"), wanted);
        assert!(!error.contains("tip:"), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
    }
}

#[test]
fn blocks_are_built_folded_and_checked() {
    let place = Place::new();
    place.write("in", elements(0..100));
    place.write("out", elements(100..110));
    place.run("block build --width 14 in -o b14").ok();
    assert_eq!(place.read("b14").len(), 1 << 11);
    place.run("block build --width 12 in -o b12").ok();
    place.run("block fold --width 12 b14 -o folded").ok();
    assert_eq!(place.read("folded"), place.read("b12"));
    let checked = place.run("block check b14 in");
    assert_eq!(checked.stderr.lines().count(), 1);
    let expected: String = elements(0..100)
        .lines()
        .map(|line| format!("maybe\t{line}\n"))
        .collect();
    assert_eq!(checked.text(), expected);
    let checked = place.run("block check --quiet b14 out");
    assert_eq!((checked.code, &*checked.stderr), (Some(1), ""));
    assert!(checked.stdout.starts_with(b"absent\t"));
}

#[test]
fn segments_are_built_merged_folded_checked_and_inspected() {
    let place = Place::new();
    place.write("a", elements(0..1000));
    place.write("b", elements(500..2000));
    place.write("both", elements(0..2000).to_uppercase());
    place.write("out", elements(2000..2010));
    for name in ["a", "b", "both"] {
        let file = format!("{name}.seg");
        place
            .run(format!("segment build --width 40 {name} -o {file}"))
            .ok();
    }
    for order in ["a.seg b.seg a.seg", "b.seg a.seg both.seg"] {
        place.run(format!("segment merge {order} -o merged")).ok();
        assert_eq!(place.read("merged"), place.read("both.seg"));
    }
    place.run("segment fold --width 24 merged -o folded").ok();
    place.run("segment build --width 24 both -o narrow").ok();
    assert_eq!(place.read("folded"), place.read("narrow"));

    let checked = place.run("segment check merged a").text();
    let expected: String = elements(0..1000)
        .lines()
        .map(|line| format!("maybe\t{line}\n"))
        .collect();
    assert_eq!(checked, expected);
    let checked = place.run("segment check merged out");
    assert_eq!(checked.code, Some(1), "{checked:?}");

    let json = place.run("inspect merged --json").json();
    assert_eq!(
        (&json["kind"], &json["n"], &json["w"], &json["p"]),
        (&"segment".into(), &2000.into(), &40.into(), &28.into())
    );
    let bits = json["bits_per_item"].as_f64().expect("a number");
    assert!((30.0..31.0).contains(&bits), "{bits}");
    let text = place.run("inspect merged").text();
    for row in [
        "n              2000",
        "w              40",
        "P              28",
        "bits per item  30.",
    ] {
        assert!(text.contains(row), "{row} is not in: {text}");
    }
}

#[test]
fn empty_inputs_make_empty_files() {
    let place = Place::new();
    place.write("none", "\n");
    place.run("block build --width 5 none -o block").ok();
    assert_eq!(place.read("block"), [0; 4]);
    place.run("segment build --width 8 none -o segment").ok();
    assert_eq!(place.run("inspect segment --json").json()["n"], 0);
    assert_eq!(place.run("segment check segment none").code, Some(1));
}

#[test]
fn invalid_input_of_blocks_and_segments_leaves_no_file() {
    let place = Place::new();
    place.write("in", elements(0..10));
    place.write("short", "00\n");
    place.write("text", "not hex\n");
    place.run("segment build --width 20 in -o s20").ok();
    place.run("segment build --width 30 in -o s30").ok();
    place.run("block build --width 10 in -o b10").ok();
    let mut damaged = place.read("s20");
    damaged[17] ^= 1;
    place.write("damaged", damaged);
    place.write("odd", [0; 33]);
    let before = place.names();
    place.fail_each(
        "",
        "
        segment build --width 7 in -o new => 8 to 56
        segment build --width 57 in -o new => 8 to 56
        segment build --width -1 in -o new => below zero
        segment build --width 20 short -o new => short, element 1: expected 64 hex digits, not 2
        segment merge s20 s30 -o new => s30: width 30
        segment merge s20 damaged -o new => damaged:
        segment merge b10 -o new => not a .gcs file
        segment merge -o new => FILE
        segment fold --width 21 s20 -o new => 21
        segment check damaged in => checksum
        segment check - - => both
        inspect damaged => checksum
        inspect s20 --member 00 => segment check
        check s20 in => segment check
        block build --width 4 in -o new => 2^5
        block build --width 27 in -o new => 2^26
        block fold --width 11 b10 -o new => 11
        block fold --width 5 odd -o new => 33 bytes
        block check odd in => 33 bytes",
    );
    // Without the options of `build` for other formats.
    let error = place.run("segment build --width 20 text -o new").error();
    assert!(
        error.ends_with("digit; the input looks like text\n"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
    assert_eq!(place.names(), before);
}
