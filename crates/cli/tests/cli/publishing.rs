//! `nutfilter publish`, read back by `nutfilter check` through a server of static files.

use std::path::{Path, PathBuf};

use nutfilter_mint::NoteKind;
use nutfilter_sample::Sample;

use super::file_server::{request, serve_files};
use super::support::{Server, failure, nutfilter, sample, serve_from};
use crate::nutfilter::assert_contains;

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

/// Runs a command that must succeed, and returns what it wrote.
fn succeed(command: &mut std::process::Command) -> (String, String) {
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    (String::from_utf8(output.stdout).unwrap(), errors)
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
    let (_, log) = succeed(publish(directory.path(), &root).arg("--once"));
    assert_contains(&log, "published");
    assert_contains(&log, "objects=3");
    let url = serve_files(root.clone());
    assert_eq!(checked(&url, &sample, NoteKind::Spent), 300);
    assert_eq!(checked(&url, &sample, NoteKind::Issued), 200);
    let keysets = std::fs::read_to_string(root.join("v1/keysets")).unwrap();
    assert_contains(&keysets, sample.keyset.as_str());
}

#[cfg(unix)]
#[test]
fn publisher_follows_the_database_until_stopped() {
    use super::support::kill;
    let directory = tempfile::tempdir().unwrap();
    let sample = sample(directory.path());
    let root = directory.path().join("public");
    let mut command = publish(directory.path(), &root);
    command.args(["--refresh", "3600"]);
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

/// The paths of all files below a directory, from `/` on.
fn paths(root: &Path, below: &str) -> Vec<String> {
    let mut paths = vec![];
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{below}/{}", entry.file_name().to_str().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => paths.extend(self::paths(root, &path)),
            false => paths.push(path),
        }
    }
    paths
}

#[test]
fn follow_reads_state_filters_that_are_published_as_served() {
    let directory = tempfile::tempdir().unwrap();
    let mut sample = sample(directory.path());
    let (root, data) = (
        directory.path().join("public"),
        directory.path().join("data"),
    );
    let options = [
        "--state-filters=proof_state,blind_signature",
        "--block-width=9",
    ];
    let run = || {
        let mut command = publish(directory.path(), &root);
        command.args(options).arg("--once");
        succeed(command.arg("--data-dir").arg(&data)).1
    };
    run();
    let database = directory.path().join("cdk-mintd.sqlite");
    for kind in NoteKind::ALL {
        sample.grow(&database, kind, 30).unwrap();
    }
    run();
    let log = run();
    let says_so = log.contains("nothing new to publish");
    assert!(says_so && !log.contains("published"), "{log}");

    let url = serve_files(root.clone());
    let candidates: PathBuf = directory.path().join("candidates");
    let note = |kind, index| -> String {
        let note = sample.note(kind, index);
        note.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    for (kind, name, format) in [
        (NoteKind::Spent, "proof_state", "segments"),
        (NoteKind::Issued, "blind_signature", "segments"),
        (NoteKind::Issued, "blind_signature", "blocks"),
    ] {
        let [old, new, absent] = [7, sample.count(kind) - 1, 10_000].map(|index| note(kind, index));
        std::fs::write(&candidates, [&*old, &new, &absent].join("\n")).unwrap();
        let follow = format!("follow --once --mint {url} --kind {name} --format {format}");
        let mut command = nutfilter();
        let (found, _) = succeed(command.args(follow.split(' ')).arg(&candidates));
        assert!(found.contains(&old) && found.contains(&new) && !found.contains(&absent));
    }

    let mut serve = serve_from(&database, "");
    let server = Server::start(serve.args(options).arg("--data-dir").arg(&data));
    let paths = paths(&root, "v1/filters");
    assert!(paths.len() > 15, "{paths:?}");
    for path in paths {
        let (head, served) = request("GET", &server.base, &format!("/{path}"), "");
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
        assert!(served == std::fs::read(root.join(&path)).unwrap(), "{path}");
    }
}

#[test]
fn publish_refuses_what_it_cannot_reach() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let mut to_ftp = publish(directory.path(), Path::new("ftp://host/x"));
    let error = failure(to_ftp.arg("--once"));
    assert_contains(&error, "unsupported destination ftp://");
    let mut without_data = publish(directory.path(), &directory.path().join("x"));
    let error = failure(without_data.args(["--once", "--state-filters=proof_state"]));
    assert_contains(&error, "state_filters: needs data_dir");
    let mut without_database = nutfilter();
    without_database
        .arg("publish")
        .arg(directory.path().join("x"));
    let error = failure(without_database.arg("--once"));
    assert_contains(&error, "mint_database is missing");
}

#[test]
fn damage_in_state_filters_is_listed_and_does_not_stop_the_service() {
    let directory = tempfile::tempdir().unwrap();
    let sample = sample(directory.path());
    let data = directory.path().join("data");
    let root = directory.path().join("public");
    let publish_ = || {
        let mut command = publish(directory.path(), &root);
        command.args(["--once", "--state-filters=proof_state", "--data-dir"]);
        command.arg(&data);
        command
    };
    succeed(&mut publish_());
    let verify = |code| {
        let output = nutfilter().arg("verify").arg(&data).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(verify(0), "");
    let known = data.join("state-filters/proof_state/known");
    let file = std::fs::read_dir(known)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    std::fs::write(&file, "nutknow1").unwrap();
    let damage = verify(1);
    assert!(damage.starts_with(file.to_str().unwrap()), "{damage}");
    assert_eq!(damage.lines().count(), 1);

    let error = failure(&mut publish_());
    assert_contains(&error, "the others are published");
    let server = Server::start(serve_from(
        directory.path(),
        &format!("--state-filters=proof_state --data-dir {}", data.display()),
    ));
    let said = "not publishing state filters of this kind";
    assert_contains(&server.all, said);
    let filter = server.get(&format!("/v1/filter/spent/{}", sample.keyset));
    assert!(filter.0.starts_with("HTTP/1.1 200"), "{}", filter.0);
    let output = nutfilter().arg("verify").arg(&data).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "in use");
    drop(server);
    assert_eq!(
        failure(nutfilter().arg("verify").arg(directory.path().join("none")))
            .lines()
            .count(),
        1
    );
}

#[test]
fn kind_that_lacks_notes_is_not_announced() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let mint = directory.path().join("mint");
    std::fs::create_dir_all(mint.join("v1")).unwrap();
    std::fs::write(mint.join("v1/info"), r#"{"nuts":{}}"#).unwrap();
    let url = serve_files(mint);
    let announced = |root: &Path| -> serde_json::Value {
        let data = root.with_extension("data");
        succeed(
            publish(directory.path(), root)
                .args(["--once", "--mint-api", &url, "--data-dir"])
                .arg(data)
                .args([
                    "--state-filters=blind_signature",
                    "--state-filters-info-key=S",
                ]),
        );
        let info = std::fs::read(root.join("v1/info")).unwrap();
        serde_json::from_slice(&info).unwrap()
    };
    let complete = announced(&directory.path().join("complete"));
    assert_eq!(complete["nuts"]["S"]["kinds"][0], "blind_signature");
    let database = rusqlite::Connection::open(directory.path().join("cdk-mintd.sqlite")).unwrap();
    // A point of a curve that is not known.
    let sql = "UPDATE blind_signature SET blinded_message = zeroblob(96) WHERE rowid = 1";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    let lacking = announced(&directory.path().join("lacking"));
    assert!(lacking["nuts"]["S"].is_null(), "{lacking}");
    assert!(lacking["nuts"]["25"].is_object(), "{lacking}");
}

#[test]
fn entry_of_the_mint_with_our_key_gives_one_warning() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let root = directory.path().join("mint");
    std::fs::create_dir_all(root.join("v1")).unwrap();
    let info = r#"{"name":"m","nuts":{"25":{"methods":[]}}}"#;
    std::fs::write(root.join("v1/info"), info).unwrap();
    let url = serve_files(root);
    let mut server = Server::start(serve_from(directory.path(), &format!("--mint-api {url}")));
    if !server.all.contains("set another info_key") {
        server.wait_for("set another info_key");
    }
    // The answer is stored after the log line.
    let start = std::time::Instant::now();
    while server.get("/v1/info").1 != info {
        assert!(start.elapsed().as_secs() < 20, "not served");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
