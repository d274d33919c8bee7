//! `build --shards`: several filters for one set.

use serde_json::Value;

use crate::nutfilter::{Place, item, lines};

/// 8 times the least of a store.
const MEMORY: &str = "2M";

fn built(place: &Place, more: &str) -> Value {
    let records: Vec<u8> = (0..40_000).flat_map(item).collect();
    place.write("items", records);
    let args = format!("build items --record-bytes 33 --memory {MEMORY} --shards 8");
    place
        .run(format!("{args} -o set --json --timestamp 5 {more}"))
        .json()
}

#[test]
fn shards_find_all_members_and_are_ordinary_filters() {
    let place = Place::new();
    let made = built(&place, "");
    assert_eq!(made["n"], 40_000);
    let inspected = place.run("inspect set --json").json();
    for (field, value) in [("n", 40_000), ("shards", 8), ("timestamp", 5)] {
        assert_eq!(inspected[field], value, "{field}");
    }
    assert_eq!(inspected["bytes"], made["bytes"]);
    place.write("mine", lines(39_900..40_100));
    let checked = place.run("check set mine").text();
    let maybe = |line: &&str| line.starts_with("maybe");
    assert_eq!(checked.lines().take_while(maybe).count(), 100);
    assert_eq!(checked.lines().filter(maybe).count(), 100);
    // Each is a filter of a part of the set; only one has the first item.
    let mut n = 0;
    let mut owners = 0;
    place.write("one", lines(0..1));
    for shard in 0..8 {
        let name = format!("set/{shard:03}-of-008.gcs");
        let one = place.run(format!("inspect {name} --json")).json();
        let items = one["n"].as_u64().expect("a number");
        // 5,000 expected, with a standard deviation of 66.
        assert!((4_500..5_500).contains(&items), "{items}");
        n += items;
        owners += u8::from(place.run(format!("check {name} one")).code == Some(0));
    }
    assert_eq!((n, owners), (40_000, 1));
}

#[test]
fn incomplete_or_mixed_shards_are_errors() {
    let place = Place::new();
    built(&place, "");
    place.write("mine", lines(0..9));
    let error = || place.run("check set mine").error();
    let third = place.path("set/002-of-008.gcs");
    let saved = std::fs::read(&third).expect("a shard");
    std::fs::remove_file(&third).expect("a shard");
    assert!(error().contains("002-of-008.gcs is missing"));
    place.run("build mine -o set/002-of-008.gcs --m 1024").ok();
    assert!(error().contains("hash, P, M or time differ"));
    std::fs::write(&third, &saved[..saved.len() - 1]).expect("a file");
    assert!(error().contains("002-of-008.gcs"));
    std::fs::write(&third, saved).expect("a file");
    place.write("set/notes", "");
    assert!(error().contains("9 files instead of 8"));
    std::fs::remove_dir_all(place.path("set")).expect("a folder");
    std::fs::create_dir(place.path("set")).expect("a folder");
    assert!(error().contains("not a folder of"));
}

#[test]
fn shards_refuse_a_folder_with_files_and_other_numbers() {
    let place = Place::new();
    place.write("items", lines(0..9));
    let run = |shards, more: &str| {
        let args = format!("build items --memory {MEMORY} --shards {shards}");
        place.run(format!("{args} {more}")).error()
    };
    for shards in ["0", "1", "3", "512", "x"] {
        assert!(
            run(shards, "-o set").contains("a power of two from 2 to 256"),
            "{shards}"
        );
    }
    assert!(run("2", "-o -").contains("give --output DIR"));
    assert!(run("2", "-o set --format json").contains(".gcs files only"));
    std::fs::create_dir(place.path("set")).expect("a folder");
    place.write("set/000-of-004.gcs", "an earlier run");
    assert!(run("2", "-o set").contains("not empty"));
    assert!(run("16", "-o new").contains("131072 bytes"));
}
