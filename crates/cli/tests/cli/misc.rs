use std::io;
use std::process::Command;

use crate::nutfilter::{Place, assert_contains, lines};

#[test]
fn plan_follows_the_formulas_of_the_format() {
    let place = Place::new();
    let json = place.run("plan --items 1000000 --json").json();
    assert_eq!((&json["p"], &json["m"]), (&19.into(), &784_931.into()));
    // 21.05 bits per item, as documented for the format.
    let bytes = json["bytes"].as_u64().expect("bytes");
    assert!((2_620_000..2_640_000).contains(&bytes), "{bytes}");
    assert_eq!(json["base64_bytes"], bytes.div_ceil(3) * 4);
    let chance = json["false_positive_chance"].as_f64().expect("a chance");
    let wanted = 1.0 - (1.0 - 1.0 / 784_931.0_f64).powi(1000);
    assert!((chance - wanted).abs() < 1e-12, "{chance} and not {wanted}");

    let json = place.run("plan --items 10 --rate 1/1024 --json").json();
    assert_eq!((&json["m"], &json["p"]), (&1024.into(), &9.into()));
    let json = place.run("plan --items 10 --m 1048576 --lookups 1 --json");
    let json = json.json();
    assert_eq!((&json["m"], &json["p"]), (&1_048_576.into(), &19.into()));
    assert_eq!(json["lookups"], 1);
    let text = place.run("plan --items 1M").text();
    assert_contains(&text, "bytes          2,631,549 (2.5 MiB)\n");
    assert_contains(&text, "M              784931\n");
    assert_contains(&text, "0.127 %");
}

#[test]
fn invalid_plans_are_errors() {
    let place = Place::new();
    place.fail_each(
        "plan",
        "
        => --items
        --items 4294967296 => is too large
        --items 1 --rate 2 => rate of 2 is not between
        --items 1 --rate 0 => rate of 0 is not between
        --items 1 --rate nan => rate of NaN is not between
        --items 1 --rate rare => not a number
        --items 1 --m 0 => M is 0
        --items 1 --m 5 --rate 0.1 => cannot be used with
        --items -5 => '--items <N>': is below zero
        --items 1 --rate -0.5 => rate of -0.5 is not between
        --items 1 --rate -1/8 => rate of -0.125 is not
        --items 1 --m -7 => '--m <M>': is below zero
        --items 1 --lookups -7 => '--lookups <X>': is below zero",
    );
}

const COMMANDS: &str = "build check restore inspect plan serve demo completions man";

#[test]
fn completion_script_of_each_shell_has_all_subcommands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(format!("completions {shell}")).text();
        for command in COMMANDS.split(' ') {
            assert!(script.contains(command), "{shell} does not know {command}");
        }
    }
    place.fails("completions tcsh", "tcsh");
}

#[test]
fn man_prints_or_writes_a_page_per_subcommand() {
    let place = Place::new();
    let main = place.run("man").text();
    assert_contains(&main, ".TH nutfilter 1");
    let build = place.run("man build").text();
    assert_contains(&build, ".TH nutfilter-build 1");
    assert_contains(&build, "keyset");
    place.fails(
        "man biuld",
        "unknown subcommand 'biuld'; there are build, check",
    );
    std::fs::create_dir(place.path("man1")).expect("a directory");
    place.run("man --output-dir man1").ok();
    let page = place.read("man1/nutfilter-check.1");
    assert!(page.len() > 1000, "{} bytes", page.len());
    place.run("man --output-dir missing").error();
}

#[test]
fn help_and_version_succeed_and_unknown_options_fail() {
    let place = Place::new();
    let version = place.run("--version").text();
    assert_eq!(
        version,
        format!("nutfilter {}\n", env!("CARGO_PKG_VERSION"))
    );
    for command in COMMANDS.split(' ') {
        let help = place.run(format!("{command} --help")).text();
        assert_contains(&help, "Usage: nutfilter");
        assert_contains(&help, "--quiet");
    }
    let help = place.run("--help").text();
    let (_, commands) = help.split_once("Commands:\n").expect("commands");
    let commands = commands
        .lines()
        .map_while(|line| line.split_whitespace().next());
    let commands: Vec<_> = commands.filter(|&name| name != "help").collect();
    assert_eq!(commands.join(" "), COMMANDS);
    place.run("").error();
    place.run("biuld").error();
    place.run("plan --items 1 --threads 0").error();
    place.run("plan --items 1 --threads 2").ok();
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
    for args in [
        "build items",
        "build missing",
        "check filter items",
        "inspect filter",
        "plan --items 5",
        "completions bash",
        "--help",
    ] {
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
