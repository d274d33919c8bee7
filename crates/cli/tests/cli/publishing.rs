//! `serve --output`: filters as files, and what becomes of them when something goes wrong.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nutfilter_cashu::{FilterResponse, PointKind};
use nutfilter_mint::NoteKind;
use nutfilter_testing::Sample;

use super::support::{Server, mint, replace, serve_from};
use crate::asking_mint::Mint;
use crate::nutfilter::{Place, Ran, assert_contains, hex};

/// `serve` of the mint in this directory into its folder `public`.
const SERVE: &str = "serve --mint-database . --output public";

fn once(place: &Place) -> Ran {
    place.run(format!("{SERVE} --once"))
}

/// Serves the files of a directory with nothing but GET.
fn serve_files(root: PathBuf) -> Mint {
    Mint::answering(move |request| match fs::read(root.join(&request.path()[1..])) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", b"no such file".to_vec()),
    })
}

/// The number of notes in the filter that `check` fetches from `url`; checks that a note of the sample is in it.
fn checked(url: &str, sample: &Sample, kind: NoteKind) -> u64 {
    let keyset = &sample.keyset;
    let args = format!("check --json --mint {url} --keyset {keyset} --kind {kind} -");
    let mut notes = (0..sample.count(kind)).map(|index| sample.note(kind, index));
    let note = notes.find(|note| PointKind::on_curve(note).is_some());
    let items = hex(&note.unwrap());
    let json = Place::new().run_with(args, items.as_bytes()).json();
    json["n"].as_u64().unwrap()
}

fn name_of(sample: &Sample) -> String {
    format!("public/v1/filter/spent/{}", sample.keyset)
}

/// The count and the date of a valid filter.
fn count_and_date(json: &[u8]) -> (u32, u64) {
    let response = FilterResponse::from_json(json).unwrap();
    let date = response.timestamp;
    (response.into_filter().unwrap().n(), date)
}

#[cfg(unix)]
#[test]
fn once_writes_json_and_its_compressed_form() {
    use std::os::unix::fs::PermissionsExt;
    let (place, sample) = mint();
    let ran = once(&place);
    assert_contains(&ran.stderr, "refreshed");
    ran.ok();
    let mint = serve_files(place.path("public"));
    assert_eq!(checked(&mint.url, &sample, NoteKind::Spent), 300);
    assert_eq!(checked(&mint.url, &sample, NoteKind::Issued), 200);
    let keysets = String::from_utf8(place.read("public/v1/keysets")).unwrap();
    assert_contains(&keysets, sample.keyset.as_str());
    let name = name_of(&sample);
    let compressed = place.path(&format!("{name}.gz"));
    let unpacked = Command::new("gzip").arg("-dc").arg(&compressed).output();
    assert!(unpacked.unwrap().stdout == place.read(&name));
    for file in [place.path(&name), compressed] {
        let mode = fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }
    // Variables of a service on the same machine do not matter.
    let mut command = place.command(format!("{SERVE} --once"));
    Ran::from(command.env("NUTFILTER_LISTEN", "127.0.0.1:1").output().unwrap()).ok();
}

#[test]
fn m_is_that_of_every_filter_also_after_a_change() {
    let (place, sample) = mint();
    for (option, m, p) in
        [("", 784_931, 19), ("--m 16777216", 1 << 24, 23), ("--m 1000000", 1_000_000, 19)]
    {
        place.run(format!("{SERVE} --once {option}")).ok();
        for kind in NoteKind::ALL {
            let name = format!("public/v1/filter/{kind}/{}", sample.keyset);
            let response = FilterResponse::from_json(place.read(&name)).unwrap();
            assert_eq!((response.params.m(), response.params.p()), (m, p));
        }
        let mint = serve_files(place.path("public"));
        assert_eq!(checked(&mint.url, &sample, NoteKind::Spent), 300);
    }
    place.fails(
        format!("{SERVE} --once --m 784930"),
        "must be a whole number from 784931 to 4294967295",
    );
}

#[test]
fn once_fails_if_anything_could_not_be_updated() {
    let (place, sample) = mint();
    once(&place).ok();
    let before = place.read(&name_of(&sample));
    let database = place.path("cdk-mintd.sqlite");
    fs::rename(&database, place.path("away")).unwrap();
    once(&place).error_with("0 databases with a known name");
    assert!(place.read(&name_of(&sample)) == before);

    fs::rename(place.path("away"), &database).unwrap();
    replace(&place);
    // Nothing can be put in the place of a directory.
    fs::remove_file(place.path(&name_of(&sample))).unwrap();
    fs::create_dir_all(place.path(&format!("{}/x", name_of(&sample)))).unwrap();
    let said = once(&place).error_with("1 filters could not be updated; the others are published");
    assert_contains(&said, "could not write v1/filter/spent/");
    let issued = place.read(&name_of(&sample).replace("spent", "issued"));
    assert_eq!(count_and_date(&issued).0, 201);
}

#[cfg(unix)]
#[test]
fn files_follow_the_database_without_listening() {
    let (place, sample) = mint();
    let mut server = Server::watch(place.command(format!("{SERVE} --refresh 3600")));
    server.wait_for("refreshed");
    let mint = serve_files(place.path("public"));
    assert_eq!(checked(&mint.url, &sample, NoteKind::Spent), 300);
    // One process an output.
    once(&place).error_with("another process publishes to this directory");

    let larger = replace(&place);
    server.reread();
    assert_eq!(checked(&mint.url, &larger, NoteKind::Spent), 301);
    // A directory that was taken away is made again.
    fs::remove_dir_all(place.path("public")).unwrap();
    server.reread();
    assert_eq!(checked(&mint.url, &larger, NoteKind::Issued), 201);
    server.stop();
    assert!(!server.all.contains("listening"), "{}", server.all);
}

#[test]
fn old_keyset_ids_are_names_of_files() {
    let (place, sample) = mint();
    let database = rusqlite::Connection::open(place.path("cdk-mintd.sqlite")).unwrap();
    let sql = "PRAGMA foreign_keys = OFF; UPDATE keyset SET id = '/2yN+iR//kz/';
        UPDATE proof SET keyset_id = '/2yN+iR//kz/';
        UPDATE blind_signature SET keyset_id = '/2yN+iR//kz/'";
    database.execute_batch(sql).unwrap();
    drop(database);
    once(&place).ok();
    let json = place.read("public/v1/filter/spent/_2yN-iR__kz_");
    assert_eq!(u64::from(count_and_date(&json).0), sample.count(NoteKind::Spent));
    let server = without_database(&place);
    for spelling in ["_2yN-iR__kz_", "%2F2yN%2BiR%2F%2Fkz%2F", "/2yN+iR//kz/"] {
        let path = format!("/v1/filter/spent/{spelling}");
        assert_eq!(server.get(&path).0, "HTTP/1.1 200 OK", "{spelling}");
    }
}

/// A service without a database, for what was published.
fn without_database(place: &Place) -> Server {
    let options = format!("--output {}", place.path("public").display());
    Server::start_unready(serve_from(&place.path("none"), &options))
}

#[test]
fn damaged_file_is_not_served_and_is_made_again() {
    let (place, sample) = mint();
    once(&place).ok();
    let (name, path) = (name_of(&sample), format!("/v1/filter/spent/{}", sample.keyset));
    let mut damaged = place.read(&name);
    damaged[3] ^= 1;
    place.write(&name, damaged);
    let server = without_database(&place);
    assert_contains(&server.seen, "not serving a file of the output directory");
    assert_contains(&server.seen, &name);
    assert_eq!(server.get(&path).0, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(server.get("/v1/keysets").0, "HTTP/1.1 200 OK");
    drop(server);
    once(&place).ok();
    assert_eq!(without_database(&place).get(&path).0, "HTTP/1.1 200 OK");
}

#[cfg(unix)]
#[test]
fn notes_that_are_gone_stay_until_the_loss_is_accepted() {
    use super::support::kill;
    let (place, sample) = mint();
    let options = format!("--refresh 3600 --output {}", place.path("public").display());
    let mut server = Server::of(&place, &options);
    server.has_said("refreshed");
    let database = rusqlite::Connection::open(place.path("cdk-mintd.sqlite")).unwrap();
    let sql = "PRAGMA foreign_keys = OFF; DELETE FROM proof; DELETE FROM blind_signature; DELETE FROM keyset";
    database.execute_batch(sql).unwrap();
    drop(database);
    kill(&server.child, "-HUP");
    server.wait_for("items are no longer in the database");
    let path = format!("/v1/filter/spent/{}", sample.keyset);
    assert_eq!(server.get(&path).0, "HTTP/1.1 200 OK");
    server.until("/metrics", "nutfilter_items_lost_total 500\n");
    server.stop();
    // To a process that starts now, this is another mint's database.
    for args in ["--once", "--listen 127.0.0.1:0"] {
        let ran = place.run(format!("{SERVE} {args}"));
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert_contains(&ran.stderr, "none of the 1 published keysets is in this database");
    }
    assert_eq!(count_and_date(&place.read(&name_of(&sample))).0, 300);
}

#[test]
fn once_holds_a_keyset_after_a_restored_backup() {
    let (place, sample) = mint();
    let backup = place.read("cdk-mintd.sqlite");
    replace(&place);
    once(&place).ok();
    fs::remove_file(place.path("cdk-mintd.sqlite")).unwrap();
    place.write("cdk-mintd.sqlite", backup);
    let held = once(&place);
    assert_eq!(held.code, Some(3), "{}", held.stderr);
    let (count, date) = count_and_date(&place.read(&name_of(&sample)));
    assert_eq!(count, 301);
    let accept = format!("--accept-loss {}=2@{date}", sample.keyset);
    assert_contains(&held.stderr, &accept);
    let accepted = place.run(format!("{SERVE} --once {accept}"));
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    assert_eq!(count_and_date(&place.read(&name_of(&sample))).0, 300);
    place.fails(
        format!("{SERVE} --once --accept-loss {}=2", sample.keyset),
        "must be KEYSET=VALUES@DATE",
    );
}

#[test]
fn removed_file_is_made_again_once_somebody_asks_for_it() {
    let (place, sample) = mint();
    let options = format!("--refresh 3600 --output {}", place.path("public").display());
    let mut server = Server::of(&place, &options);
    server.has_said("refreshed");
    let path = format!("/v1/filter/spent/{}", sample.keyset);
    fs::remove_file(place.path(&name_of(&sample))).unwrap();
    assert_eq!(server.get(&path).0, "HTTP/1.1 503 Service Unavailable");
    server.until(&path, "200 OK");
    assert_eq!(count_and_date(&place.read(&name_of(&sample))).0, 300);
}

#[test]
fn once_leaves_metrics_for_a_collector_and_says_an_error_once() {
    let (place, _) = mint();
    once(&place).ok();
    let metrics = |place: &Place| String::from_utf8(place.read("public/.nutfilter.prom")).unwrap();
    assert_contains(&metrics(&place), "nutfilter_status{status=\"ok\"} 1\n");
    assert_contains(&metrics(&place), "nutfilter_items{kind=\"spent\"} 300\n");
    let ran = place.run("serve --mint-database gone.sqlite --output public --once");
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.stderr.matches("database not found").count(), 1, "{}", ran.stderr);
    assert_contains(&metrics(&place), "nutfilter_last_refresh_timestamp_seconds 0\n");
}

#[cfg(unix)]
#[test]
fn inspect_prints_what_a_mint_serves_and_its_age() {
    let (place, sample) = mint();
    let server = Server::of(&place, "--refresh 3600");
    let (url, keyset) = (&server.base, &sample.keyset);
    let run = |args: &str| Place::new().run(format!("inspect {args}"));
    let lines = run(url).text();
    let kinds: Vec<_> = lines.lines().map(|line| line.rsplitn(3, '\t').last().unwrap()).collect();
    let expected = [format!("{keyset}\tspent\t300"), format!("{keyset}\tissued\t200")];
    assert_eq!(kinds, expected);
    let one = format!("{url}/v1/filter/issued/{keyset}");
    let rows = run(&format!("{one} --json --max-age 86400")).json();
    assert_eq!((&rows[0]["kind"], &rows[0]["n"]), (&"issued".into(), &200.into()));
    assert_eq!(rows.as_array().unwrap().len(), 1);
    // Dates are multiples of the interval of a minute at most.
    while run(&format!("{one} --max-age 1")).code == Some(0) {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(run(&format!("{url} --max-age 1")).code, Some(3));
    assert_eq!(run(&format!("{url}/v1/filter/spent/00ffffffffffffff")).code, Some(2));
    assert_eq!(run("x --max-age 1").code, Some(2));
    // Of a keyset that ended, the filters may stay as they were.
    let database = rusqlite::Connection::open(place.path("cdk-mintd.sqlite")).unwrap();
    database.execute_batch("UPDATE keyset SET valid_to = 1700000000").unwrap();
    super::support::kill(&server.child, "-HUP");
    server.until("/v1/keysets", "final_expiry");
    assert_eq!(run(&format!("{url} --max-age 1")).code, Some(0));
}

#[test]
fn info_of_the_mint_is_kept_while_the_mint_is_down() {
    let (place, _) = mint();
    fs::create_dir_all(place.path("mint/v1")).unwrap();
    place.write("mint/v1/info", r#"{"name":"m","nuts":{"4":{}},"time":1}"#);
    let other = serve_files(place.path("mint"));
    let server = Server::of(&place, &format!("--mint-api {}", other.url));
    server.until("/v1/info", "200 OK");
    fs::remove_file(place.path("mint/v1/info")).unwrap();
    let announced = r#"{"name":"m","nuts":{"4":{}},"filters":{"supported":true}}"#;
    assert_eq!(server.get("/v1/info").1, announced);
    assert_contains(&server.get("/metrics").1, "nutfilter_info_failures_total 0\n");
}
