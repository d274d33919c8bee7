//! Services that run, and services that cannot start.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nutfilter_mint::NoteKind;
use nutfilter_sample::Sample;

use super::support::{Server, failure, kill, nutfilter, sample, serve, serve_from};
use crate::nutfilter::assert_contains;

#[test]
fn filters_of_a_mint_are_served_under_the_base_path() {
    let directory = tempfile::tempdir().unwrap();
    let sample = sample(directory.path());
    let server = Server::start(serve_from(directory.path(), "--base-path /Bitcoin"));
    assert!(server.base.ends_with("/Bitcoin"));
    for kind in NoteKind::ALL {
        let (status, body) = server.get(&format!("/v1/filter/{kind}/{}", sample.keyset));
        assert_eq!(status, "HTTP/1.1 200 OK");
        let response = nutfilter_cashu::FilterResponse::from_json(body.as_bytes()).unwrap();
        let filter = response.into_filter().unwrap();
        assert_eq!(u64::from(filter.n()), sample.count(kind));
        let notes: Vec<_> = (0..sample.count(kind))
            .map(|index| sample.note(kind, index))
            .collect();
        assert!(filter.matches(&notes).iter().all(|&matched| matched));
    }
    let (_, health) = server.get("/health");
    let health: serde_json::Value = serde_json::from_str(&health).unwrap();
    assert_eq!(
        (&health["status"], &health["spent"]),
        (&"ok".into(), &300.into())
    );
    let (status, body) = server.get("/v1/filter/spent/00ffffffffffffff");
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert_contains(&body, "12001");
    assert_eq!(server.get("/v1/keysets").0, "HTTP/1.1 200 OK");
}

#[test]
fn environment_alone_can_configure_a_service() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let server = Server::start(
        nutfilter()
            .arg("serve")
            .env("MINT_DATABASE", directory.path())
            .env("MINT_TYPE", "cdk")
            .env("MINT_API", "https://mint.example")
            .env("NUTFILTER_LISTEN", "localhost:0")
            .env("LOG_LEVEL", "error"),
    );
    // Left to the mint, which has its own URL.
    assert_eq!(server.get("/v1/keysets").0, "HTTP/1.1 404 Not Found");
    assert_eq!(server.get("/health").0, "HTTP/1.1 200 OK");
}

#[cfg(unix)]
#[test]
fn signal_ends_the_service_cleanly() {
    for signal in ["-TERM", "-INT"] {
        let directory = tempfile::tempdir().unwrap();
        sample(directory.path());
        let mut server = Server::start(serve_from(directory.path(), ""));
        // A client is connected and sends nothing.
        let address = server.base.strip_prefix("http://").unwrap();
        let _idle = TcpStream::connect(address).unwrap();
        kill(&server.child, signal);
        server.wait_for("stopped");
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{signal}");
    }
}

#[test]
fn invalid_setup_is_reported_immediately() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let database = directory.path().to_str().unwrap();
    let missing = directory.path().join("missing.sqlite3");
    let missing = missing.to_str().unwrap();
    let cases: [(&str, &str); 14] = [
        (
            "",
            "mint_database is missing: set --mint-database, MINT_DATABASE",
        ),
        (
            &format!("--mint-database {missing} --wait-for-database=off"),
            "database not found below ",
        ),
        (
            "--mint-database postgres://mint:secret@127.0.0.1:1/mint --wait-for-database=off",
            "postgres://mint@127.0.0.1:1/mint: connecting",
        ),
        (
            "--mint-database mysql://mint:secret@db/mint",
            "unsupported database scheme 'mysql'",
        ),
        (
            "--mint-database sqlite://mint:secret@db/mint",
            "no user or password",
        ),
        (
            &format!("--mint-database {database} --log-level foo"),
            "[possible values: error, warn, info, debug, trace]",
        ),
        (
            &format!("--mint-database {database} --log-level warn,axum=off"),
            "--log-level",
        ),
        (
            &format!("--mint-database {database} --log-level="),
            "--log-level",
        ),
        (
            &format!("--mint-database {database} --mint-type nutshell --wait-for-database=off"),
            "`proofs_used`",
        ),
        (
            &format!("--mint-database {database} --mint-type other"),
            "possible values: cdk, nutshell",
        ),
        (
            &format!("--mint-database {database} --base-path /{{id}}"),
            "base_path: invalid value `/{id}`",
        ),
        (
            &format!("--mint-database {database} --mint-api mint.example"),
            "http:// or https://",
        ),
        (
            &format!("--mint-database {database} --refresh 0"),
            "--refresh",
        ),
        (
            &format!("--mint-database {database} --config {missing}"),
            "missing.sqlite3: No such file",
        ),
    ];
    for (arguments, expected) in cases {
        let message = failure(nutfilter().arg("serve").args(arguments.split_whitespace()));
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files, 1, "nothing is made beside the database");
}

/// All variables of the template.
fn variables() -> Vec<String> {
    let output = nutfilter()
        .args(["serve", "--print-config-template"])
        .output()
        .unwrap();
    let template = String::from_utf8(output.stdout)
        .unwrap()
        .replace("\n# ", " ");
    let after = template.split(" Environment: ").skip(1);
    let names = after.map(|rest| rest[..rest.find('.').unwrap()].to_owned());
    let mut names: Vec<_> = names.collect();
    assert!(names.len() > 20, "{names:?}");
    names.push("NUTFILTER_CONFIG".to_owned());
    names
}

#[test]
fn empty_variable_counts_as_unset() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let mut command = nutfilter();
    command.envs(variables().into_iter().map(|name| (name, "")));
    let message = failure(command.arg("serve"));
    assert_contains(&message, "mint_database is missing");
    // All others have a default. Only the port is set here, because the default port may be taken.
    command
        .env("MINT_DATABASE", directory.path())
        .args(["--listen", "127.0.0.1:0"]);
    let server = Server::start(&mut command);
    assert!(
        server.base.starts_with("http://127.0.0.1:"),
        "{}",
        server.base
    );
    assert_eq!(server.get("/v1/keysets").0, "HTTP/1.1 200 OK");
}

#[test]
fn values_of_variables_may_have_any_case() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    for (mint_type, level) in [("CDK", "WARNING"), ("Cdk", "Warn"), ("cdk", "INFO")] {
        let mut server = Server::start_unready(
            serve("")
                .env("MINT_DATABASE", directory.path())
                .env("MINT_TYPE", mint_type)
                .env("LOG_LEVEL", level),
        );
        let until_ready = server.wait_for("ready");
        assert!(
            until_ready.contains("no process has the database open"),
            "{level} warns: {until_ready}"
        );
        // Only the level `info` reports the refresh, perhaps a moment later.
        match level {
            "INFO" if !until_ready.contains("refreshed") => drop(server.wait_for("refreshed")),
            "INFO" => {}
            _ => assert!(!until_ready.contains("refreshed"), "{until_ready}"),
        }
    }
}

#[test]
fn build_too_warns_of_a_copy_without_its_wal_file() {
    let directory = tempfile::tempdir().unwrap();
    let sample = sample(directory.path());
    let build = |more: &str| {
        let output = nutfilter()
            .args(["build", "--kind", "spent", "--keyset"])
            .arg(sample.keyset.as_str())
            .args(["--mint-database".as_ref(), directory.path()])
            .args(more.split_whitespace())
            .output()
            .unwrap();
        assert!(output.status.success());
        assert!(nutfilter_cashu::FilterResponse::from_json(output.stdout).is_ok());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = build("");
    assert_contains(&said, "WARN");
    assert_contains(&said, "its -wal file is not visible here");
    assert_eq!(build("--quiet"), "");
}

/// The sample with another text in place of the ID of its only keyset, throughout the file.
fn sample_of_no_keyset(directory: &Path) -> Sample {
    let sample = sample(directory);
    let path = directory.join("cdk-mintd.sqlite");
    let mut bytes = std::fs::read(&path).unwrap();
    let id = sample.keyset.as_str().as_bytes();
    let places: Vec<usize> = (0..bytes.len() - id.len())
        .filter(|&at| bytes[at..].starts_with(id))
        .collect();
    for at in places {
        bytes[at..at + id.len()].copy_from_slice(b"not an id at all");
    }
    std::fs::write(&path, bytes).unwrap();
    sample
}

#[test]
fn build_too_reports_invalid_keyset_ids() {
    let directory = tempfile::tempdir().unwrap();
    let sample = sample_of_no_keyset(directory.path());
    let said = failure(
        nutfilter()
            .args(["build", "--kind", "spent", "--keyset"])
            .arg(sample.keyset.as_str())
            .args(["--mint-database".as_ref(), directory.path()]),
    );
    assert_contains(&said, "invalid keyset ids");
    assert_contains(&said, "not an id at all");
}

#[test]
fn invalid_keyset_ids_are_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    sample_of_no_keyset(directory.path());
    let mut server = Server::start_unready(serve_from(
        directory.path(),
        "--refresh 1 --log-level debug",
    ));
    let said = server.wait_for("refreshed");
    assert_contains(&said, "invalid keyset ids");
    let later = server.wait_for("refreshed");
    assert!(!later.contains("invalid keyset ids"), "{later}");
}

#[cfg(unix)]
#[test]
fn second_signal_does_not_wait_for_open_requests() {
    let directory = tempfile::tempdir().unwrap();
    let sample = sample(directory.path());
    let mut server = Server::start(serve_from(directory.path(), ""));
    // A client requests more than a connection can buffer, and does not read it.
    let address = server.base.strip_prefix("http://").unwrap();
    let mut stuck = TcpStream::connect(address).unwrap();
    stuck.set_nonblocking(true).unwrap();
    let request = format!(
        "GET /v1/filter/spent/{} HTTP/1.1\r\nhost: mint\r\n\r\n",
        sample.keyset
    );
    let requests = request.repeat(300_000);
    let (mut sent, mut progress) = (0, Instant::now());
    while progress.elapsed() < Duration::from_millis(500) {
        assert!(sent < requests.len(), "the server still reads");
        match stuck.write(&requests.as_bytes()[sent..]) {
            Ok(more) => (sent, progress) = (sent + more, Instant::now()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }

    kill(&server.child, "-TERM");
    server.wait_for("waiting up to 10 s for open requests");
    kill(&server.child, "-INT");
    server.wait_for("stopped at the second signal");
    assert_eq!(server.child.wait().unwrap().code(), Some(2));
}
