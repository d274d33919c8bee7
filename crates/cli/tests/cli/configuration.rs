//! The configuration: flags, variables, and their errors.

use std::process::Command;

use super::support::mint;
use crate::nutfilter::{Place, Ran, assert_contains};

fn run(command: &mut Command) -> Ran {
    Ran::from(command.output().unwrap())
}

#[test]
fn flag_precedes_variable_precedes_default() {
    let (place, _) = mint();
    let mut command = place.command("serve --mint-database . --check-config --refresh 5");
    command
        .env("NUTFILTER_LISTEN", "127.0.0.1:0")
        .env("NUTFILTER_REFRESH", "7")
        .env("NUTFILTER_REREAD", "9");
    let shown = run(&mut command).text();
    for line in ["NUTFILTER_REFRESH=5\n", "NUTFILTER_REREAD=9\n", "NUTFILTER_M=784931\n"] {
        assert_contains(&shown, line);
    }
}

#[test]
fn check_config_prints_variables_and_changes_nothing() {
    let (place, _) = mint();
    std::fs::create_dir(place.path("public")).unwrap();
    let mut command = place.command("serve --check-config --output public --log-level WARNING");
    command
        .env("MINT_DATABASE", ".")
        .env("MINT_API", "https://mint.example")
        .env("NUTFILTER_LISTEN", "localhost:0");
    let ran = run(&mut command);
    assert_eq!(ran.stderr, "");
    let shown = ran.text();
    for line in [
        "MINT_DATABASE=.\n",
        "MINT_API=https://mint.example\n",
        "# MINT_TYPE is not set\n",
        "LOG_LEVEL=WARNING\n",
        "NUTFILTER_OUTPUT=public\n",
        "NUTFILTER_LISTEN=localhost:0\n",
        "NUTFILTER_REFRESH=60\n",
        "# cdk database with 1 keysets\n",
        "# configuration OK\n",
    ] {
        assert_contains(&shown, line);
    }
    assert_eq!(place.names(), ["cdk-mintd.sqlite", "public"]);
    assert!(place.names_in("public").is_empty());

    // What it prints is an environment that has the same effect.
    let mut again = place.command("serve --check-config");
    let lines = shown.lines().filter(|line| !line.starts_with('#'));
    again.envs(lines.map(|line| line.split_once('=').unwrap()));
    assert_eq!(run(&mut again).text(), shown);
}

#[test]
fn no_output_shows_the_password_of_a_wrong_location() {
    let place = Place::new();
    // More of them are tried where locations are parsed.
    let locations = [
        "\"postgres://mint:hunter2@127.0.0.1:1/mint\"",
        "postgres//mint:hunter2@127.0.0.1:1/mint",
        "MINT_DATABASE=postgres://mint:hunter2@127.0.0.1:1/mint",
        "mysql://mint:hunter2@127.0.0.1:1/mint",
        "user='mint' password = 'hunter2'",
    ];
    for (location, mode) in locations.iter().flat_map(|location| {
        ["--check-config", "--once --output public"].map(|mode| (location, mode))
    }) {
        for is_variable in [false, true] {
            let mut command = place.command(format!("serve {mode}"));
            match is_variable {
                false => command.args(["--mint-database", location]),
                true => command.env("MINT_DATABASE", location),
            };
            let ran = run(&mut command);
            assert_eq!(ran.code, Some(2), "{location}: {}", ran.stderr);
            let out = String::from_utf8(ran.stdout).unwrap();
            assert!(!(out + &ran.stderr).contains("hunter2"), "{location}");
        }
    }
}

/// Values that are invalid, each with what is said of it.
const INVALID: &str = "\
    MINT_DATABASE mysql://a:hunter2@b => unsupported database scheme 'mysql'
    MINT_TYPE other => [possible values: cdk, nutshell]
    MINT_API hunter2:x@mint => must begin with http:// or https://
    NUTFILTER_REFRESH 0 => must be a whole number from 1 to 86400 seconds
    NUTFILTER_REREAD much => must be a whole number from 1 to 86400 seconds
    NUTFILTER_M -1 => must be a whole number from 784931 to 4294967295
    NUTFILTER_RATE 784931 => is --m now (variable NUTFILTER_M)
    NUTFILTER_LISTEN nowhere => must be HOST:PORT
    NUTFILTER_MAX_AGE 0 => from 1 to 86400 seconds
    NUTFILTER_OUTPUT  => a value is required
    LOG_LEVEL loud => [possible values: error, warn, info, debug, trace]";

#[test]
fn all_errors_are_reported_at_once_without_secrets() {
    let place = Place::new();
    let rows = INVALID.lines().map(|row| row.trim_start().split_once(" => ").unwrap());
    let rows = rows.map(|(given, reason)| (given.split_once(' ').unwrap(), reason));
    for check in ["", "--check-config"] {
        let mut command = place.command(format!("serve --info-key=25 {check}"));
        command.envs(rows.clone().map(|(given, _)| given));
        command.env("NUTFILTER_REFRSH", "5");
        let said = run(&mut command).error();
        for ((name, value), reason) in rows.clone() {
            let line = said.lines().find(|line| line.ends_with(&format!("[env: {name}]")));
            let line = line.unwrap_or_else(|| panic!("{name} is not in:\n{said}"));
            assert_contains(line, reason);
            assert_contains(line, "'--");
            let value = value.rsplit(',').next().unwrap();
            let shown = if value.contains('@') { "***" } else { value };
            assert_contains(line, &format!("'{shown}'").replace("''", "none was supplied"));
        }
        assert_contains(&said, "announced as `filters` beside `nuts` [env: NUTFILTER_INFO_KEY]");
        assert_contains(&said, "unknown variable NUTFILTER_REFRSH: unset it");
        assert_eq!(said.lines().count(), rows.clone().count() + 2, "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn missing_database_is_reported_with_the_other_errors() {
    let place = Place::new();
    let said = place.run("serve --refresh 0").error();
    assert_contains(&said, "--mint-database <PATH|URL> [env: MINT_DATABASE]");
    assert_contains(&said, "'0' for '--refresh <SECONDS>'");
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn option_without_its_value_is_one_error() {
    let said = Place::new().run("serve --refresh 0 --reread").error();
    assert_contains(&said, "--reread <SECONDS>");
    assert!(said.lines().count() <= 3, "{said}");
}

#[test]
fn unknown_variable_is_an_error_of_the_service_only() {
    let (place, _) = mint();
    for (command, code) in [
        ("serve --check-config --listen 127.0.0.1:0 --mint-database .", 2),
        ("serve --output public --once --mint-database .", 2),
        ("build - --allow-empty", 0),
    ] {
        let mut command = place.command(command);
        let ran = run(command.env("NUTFILTER_LISTENS", "x"));
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        let said = ran.stderr.contains("unknown variable NUTFILTER_LISTENS");
        assert_eq!(said, code == 2, "{}", ran.stderr);
    }
}

#[cfg(unix)]
#[test]
fn non_utf8_variable_is_an_error() {
    use std::os::unix::ffi::OsStringExt;
    let odd = std::ffi::OsString::from_vec(vec![b'/', 0xff]);
    let place = Place::new();
    let mut serve = place.command("serve");
    run(serve.env("MINT_DATABASE", odd)).error_with("UTF-8");
}

#[test]
fn help_names_variables_and_hides_their_secrets() {
    let place = Place::new();
    let mut help = place.command("serve --help");
    help.env("MINT_DATABASE", "postgres://mint:hunter2@db/mint");
    let help = run(help.env("COLUMNS", "120")).text();
    for part in
        ["[env: MINT_DATABASE]", "--log-format", "[default: 3600]", "Empty variables are errors"]
    {
        assert_contains(&help, part);
    }
    assert!(!help.contains("hunter2"), "{help}");
}

#[test]
fn once_needs_an_output_directory() {
    let said = Place::new().run("serve --mint-database . --once").error();
    assert_contains(&said, "--output <DIR> [env: NUTFILTER_OUTPUT]");
}
