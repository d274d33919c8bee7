//! `nutfilter demo`: from an empty disk to figures.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::nutfilter::{Place, Ran, assert_contains};

/// `demo`, with temporary files in this directory.
fn demo(place: &Place, arguments: &str) -> Command {
    let mut command = place.command(format!("demo {arguments}"));
    command
        .env("TMPDIR", place.root())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Runs it to its end.
fn run(place: &Place, arguments: &str) -> Ran {
    let output = demo(place, arguments).stdout(Stdio::piped()).output();
    Ran::from(output.unwrap())
}

/// Sends a signal. Returns the exit code.
#[cfg(unix)]
fn stop(child: &mut Child, signal: &str) -> Option<i32> {
    crate::support::kill(child, signal);
    child.wait().unwrap().code()
}

#[test]
fn once_prints_the_figures_and_a_command_that_works() {
    let place = Place::new();
    let ran = run(&place, "--once --items 12000");
    let steps = ran.stderr.clone();
    let text = ran.text();
    for kind in ["issued", "spent"] {
        let (_, after) =
            text.split_once(&format!("The filter of 12,000 {kind} notes has ")).unwrap();
        let bits = after.split(' ').nth(2).unwrap().parse::<f64>().unwrap();
        assert!((20.9..21.2).contains(&bits), "{bits}");
    }
    for said in [
        "Of 5,000 candidates, 2,000 are spent, 500 live and 2,500 unused: ",
        "The mint was shown the messages of the 500 live notes, and nothing else. Downloaded: 0.08 MB.\n",
        "1 in 1,500 that one of 500 live notes was taken for spent",
    ] {
        assert_contains(&text, said);
    }

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
    assert_eq!(tried.stdout, b"maybe\t2000\nabsent\t3000\n");
    // Only the files to try are left.
    let left = place.names();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(place.names_in(&left[0]), ["pairs", "spent.json", "wallet.hex"]);
    assert_contains(&text, &format!("stay in {}", place.path(&left[0]).display()));
}

#[test]
fn mint_of_one_note_is_enough_and_raises_no_warning() {
    let ran = run(&Place::new(), "--once --items 1");
    // The sample is known to be closed.
    assert!(!ran.stderr.contains("WARN"), "{}", ran.stderr);
    assert_contains(&ran.text(), "The filter of 1 spent notes has ");
    let help = run(&Place::new(), "--help").text();
    assert_contains(&help, "55 MB");
}

#[test]
fn sample_is_kept_on_request_and_never_overwritten() {
    let place = Place::new();
    let arguments = "--once --items 10 --keep sample";
    run(&place, arguments).ok();
    let database = place.read("sample/cdk-mintd.sqlite");
    run(&place, arguments).error_with("sample: File exists");
    assert!(place.read("sample/cdk-mintd.sqlite") == database);
    let files = ["cdk-mintd.sqlite", "pairs", "spent.json", "wallet.hex"];
    assert_eq!(place.names_in("sample"), files);
}

#[cfg(unix)]
#[test]
fn demo_serves_until_interrupted_and_then_cleans_up() {
    use std::io::{BufRead, BufReader};

    // The address is printed even with --quiet.
    for (arguments, signal) in [("--items 100", "-INT"), ("--quiet --items 100", "-TERM")] {
        let place = Place::new();
        let mut child = demo(&place, arguments).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let curl = log.find_map(|line| {
            let address = line.unwrap();
            address.strip_prefix("  curl -s http://").map(str::to_owned)
        });
        let curl = curl.expect("a line to try");
        let mut restore = None;
        // A filter would flood the terminal.
        for line in log.by_ref().take(4).map(Result::unwrap) {
            let is_short = line.contains("curl -sI ") || line.contains(" -o ");
            assert!(is_short || !line.contains("/v1/filter/"), "{line}");
            restore = line.contains(" restore ").then_some(line);
        }
        // The command works while the mint is there.
        let restore = restore.expect("a command to try");
        let mut words = restore.split_whitespace();
        let program = words.next().unwrap();
        let tried = Ran::from(Command::new(program).args(words).arg("--confirm").output().unwrap());
        let text = tried.text();
        let live = text.lines().filter(|line| line.starts_with("live\t"));
        assert!(live.count() > 0 && text.lines().count() > 2_500, "{text}");
        let (address, _) = curl.split_once('/').unwrap();
        assert!(std::net::TcpStream::connect(address).is_ok());
        assert_eq!(place.names().len(), 1);
        assert_eq!(stop(&mut child, signal), Some(0));
        assert_eq!(place.names(), [""; 0]);
    }
}

#[cfg(unix)]
#[test]
fn interruption_during_the_work_leaves_no_file() {
    // More notes than can be written before the signal arrives.
    let arguments = "--once --items 20000000";
    let place = Place::new();
    let mut child = demo(&place, arguments).spawn().unwrap();
    while place.names().is_empty() {
        sleep(Duration::from_millis(5));
    }
    assert_eq!(stop(&mut child, "-INT"), Some(2));
    assert_eq!(place.names(), [""; 0]);
}
