//! What version 0.1.0 leaves behind, under this version: its output directory, unit and environment.

use std::process::Command;

use nutfilter_testing::Sample;

use super::support::{Server, nutfilter};
use crate::nutfilter::{Place, Ran, assert_contains};

/// The files of 0.1.0 for 30 notes of each kind.
const PUBLISHED: [(&str, &str); 3] = [
    (
        "v1/keysets",
        r#"{"keysets":[{"active":true,"id":"00deadbeefc0ffee","input_fee_ppk":100,"unit":"sat"}]}"#,
    ),
    (
        "v1/filter/spent/00deadbeefc0ffee",
        r#"{"n":30,"p":19,"m":784931,"content":"kDTm09vPniARzLLdrFpg/EROnQQloLDyw399iAHHbQAvBQdB1p4n95P3Ajy8Gh22Zu5YDWDtfpKuorJ0c8j+ddbgLLMwMSser4xUzQY6wA==","timestamp":1767225600}"#,
    ),
    (
        "v1/filter/issued/00deadbeefc0ffee",
        r#"{"n":30,"p":19,"m":784931,"content":"yoRb8A8iWPTzM5mOBdG4ocK6qoX0ZnaQvPFaTFr557sZYxhbwjKeVuS83mBqCK2+7+kzGKcaUKIx0k1fPJ7bSQUUwWWxUB6u1eSRhGSBqg==","timestamp":1767225600}"#,
    ),
];

/// Every variable of 0.1.0 but the database and those that are refused by name, as the unit and its file had them.
const VARIABLES: [(&str, &str); 8] = [
    ("MALLOC_MMAP_THRESHOLD_", "1048576"),
    ("MINT_TYPE", "cdk"),
    ("NUTFILTER_OUTPUT", "public"),
    ("NUTFILTER_LISTEN", "127.0.0.1:0"),
    ("NUTFILTER_REFRESH", "60"),
    ("NUTFILTER_REREAD", "3600"),
    ("NUTFILTER_MAX_AGE", "1200"),
    ("NUTFILTER_LOG_FORMAT", "text"),
];

#[cfg(unix)]
#[test]
fn last_version_is_replaced_without_a_held_keyset() {
    let place = Place::new();
    let database = place.path("cdk-mintd.sqlite");
    Sample::new(30, 30).write(&database).unwrap();
    for (path, text) in PUBLISHED {
        let file = place.path("public").join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        let zipped = Command::new("gzip").arg("-kn1").arg(file).status();
        assert!(zipped.unwrap().success());
    }
    let serve = |variable: (&str, &str)| {
        let mut command = nutfilter();
        command.arg("serve").current_dir(place.root());
        command.envs(VARIABLES).env("MINT_DATABASE", &database);
        command.env(variable.0, variable.1);
        command
    };
    let mut server = Server::start(serve(("LOG_LEVEL", "info")));
    server.has_said("refreshed");
    let said = &server.all;
    assert_contains(said, "serving what was published before objects=3");
    for word in ["held", "not serving", "ERROR"] {
        assert!(!said.contains(word), "{said}");
    }
    assert_eq!(server.get("/ready").0, "HTTP/1.1 200 OK");
    let metrics = server.get("/metrics").1;
    assert_contains(&metrics, "nutfilter_filters{state=\"held\"} 0\n");
    // The same sets, with a newer date.
    for (path, text) in &PUBLISHED[1..] {
        let served = server.get(&format!("/{path}")).1;
        let same = text.split_once("\"timestamp\"").unwrap().0;
        assert!(served.starts_with(same) && served != *text, "{served}");
    }
    for (old, value, hint) in [
        ("NUTFILTER_INFO_KEY", "25", "was removed: unset it"),
        ("NUTFILTER_RATE", "784931", "is --m now (variable NUTFILTER_M)"),
    ] {
        Ran::from(serve((old, value)).output().unwrap()).error_with(hint);
    }
}
