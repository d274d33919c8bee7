//! `nutfilter publish`, read back by `nutfilter check` through a server of static files.

use nutfilter_mint::NoteKind;
use nutfilter_sample::Sample;

use super::file_server::serve_files;
use super::support::{Server, mint, replace};
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

#[test]
fn publish_refuses_what_it_cannot_reach() {
    mint().0.fail_each(
        "publish --once",
        "
        cdk-mintd.sqlite --mint-database . => cdk-mintd.sqlite: Not a directory
        x => --mint-database",
    );
}

/// A server of the files of another mint, whose info is this text.
fn with_info(place: &Place, info: &str) -> String {
    std::fs::create_dir_all(place.path("mint/v1")).unwrap();
    place.write("mint/v1/info", info);
    serve_files(place.path("mint"))
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
