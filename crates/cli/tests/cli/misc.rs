use std::io;
use std::process::Command;

use crate::nutfilter::{Place, assert_contains, lines};

const COMMANDS: &str = "build check restore inspect serve demo completions";

#[test]
fn help_and_version_succeed_and_unknown_options_fail() {
    let place = Place::new();
    let version = place.run("--version").text();
    assert_eq!(version, format!("nutfilter {}\n", env!("CARGO_PKG_VERSION")));
    for command in COMMANDS.split(' ') {
        let help = place.run(format!("{command} --help")).text();
        assert_contains(&help, "Usage: nutfilter");
        assert_contains(&help, "--quiet");
    }
    let help = place.run("--help").text();
    let (_, commands) = help.split_once("Commands:\n").expect("commands");
    let commands = commands.lines().map_while(|line| line.split_whitespace().next());
    let commands: Vec<_> = commands.filter(|&name| name != "help").collect();
    assert_eq!(commands.join(" "), COMMANDS);
    place.run("").error();
    place.run("biuld").error();
}

#[test]
fn help_has_80_columns() {
    let place = Place::new();
    for command in COMMANDS.split(' ') {
        let help = place.run(format!("{command} --help")).text();
        let long = help.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "{command}");
    }
}

/// As with `2>&1 | head -c 0`.
#[test]
fn closed_outputs_cause_no_panic() {
    let place = Place::new();
    place.write("items", lines(0..20_000));
    place.run("build items -o filter").ok();
    for args in ["build items", "build missing", "check filter items", "inspect filter", "--help"] {
        let mut command = place.command(args);
        for stream in [Command::stdout, Command::stderr] {
            let (reader, writer) = io::pipe().expect("a pipe");
            drop(reader);
            stream(&mut command, writer);
        }
        let code = command.status().expect("the binary").code();
        // 101 is the exit code of a panic.
        assert!(matches!(code, Some(0..=2)), "{args:?}: {code:?}");
    }
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let printed = Place::new().run(format!("completions {shell}")).text();
        for command in ["build", "check", "restore", "inspect", "serve", "demo"] {
            assert!(printed.contains(command), "{shell}: {command}");
        }
    }
}
