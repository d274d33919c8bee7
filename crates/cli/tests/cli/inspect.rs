use nutfilter::Params;
use nutfilter_cashu::FilterResponse;
use nutfilter_testing::filter_of;

use crate::nutfilter::{Place, assert_contains, hex, item, lines};

fn write_filter(place: &Place, name: &str, items: u32) {
    place.write(name, filter_of((0..items).map(item), Params::CASHU, 1_767_225_600).to_json());
}

#[test]
fn figures_of_a_filter_are_correct() {
    let place = Place::new();
    write_filter(&place, "spent.json", 1000);
    let raw = FilterResponse::from_json(place.read("spent.json")).expect("a response").content;
    let json = place.run("inspect spent.json --json").json();
    assert_eq!(json["valid"], true);
    assert_eq!((&json["n"], &json["p"], &json["m"]), (&1000.into(), &19.into(), &784_931.into()));
    assert_eq!(json["bytes"], raw.len());
    assert_eq!(json["bits_per_item"], raw.len() as f64 * 8.0 / 1000.0);
    assert_eq!(json["rate"], 1.0 / 784_931.0);
    assert_eq!(json["timestamp"], 1_767_225_600);

    let text = place.run("inspect spent.json").text();
    for row in [
        "items          1000\n",
        "P              19\n",
        "M              784931\n",
        "rate           1 in 784931 look-ups\n",
        "timestamp      1767225600 (Thu, 01 Jan 2026 00:00:00 GMT)\n",
        "valid          yes",
    ] {
        assert!(text.contains(row), "{row:?} is not in\n{text}");
    }
}

#[test]
fn damaged_filter_is_exit_code_2_in_json_too() {
    let place = Place::new();
    write_filter(&place, "spent.json", 1000);
    let good = String::from_utf8(place.read("spent.json")).expect("text");
    for (bad, wanted) in [
        (good.replace("\"n\":1000", "\"n\":999"), "999 items"),
        (good.replace("\"n\":1000", "\"n\":1001"), "1001 items"),
        (good.replace("\"n\":1000", "\"n\":1"), "of 1 items has 2630 bytes"),
        (good.replace("784931", "0"), "M is 0"),
        ("{}".to_owned(), "missing field"),
        (String::new(), "not a filter response"),
    ] {
        place.write("bad.json", bad);
        let error = place.run("inspect bad.json").error();
        assert_contains(&error, "bad.json: ");
        assert_contains(&error, wanted);
        let ran = place.run("inspect bad.json --json");
        assert_eq!(ran.code, Some(2));
        let json: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        assert_eq!(json["valid"], false);
        assert!(json["error"].as_str().is_some_and(|error| error.contains(wanted)), "{json}");
        assert!(ran.stderr.contains(wanted));
    }
}

#[test]
fn closed_stdout_does_not_hide_an_invalid_filter() {
    let place = Place::new();
    place.write("bad.json", "{}");
    write_filter(&place, "good.json", 10);
    for (file, code) in [("bad.json", 2), ("good.json", 0)] {
        for args in [&format!("inspect {file} --json"), &format!("inspect {file}")] {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            let ran = place.command(args).stdout(writer).output();
            assert_eq!(ran.expect("the binary").status.code(), Some(code), "{args:?}");
        }
    }
}

#[test]
fn printed_block_filter_is_read_with_its_block_hash() {
    let place = Place::new();
    // The genesis block of testnet, as `getblockfilter` prints its filter.
    let hash = "000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943";
    let internal = "43497fd7f826957108f4a30fd9cec3aeba79972084e90ead01ea330900000000";
    let json = r#"{ "filter": "019dfca8", "header": "21584579b7eb08997773e5aeff3a7f93" }"#;
    let member = "4104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba\
                  0b8d578a4c702b6bf11d5fac";
    place.write("script", member);
    for (name, printed) in [("json", json), ("hex", "019dfca8\n")] {
        place.write(name, printed);
        let shown = place.run(format!("inspect {name}")).text();
        assert_contains(&shown, "profile        bip158\n");
        let check = |hash| format!("check {name} script --count --block-hash {hash}");
        assert_eq!(place.run(check(hash)).text(), "maybe\t1\nabsent\t0\n");
        place.fails(check(internal), "give the printed form");
        place.fails(format!("check {name} script"), "needs --block-hash HASH: 64 hex digits");
        place.fails(format!("check {name} script --profile nut25"), "--profile bip158, not nut25");
    }
    place.write("odd", "{\"filter\":\"019dfca\"}");
    place.fails("inspect odd", "odd: odd number of hex digits (7)");
}

#[test]
fn built_block_filter_is_read_in_hex_with_its_leading_count() {
    let place = Place::new();
    place.write("items", lines(0..300));
    let key = "--block-hash 00112233445566778899aabbccddeeff";
    let build = format!("build items --format raw --profile bip158 {key}");
    place.write("block", hex(&place.run(build).ok()));
    assert_eq!(place.run("inspect block --json").json()["n"], 300);
    let counts = place.run(format!("check block items --count {key}"));
    assert_eq!(counts.text(), "maybe\t300\nabsent\t0\n");
}
