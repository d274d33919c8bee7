//! The command as users start it: exit codes, files and what it says. Measuring is done by stand-ins for cargo and
//! valgrind that hand out a kept record.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const RECORDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/record");
const RECORD: &str = "xeon-1-cpus/2026-11-21-c5fa937.json";

/// Writes what it is asked for to the last argument, and notes its arguments.
const CARGO: &str = r#"#!/bin/sh
echo "$@" >> "$STAND_IN/log"
for last; do :; done
case "$1" in
run) /bin/cp "$STAND_IN/peers.json" "$last" ;;
bench) /bin/echo '{"rustc": "rustc 1", "valgrind": "valgrind-3", "counts": [{"name": "a/b/1k/avx2", "instructions": 7}]}' > "$last" ;;
esac
"#;

fn dashboard(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nutfilter-dashboard"));
    command.args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ends(output: &Output, code: i32) -> String {
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

fn record() -> PathBuf {
    Path::new(RECORDS).join(RECORD)
}

/// The kept record with something done to its text.
fn changed(folder: &TempDir, name: &str, change: impl Fn(&mut serde_json::Value)) -> String {
    let mut value = serde_json::from_str(&fs::read_to_string(record()).unwrap()).unwrap();
    change(&mut value);
    let path = folder.path().join(name);
    fs::write(&path, value.to_string()).unwrap();
    path.to_string_lossy().into_owned()
}

fn program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn run_puts_the_parts_together_and_keeps_a_record_that_report_reads() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    program(&at("cargo"), CARGO);
    fs::create_dir(at("bin")).unwrap();
    fs::copy(record(), at("peers.json")).unwrap();
    let records = at("record");
    let run = |more: &[&str]| {
        let records = records.to_string_lossy().into_owned();
        let mut command = dashboard(&["run", "--quick", "--only", "decode/", "--record", &records]);
        command
            .args(more)
            .env("CARGO", at("cargo"))
            .env("STAND_IN", folder.path());
        // Nothing else is found: there is valgrind where the test puts one.
        command.env("PATH", at("bin")).output().unwrap()
    };
    let said = ends(&run(&[]), 0);
    assert!(
        said.contains("1 of 2: times") && said.contains("valgrind is not there"),
        "{said}"
    );
    program(&at("bin/valgrind"), "#!/bin/sh\n");
    let said = ends(&run(&[]), 0);
    assert!(
        said.contains("2 of 3: instructions") && said.contains("2026-11-21-c5fa937-2.json"),
        "{said}"
    );
    let said = ends(&run(&["--no-instructions"]), 0);
    assert!(
        said.contains("1 of 2: times") && !said.contains("valgrind"),
        "{said}"
    );

    let log = fs::read_to_string(at("log")).unwrap();
    assert!(
        log.contains("benches/peers/Cargo.toml -- --quick --only decode/ --output"),
        "{log}"
    );
    assert_eq!(
        log.matches("bench --bench gate -- --output").count(),
        1,
        "{log}"
    );
    let kept = fs::read_to_string(records.join("xeon-1-cpus/2026-11-21-c5fa937-2.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["instructions"]["counts"][0]["instructions"], 7);
    assert!(kept["rows"].as_array().unwrap().len() > 100);

    let (page, records) = (at("page.html"), records.to_string_lossy().into_owned());
    let arguments = [
        "report",
        "--record",
        &records,
        "--fuzz",
        "nowhere",
        "--output",
        &page.to_string_lossy(),
    ];
    let said = ends(&dashboard(&arguments).output().unwrap(), 0);
    assert!(said.contains("3 records, 0 campaigns"), "{said}");
    assert!(
        fs::read_to_string(page)
            .unwrap()
            .contains("xeon-1-cpus/2026-11-21-c5fa937-3.json")
    );
}

#[test]
fn a_run_whose_measuring_fails_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("record");
    let cargo = folder.path().join("cargo");
    program(&cargo, "#!/bin/sh\nexit 3\n");
    let mut command = dashboard(&["run", "--record", &records.to_string_lossy()]);
    let said = ends(&command.env("CARGO", &cargo).output().unwrap(), 2);
    assert!(said.contains("ended with exit status: 3"), "{said}");
    assert!(!records.exists());
}

#[test]
fn report_stops_at_a_file_that_is_no_record() {
    let folder = tempfile::tempdir().unwrap();
    changed(&folder, "odd.json", |record| {
        record["machine"]["cpus"] = "two".into()
    });
    let page = folder.path().join("page.html");
    let (records, page) = (folder.path().to_string_lossy(), page.to_string_lossy());
    let said = ends(
        &dashboard(&["report", "--record", &records, "--output", &page])
            .output()
            .unwrap(),
        2,
    );
    assert!(
        said.contains("odd.json") && said.contains(".machine.cpus is no integer"),
        "{said}"
    );
    assert!(!Path::new(&*page).exists());
}

#[test]
fn compare_ends_with_1_where_something_rose_and_with_2_where_it_cannot_say() {
    let folder = tempfile::tempdir().unwrap();
    let slower = changed(&folder, "slower.json", |record| {
        let row = &mut record["rows"][3];
        for time in ["minimum", "median"] {
            row[time] = (row[time].as_f64().unwrap() * 2.0).into();
        }
    });
    let before = record().to_string_lossy().into_owned();
    let compare = |before: &str, after: &str, more: &[&str]| {
        dashboard(&[&["compare", before, after], more].concat())
            .output()
            .unwrap()
    };
    assert!(ends(&compare(&before, &before, &[]), 0).contains("0 rose"));
    assert!(ends(&compare(&before, &slower, &[]), 1).contains("1 of the rises bind"));
    ends(&compare(&slower, &before, &[]), 0);
    ends(&compare(&before, &slower, &["--threshold", "150%"]), 0);
    let json = compare(&before, &slower, &["--json"]);
    assert_eq!(json.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (json["rises"].as_u64(), json["times"][0]["mark"].as_str()),
        (Some(1), Some("rose"))
    );
    ends(&compare(&before, "nowhere.json", &[]), 2);
    ends(&compare(&before, &slower, &["--threshold", "much"]), 2);
}

#[test]
fn export_writes_to_a_file_or_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let (record, file) = (record(), folder.path().join("bmf.json"));
    let (record, path) = (record.to_string_lossy(), file.to_string_lossy());
    let shown = dashboard(&["export", "--format", "bmf", &record])
        .output()
        .unwrap();
    ends(&shown, 0);
    ends(
        &dashboard(&["export", "--format", "bmf", "--output", &path, &record])
            .output()
            .unwrap(),
        0,
    );
    assert_eq!(fs::read(&file).unwrap(), shown.stdout);
    let list = dashboard(&["export", "--format", "github-action-benchmark", &record])
        .output()
        .unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    assert!(list.as_array().unwrap().len() > 100);
    ends(
        &dashboard(&["export", "--format", "csv", &record])
            .output()
            .unwrap(),
        2,
    );
}
