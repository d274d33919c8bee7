//! `nutfilter publish`, read back by `nutfilter check` through a server of static files.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;

use nutfilter_mint::NoteKind;
use nutfilter_mint::sample::Sample;

use super::support::{Server, failure, nutfilter, sample};

/// Serves the files of a directory, and returns its URL.
fn serve_files(root: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
            let request = head.next().unwrap_or_default();
            head.find(String::is_empty);
            let path = request.split(' ').nth(1).unwrap_or("/");
            let (status, body) = match std::fs::read(root.join(&path[1..])) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", vec![]),
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    url
}

/// The number of notes in the filter that `check` fetches from `url`; checks that a note of the sample is in it.
fn checked(url: &str, sample: &Sample, kind: NoteKind) -> u64 {
    let note = sample.note(kind, 7);
    let directory = tempfile::tempdir().unwrap();
    let items = directory.path().join("items");
    let hex: String = note.iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&items, hex).unwrap();
    let output = nutfilter()
        .args(["check", "--json", "--mint", url, "--keyset"])
        .arg(sample.keyset.as_str())
        .args(["--kind", kind.as_str()])
        .arg(&items)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    json["n"].as_u64().unwrap()
}

fn publish(database: &Path, destination: &Path) -> std::process::Command {
    let mut command = nutfilter();
    command
        .arg("publish")
        .arg(destination)
        .arg("--mint-database");
    command.arg(database);
    command
}

#[test]
fn check_reads_what_publish_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let sample = sample(directory.path());
    let root = directory.path().join("public");
    let run = || {
        let output = publish(directory.path(), &root)
            .arg("--once")
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        errors
    };
    let log = run();
    assert!(
        log.contains("published") && log.contains("objects=3"),
        "{log}"
    );
    let url = serve_files(root.clone());
    assert_eq!(checked(&url, &sample, NoteKind::Spent), 300);
    assert_eq!(checked(&url, &sample, NoteKind::Issued), 200);
    let keysets = std::fs::read_to_string(root.join("v1/keysets")).unwrap();
    assert!(keysets.contains(sample.keyset.as_str()), "{keysets}");
}

#[cfg(unix)]
#[test]
fn publisher_follows_the_database_until_stopped() {
    use super::support::kill;
    let directory = tempfile::tempdir().unwrap();
    let sample = sample(directory.path());
    let root = directory.path().join("public");
    let mut command = publish(directory.path(), &root);
    command.args(["--refresh", "3600", "--jitter", "0"]);
    let mut publisher = Server::watch(&mut command);
    publisher.wait_for("published");
    let url = serve_files(root);
    assert_eq!(checked(&url, &sample, NoteKind::Spent), 300);

    std::fs::remove_file(directory.path().join("cdk-mintd.sqlite")).unwrap();
    let larger = Sample::new(301, 201);
    let database = directory.path().join("cdk-mintd.sqlite");
    larger.write(&database, &mut |_| ()).unwrap();
    kill(&publisher.child, "-HUP");
    publisher.wait_for("published");
    assert_eq!(checked(&url, &larger, NoteKind::Spent), 301);
    kill(&publisher.child, "-TERM");
    publisher.wait_for("stopped");
    assert!(publisher.child.wait().unwrap().success());
}

#[test]
fn publish_refuses_what_it_cannot_reach() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let mut to_ftp = publish(directory.path(), Path::new("ftp://host/x"));
    let error = failure(to_ftp.arg("--once"));
    assert!(error.contains("unsupported destination ftp://"), "{error}");
    let mut without_database = nutfilter();
    without_database
        .arg("publish")
        .arg(directory.path().join("x"));
    let error = failure(without_database.arg("--once"));
    assert!(error.contains("mint_database is missing"), "{error}");
}
