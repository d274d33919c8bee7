//! Services that run, and services that cannot start.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant, UNIX_EPOCH};

use nutfilter_mint::NoteKind;

use super::support::{Server, kill, mint, nutfilter, serve_from};
use crate::nutfilter::assert_contains;

#[test]
fn filters_of_a_mint_are_served() {
    let (place, sample) = mint();
    let server = Server::of(&place, "");
    for kind in NoteKind::ALL {
        let (status, body) = server.get(&format!("/v1/filter/{kind}/{}", sample.keyset));
        assert_eq!(status, "HTTP/1.1 200 OK");
        let response = nutfilter_cashu::FilterResponse::from_json(body.as_bytes()).unwrap();
        let filter = response.into_filter().unwrap();
        assert_eq!(u64::from(filter.n()), sample.count(kind));
        let notes: Vec<_> = (0..sample.count(kind)).map(|index| sample.note(kind, index)).collect();
        assert!(filter.matches(&notes).iter().all(|&matched| matched));
    }
    let (_, health) = server.get("/health");
    let health: serde_json::Value = serde_json::from_str(&health).unwrap();
    assert_eq!((&health["status"], &health["spent"]), (&"ok".into(), &300.into()));
    let (status, body) = server.get("/v1/filter/spent/00ffffffffffffff");
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert_contains(&body, "12001");
    assert_eq!(server.get("/v1/keysets").0, "HTTP/1.1 200 OK");
}

#[test]
fn environment_alone_can_configure_a_service() {
    let (place, _) = mint();
    let server = Server::start(
        nutfilter()
            .arg("serve")
            .env("MINT_DATABASE", place.root())
            .env("MINT_TYPE", "Cdk")
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
        let (place, _) = mint();
        let mut server = Server::of(&place, "");
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
    let (place, _) = mint();
    place.fail_each(
        "serve",
        "
        => not provided: --mint-database <PATH|URL> [env: MINT_DATABASE]
        --mint-database . --once --output cdk-mintd.sqlite => cdk-mintd.sqlite: Not a directory
        --mint-database none.sqlite3 --once --output public => database not found: none.sqlite3
        --mint-database postgres://mint:secret@127.0.0.1:1/mint --once --output public => \
            postgres://mint@127.0.0.1:1/mint: connecting
        --mint-database sqlite://mint:secret@db/mint => no user or password
        --mint-database . --log-level foo => [possible values: error, warn, info, debug, trace]
        --mint-database . --log-level warn,axum=off => --log-level
        --mint-database . --mint-type nutshell --once --output public => `proofs_used`",
    );
    assert!(place.names_in("public").iter().all(|name| name.starts_with('.')));
}

#[test]
fn database_that_no_mint_has_open_is_dated_by_its_last_change() {
    let (place, sample) = mint();
    let path = place.path("cdk-mintd.sqlite");
    let dated = |seconds: &str| {
        let changed = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for file in ["cdk-mintd.sqlite", "cdk-mintd.sqlite-wal"] {
            let file = std::fs::File::open(place.path(file));
            file.map_or(Ok(()), |file| file.set_modified(changed)).unwrap();
        }
        assert_eq!(place.run("serve --mint-database . --output public --once --quiet").stderr, "");
        let filter = place.read(&format!("public/v1/filter/spent/{}", sample.keyset));
        assert_contains(&String::from_utf8(filter).unwrap(), &format!("\"timestamp\":{seconds}"));
        std::fs::remove_dir_all(place.path("public")).unwrap();
    };
    dated("1700000000");
    // A killed mint leaves its log.
    let mint = rusqlite::Connection::open(&path).unwrap();
    let keeps_log = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    mint.set_db_config(keeps_log, true).unwrap();
    mint.execute_batch("PRAGMA user_version = 1").unwrap();
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs().to_string();
    dated(&now[..5]);
    drop(mint);
    assert!(place.path("cdk-mintd.sqlite-wal").exists());
    dated("1700000000");
}

#[test]
fn invalid_keyset_ids_are_reported_once() {
    let (place, sample) = mint();
    // Put another text in place of the only ID, throughout the file.
    let mut bytes = place.read("cdk-mintd.sqlite");
    let id = sample.keyset.as_str().as_bytes();
    for at in 0..bytes.len() - id.len() {
        if bytes[at..].starts_with(id) {
            bytes[at..at + id.len()].copy_from_slice(b"not an id at all");
        }
    }
    place.write("cdk-mintd.sqlite", bytes);
    let mut server =
        Server::start_unready(serve_from(place.root(), "--refresh 1 --log-level debug"));
    let said = server.wait_for("refreshed");
    assert_contains(&said, "invalid keyset ids");
    assert_contains(&said, "not an id at all");
    let later = server.wait_for("refreshed");
    assert!(!later.contains("invalid keyset ids"), "{later}");
}

#[cfg(unix)]
#[test]
fn second_signal_does_not_wait_for_open_requests() {
    let (place, sample) = mint();
    let mut server = Server::of(&place, "");
    // A client requests more than a connection can buffer, and does not read it.
    let address = server.base.strip_prefix("http://").unwrap();
    let mut stuck = TcpStream::connect(address).unwrap();
    stuck.set_nonblocking(true).unwrap();
    let request = format!("GET /v1/filter/spent/{} HTTP/1.1\r\nhost: mint\r\n\r\n", sample.keyset);
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
