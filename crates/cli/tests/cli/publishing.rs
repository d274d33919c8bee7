//! `nutfilter publish`, read back by `nutfilter check` through a server of static files.

use std::path::Path;

use nutfilter_mint::NoteKind;
use nutfilter_sample::Sample;

use super::file_server::{request, serve_files};
use super::support::{Server, mint, replace, serve_from};
use crate::nutfilter::{Place, Ran, assert_contains, hex};

/// The number of notes in the filter that `check` fetches from `url`; checks that a note of the sample is in it.
fn checked(url: &str, sample: &Sample, kind: NoteKind) -> u64 {
    let keyset = &sample.keyset;
    let args = format!("check --json --mint {url} --keyset {keyset} --kind {kind} -");
    let items = hex(&sample.note(kind, 7));
    let json = Place::new().run_with(args, items.as_bytes()).json();
    json["n"].as_u64().unwrap()
}

/// `publish` of the mint in this directory into its folder `public`.
const PUBLISH: &str = "publish public --mint-database .";

fn publish(place: &Place, options: &str) -> Ran {
    place.run(format!("{PUBLISH} {options}"))
}

#[test]
fn check_reads_what_publish_wrote() {
    let (place, sample) = mint();
    let ran = publish(&place, "--once");
    assert_contains(&ran.stderr, "published");
    assert_contains(&ran.stderr, "objects=3");
    ran.ok();
    let url = serve_files(place.path("public"));
    assert_eq!(checked(&url, &sample, NoteKind::Spent), 300);
    assert_eq!(checked(&url, &sample, NoteKind::Issued), 200);
    let keysets = String::from_utf8(place.read("public/v1/keysets")).unwrap();
    assert_contains(&keysets, sample.keyset.as_str());
}

#[cfg(unix)]
#[test]
fn publisher_follows_the_database_until_stopped() {
    use super::support::kill;
    let (place, sample) = mint();
    let mut publisher = Server::watch(place.command(format!("{PUBLISH} --refresh 3600")));
    publisher.wait_for("published");
    let url = serve_files(place.path("public"));
    assert_eq!(checked(&url, &sample, NoteKind::Spent), 300);

    let larger = replace(&place);
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
    let (place, mut sample) = mint();
    let options = "--state-filters=proof_state,blind_signature --block-width=9 --data-dir data";
    let run = || {
        let ran = publish(&place, &format!("{options} --once"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stderr
    };
    run();
    let database = place.path("cdk-mintd.sqlite");
    for kind in NoteKind::ALL {
        sample.grow(&database, kind, 30).unwrap();
    }
    run();
    let log = run();
    let says_so = log.contains("nothing new to publish");
    assert!(says_so && !log.contains("published"), "{log}");

    let root = place.path("public");
    let url = serve_files(root.clone());
    for (kind, name, format) in [
        (NoteKind::Spent, "proof_state", "segments"),
        (NoteKind::Issued, "blind_signature", "segments"),
        (NoteKind::Issued, "blind_signature", "blocks"),
    ] {
        let indices = [7, sample.count(kind) - 1, 10_000];
        let [old, new, absent] = indices.map(|index| hex(&sample.note(kind, index)));
        let follow = format!("follow --once --mint {url} --kind {name} --format {format} -");
        let candidates = [&*old, &new, &absent].join("\n");
        let found = place.run_with(follow, candidates.as_bytes()).text();
        assert!(found.contains(&old) && found.contains(&new) && !found.contains(&absent));
    }

    let mut serve = serve_from(&database, options);
    let server = Server::start(serve.current_dir(place.root()));
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
    mint().0.fail_each(
        "publish --once",
        "
        ftp://host/x --mint-database . => unsupported destination ftp://
        x --mint-database . --state-filters=proof_state => state_filters: needs data_dir
        x => mint_database is missing",
    );
}

#[test]
fn damage_in_state_filters_is_listed_and_does_not_stop_the_service() {
    let (place, sample) = mint();
    let options = "--state-filters=proof_state --data-dir data";
    let once = format!("{options} --once");
    publish(&place, &once).ok();
    assert_eq!(place.run("verify data").text(), "");
    let known = "data/state-filters/proof_state/known";
    let file = format!("{known}/{}", place.names_in(known)[0]);
    place.write(&file, "nutknow1");
    let ran = place.run("verify data");
    let damage = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.code, Some(1), "{damage}");
    assert!(damage.starts_with(&file), "{damage}");
    assert_eq!(damage.lines().count(), 1);

    publish(&place, &once).error_with("the others are published");
    let mut serve = serve_from(place.root(), options);
    let server = Server::start(serve.current_dir(place.root()));
    let said = "not publishing state filters of this kind";
    assert_contains(&server.all, said);
    let filter = server.get(&format!("/v1/filter/spent/{}", sample.keyset));
    assert!(filter.0.starts_with("HTTP/1.1 200"), "{}", filter.0);
    place.run("verify data").error_with("in use");
    drop(server);
    assert_eq!(place.run("verify none").error().lines().count(), 1);
}

/// A server of the files of another mint, whose info is this text.
fn with_info(place: &Place, info: &str) -> String {
    std::fs::create_dir_all(place.path("mint/v1")).unwrap();
    place.write("mint/v1/info", info);
    serve_files(place.path("mint"))
}

#[test]
fn kind_that_lacks_notes_is_not_announced() {
    let (place, _) = mint();
    let url = with_info(&place, r#"{"nuts":{}}"#);
    let announced = |root: &str| -> serde_json::Value {
        let database = format!("--mint-database . --mint-api {url} --data-dir {root}.data");
        let state = "--state-filters=blind_signature --state-filters-info-key=S";
        let ran = place.run(format!("publish {root} --once {database} {state}"));
        ran.ok();
        serde_json::from_slice(&place.read(&format!("{root}/v1/info"))).unwrap()
    };
    let complete = announced("complete");
    assert_eq!(complete["nuts"]["S"]["kinds"][0], "blind_signature");
    let database = rusqlite::Connection::open(place.path("cdk-mintd.sqlite")).unwrap();
    // A point of a curve that is not known.
    let sql = "UPDATE blind_signature SET blinded_message = zeroblob(96) WHERE rowid = 1";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    let lacking = announced("lacking");
    assert!(lacking["nuts"]["S"].is_null(), "{lacking}");
    assert!(lacking["nuts"]["25"].is_object(), "{lacking}");
}

#[test]
fn entry_of_the_mint_with_our_key_gives_one_warning() {
    let (place, _) = mint();
    let info = r#"{"name":"m","nuts":{"25":{"methods":[]}}}"#;
    let url = with_info(&place, info);
    let mut server = Server::of(&place, &format!("--mint-api {url}"));
    server.has_said("set another info_key");
    // The answer is stored after the log line.
    let start = std::time::Instant::now();
    while server.get("/v1/info").1 != info {
        assert!(start.elapsed().as_secs() < 20, "not served");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
