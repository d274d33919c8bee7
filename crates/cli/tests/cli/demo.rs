//! `nutfilter demo`: from an empty disk to figures.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::nutfilter::assert_contains;

fn demo(temporary: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nutfilter"));
    command
        .arg("demo")
        .args(arguments.split_whitespace())
        .env("TMPDIR", temporary)
        .stdin(Stdio::null());
    command
}

/// Sends a signal. Returns the exit code.
#[cfg(unix)]
fn stop(child: &mut std::process::Child, signal: &str) -> Option<i32> {
    let id = child.id().to_string();
    let status = Command::new("kill").args([signal, &id]).status();
    assert!(status.unwrap().success());
    child.wait().unwrap().code()
}

/// The two cells of a row in the table.
fn row<'a>(text: &'a str, name: &str) -> [&'a str; 2] {
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no row `{name}` in\n{text}"));
    let cells: Vec<&str> = line[name.len()..].split_whitespace().collect();
    cells.try_into().unwrap()
}

#[test]
fn once_prints_the_figures_and_a_command_that_works() {
    let temporary = tempfile::tempdir().unwrap();
    let output = demo(temporary.path(), "--once --items 12k")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(row(&text, "notes in the filter"), ["12,000"; 2]);
    assert_eq!(row(&text, "notes checked"), ["5,000"; 2]);
    assert_eq!(row(&text, "known to the mint"), ["2,500"; 2]);
    assert_eq!(row(&text, "found"), ["2,500"; 2]);
    for bits in row(&text, "bits per note") {
        let bits: f64 = bits.parse().unwrap();
        assert!((20.9..21.2).contains(&bits), "{bits}");
    }
    let response = row(&text, "response, bytes")[0].replace(',', "");
    let megabytes = response.parse::<f64>().unwrap() / 1e6;
    let conclusion = format!(
        "2,500 of 2,500 spent notes found, 0 false positives; downloaded {megabytes:.2} MB; \
         the mint learned 0 notes.\n"
    );
    assert_contains(&text, &conclusion);

    let steps = String::from_utf8(output.stderr).unwrap();
    for (number, line) in (1..=3).zip(steps.lines()) {
        assert!(line.starts_with(&format!("{number}/3 ")), "{steps}");
    }
    assert_eq!(steps.lines().count(), 3, "{steps}");

    let command = text.lines().find(|line| line.starts_with("  /"));
    let command = command.unwrap_or_else(|| panic!("no command to try in\n{text}"));
    let mut words = command.trim_start().split(' ');
    // The running program, which need not be installed.
    let program = words.next().unwrap();
    assert_eq!(program, env!("CARGO_BIN_EXE_nutfilter"));
    let tried = Command::new(program).args(words).output().unwrap();
    assert_eq!(tried.status.code(), Some(0), "{command}");
    assert_eq!(tried.stdout, b"maybe\t2500\nabsent\t2500\n");
    // Only the files to try are left.
    let mut left: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().collect();
    let directory = left.pop().unwrap().unwrap().path();
    assert!(left.is_empty());
    assert_eq!(names(&directory), ["spent.json", "wallet.hex"]);
    let stays = format!("stay in {}", directory.display());
    assert_contains(&text, &stays);
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn mint_of_one_note_is_enough() {
    let temporary = tempfile::tempdir().unwrap();
    let output = demo(temporary.path(), "--once --items 1").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(row(&text, "found"), ["1"; 2]);
}

#[test]
fn sample_is_kept_on_request_and_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let keep = directory.path().join("sample");
    let arguments = format!("--once --items 10 --keep {}", keep.display());
    assert!(
        demo(directory.path(), &arguments)
            .output()
            .unwrap()
            .status
            .success()
    );
    let database = std::fs::read(keep.join("cdk-mintd.sqlite")).unwrap();
    let again = demo(directory.path(), &arguments).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("not overwritten"));
    assert!(std::fs::read(keep.join("cdk-mintd.sqlite")).unwrap() == database);
    let files = ["cdk-mintd.sqlite", "spent.json", "wallet.hex"];
    assert_eq!(names(&keep), files, "no draft is left");
    // A file of another program is not overwritten either.
    std::fs::remove_file(keep.join("cdk-mintd.sqlite")).unwrap();
    let again = demo(directory.path(), &arguments).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("spent.json: already exists"));
}

#[cfg(unix)]
#[test]
fn demo_serves_until_interrupted_and_then_cleans_up() {
    use std::io::{BufRead, BufReader};

    let temporary = tempfile::tempdir().unwrap();
    let mut child = demo(temporary.path(), "--items 10")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let curl = log.find_map(|line| {
        line.unwrap()
            .strip_prefix("  curl -s http://")
            .map(str::to_owned)
    });
    let curl = curl.expect("a line to try");
    // A filter would flood the terminal.
    let large = log.by_ref().take(3).map(Result::unwrap);
    for line in large.filter(|line| line.contains("/v1/filter/")) {
        assert!(
            line.contains("curl -sI ") || line.contains(" -o "),
            "{line}"
        );
    }
    let (address, _) = curl.split_once('/').unwrap();
    assert!(std::net::TcpStream::connect(address).is_ok());
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 1);

    assert_eq!(stop(&mut child, "-INT"), Some(0));
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn interruption_during_the_work_cleans_up_too() {
    let temporary = tempfile::tempdir().unwrap();
    // More notes than can be written before the signal arrives.
    let mut child = demo(temporary.path(), "--once --items 20000000")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while std::fs::read_dir(temporary.path()).unwrap().count() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(stop(&mut child, "-INT"), Some(2));
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn interruption_leaves_no_partial_files_in_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let keep = directory.path().join("sample");
    let arguments = format!("--items 20000000 --keep {}", keep.display());
    let mut child = demo(directory.path(), &arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Wait until some of it is on disk.
    let written = || {
        let drafts = std::fs::read_dir(&keep).into_iter().flatten().flatten();
        let mut files = drafts.flat_map(|draft| draft.path().join("cdk-mintd.sqlite").metadata());
        files.any(|file| file.len() > 0) || keep.join("cdk-mintd.sqlite").exists()
    };
    while !written() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(stop(&mut child, "-INT"), Some(2));
    assert_eq!(std::fs::read_dir(&keep).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn address_is_printed_even_with_quiet() {
    use std::io::{BufRead, BufReader};

    let temporary = tempfile::tempdir().unwrap();
    let mut child = demo(temporary.path(), "--quiet --items 10")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(log.any(|line| line.unwrap().contains("curl -s http://127.0.0.1:")));
    assert_eq!(stop(&mut child, "-TERM"), Some(0));
}

#[test]
fn demo_prints_no_warning_and_help_states_its_disk_use() {
    let temporary = tempfile::tempdir().unwrap();
    let output = demo(temporary.path(), "--once --items 10")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !said.contains("WARN"),
        "the sample is known to be closed: {said}"
    );
    let help = demo(temporary.path(), "--help").output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("55 MB"));
}
