//! Operating a running service: signals, logs and messages.

use std::time::Duration;

use super::support::{PATIENCE, Server, kill, mint, sample, serve, serve_from};
use crate::nutfilter::{Place, assert_contains, hex};

#[test]
fn missing_database_is_reported_and_waited_for() {
    let place = Place::new();
    let mint = place.path("mint");
    let mut server = Server::start_unready(serve_from(&mint, ""));
    let said = server.wait_for("nothing to serve yet");
    assert_contains(&said, "database not found");
    let (status, health) = server.get("/health");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert_contains(&health, "failing");
    assert_eq!(server.get("/v1/keysets").0, "HTTP/1.1 503 Service Unavailable");

    std::fs::create_dir(&mint).unwrap();
    let sample = sample(&mint);
    server.wait_for("opened the mint's database");
    server.wait_for("ready");
    let path = format!("/v1/filter/spent/{}", sample.keyset);
    assert_eq!(server.get(&path).0, "HTTP/1.1 200 OK");
}

#[cfg(unix)]
#[test]
fn refresh_without_changes_is_logged_at_debug() {
    let (place, _) = mint();
    let mut server = Server::of(&place, "--refresh 3600 --log-level debug");
    server.has_said("refreshed");
    let level = |log: &str| {
        let line = log.lines().find(|line| line.contains("refreshed"));
        let words = line.unwrap().split_whitespace();
        words.map(str::to_owned).nth(1)
    };
    assert_eq!(level(&server.all).as_deref(), Some("INFO"));
    let said = server.reread();
    assert_eq!(level(&said).as_deref(), Some("DEBUG"), "{said}");
}

#[cfg(unix)]
#[test]
fn descriptors_limit_the_connections() {
    let (place, _) = mint();
    let serve = serve_from(place.root(), "");
    for (descriptors, connections) in [(264, 100), (1 << 14, 4096)] {
        let mut command = std::process::Command::new("/bin/sh");
        command.env_clear();
        let script = format!("ulimit -Sn {descriptors}; exec \"$0\" \"$@\"");
        command.arg("-c").arg(script).arg(serve.get_program());
        let server = Server::start_unready(command.args(serve.get_args()));
        assert_contains(&server.seen, &format!("max_connections={connections}"));
    }
}

#[cfg(unix)]
#[test]
fn json_log_is_json_from_the_first_to_the_last_line() {
    let (place, _) = mint();
    let mut server = Server::of(&place, "--log-format json --log-level debug");
    server.get("/health");
    server.reread();
    server.stop();
    assert!(server.all.lines().count() > 5, "{}", server.all);
    for line in server.all.lines() {
        let event: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event["timestamp"].is_string() && event["level"].is_string(), "{line}");
        assert!(event["fields"]["message"].is_string(), "{line}");
    }
}

#[test]
fn error_after_the_start_is_json_in_a_json_log() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (place, _) = mint();
    let address = taken.local_addr().unwrap();
    let said =
        place.run(format!("serve --log-format json --listen {address} --mint-database .")).error();
    let last: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["level"], &last["fields"]["message"]),
        (&"ERROR".into(), &"ended".into()),
        "{said}"
    );
}

#[cfg(unix)]
#[test]
fn service_manager_gets_readiness_watchdog_and_stop() {
    use std::os::unix::net::UnixDatagram;

    let place = Place::new();
    let (mint, socket) = (place.path("mint"), place.path("notify"));
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let hear = || {
        let mut heard = [0; 1024];
        let length = manager.recv(&mut heard).unwrap();
        String::from_utf8_lossy(&heard[..length]).trim_end().to_owned()
    };
    let mut server = Server::start_unready(
        serve_from(&mint, "").env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "200000"),
    );
    // Alive, but not ready while there is nothing to serve.
    server.wait_for("nothing to serve yet");
    let mut heard = String::new();
    let patience = std::time::Instant::now();
    while !heard.contains("database not found") || !heard.contains("WATCHDOG=1") {
        assert!(patience.elapsed() < PATIENCE, "{heard}");
        heard += &(hear() + "\n");
    }
    assert_contains(&heard, "STATUS=not ready: no filter yet");
    assert!(!heard.contains("READY=1"), "{heard}");
    let (status, ready) = server.get("/ready");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert_contains(&ready, "no filter yet; last refresh: database not found");
    std::fs::create_dir(&mint).unwrap();
    sample(&mint);
    let hear_next = || loop {
        let heard = hear();
        if heard != "WATCHDOG=1" {
            return heard;
        }
    };
    let mut heard = hear_next();
    while heard.starts_with("STATUS=not ready") {
        heard = hear_next();
    }
    assert_eq!(heard, "READY=1\nSTATUS=serving");
    assert_eq!(server.get("/ready").0, "HTTP/1.1 200 OK");
    kill(&server.child, "-TERM");
    assert_eq!(hear_next(), "STOPPING=1");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[cfg(unix)]
#[test]
fn no_output_contains_a_note() {
    let (place, sample) = mint();
    let mut server = Server::of(&place, "--log-level trace --mint-api http://127.0.0.1:1");
    server.get(&format!("/v1/filter/spent/{}", sample.keyset));
    let said =
        [server.get("/health").1, server.get("/metrics").1, server.get("/v1/info").1].concat();
    server.stop();
    let all = format!("{said}{}", server.all);
    assert!(all.len() > 1000);
    // The database has the notes as bytes, so search for their hex form.
    for kind in nutfilter_mint::NoteKind::ALL {
        let hex = hex(&sample.note(kind, 0));
        assert!(!all.contains(&hex[2..20]), "{all}");
    }
}

#[cfg(unix)]
#[test]
fn database_password_is_not_printed_if_it_is_unreachable() {
    let location = "postgres://mint:hunter2@127.0.0.1:1/mint?connect_timeout=1";
    let mut server = Server::start_unready(
        serve("")
            .args(["--log-level", "trace", "--log-format", "json"])
            .env("MINT_DATABASE", location),
    );
    server.wait_for("nothing to serve yet");
    let said = ["/health", "/ready", "/metrics"].map(|path| server.get(path).1).concat();
    server.stop();
    let all = format!("{said}{}", server.all);
    assert_contains(&all, "127.0.0.1:1/mint");
    assert!(!all.contains("hunter2"), "{all}");
}
