//! The sources of a configuration, and its messages.

use std::process::Command;

use super::support::{Server, mint, nutfilter};
use crate::nutfilter::{Place, Ran, assert_contains};

/// `serve --check-config` with this file.
fn check(place: &Place, text: &str) -> Ran {
    place.write("nutfilter.toml", text);
    place.run("serve --check-config --config nutfilter.toml")
}

#[test]
fn config_precedence_in_a_running_service() {
    let (place, _) = mint();
    place.write(
        "n.toml",
        "mint_database = '.'\nlisten = '127.0.0.1:0'\nbase_path = '/file'\nlog_level = 'info'\nmetrics = false\n",
    );
    let mut command = place.command("serve --metrics=on");
    command
        .env("NUTFILTER_CONFIG", "n.toml")
        .env("NUTFILTER_BASE_PATH", "/variable")
        .env("NUTFILTER_METRICS", "off");
    let server = Server::start(&mut command);
    assert!(server.base.ends_with("/variable"), "{}", server.base);
    assert_eq!(server.get("/metrics").0, "HTTP/1.1 200 OK");
}

#[test]
fn check_config_shows_sources_and_changes_nothing() {
    let (place, _) = mint();
    std::fs::create_dir(place.path("data")).unwrap();
    let ran = check(
        &place,
        "mint_database = '.'\ndata_dir = 'data'\nlisten = '127.0.0.1:0'\nmint_api = 'https://mint.example'\n",
    );
    assert_eq!(ran.stderr, "");
    let shown = ran.text();
    for line in [
        "# cdk database with 1 keysets",
        "mint_api = \"https://mint.example\"  # from ",
        "refresh = 60  # default",
        "# tls_key is not set",
        "# configuration OK",
    ] {
        assert_contains(&shown, line);
    }
    assert_contains(&shown, "nutfilter.toml, line 3");
    let files = ["cdk-mintd.sqlite", "data", "nutfilter.toml"];
    assert_eq!(place.names(), files);
    assert!(place.names_in("data").is_empty());
}

#[test]
fn no_output_shows_the_password_of_a_wrong_location() {
    let place = Place::new();
    let unreachable = "127.0.0.1:1/mint";
    let locations = [
        format!("\"postgres://mint:hunter2@{unreachable}\""),
        format!("'postgres://mint:hunter2@{unreachable}'"),
        format!("\"postgres://mint:hunter2@{unreachable}"),
        format!("\u{feff}postgres://mint:hunter2@{unreachable}"),
        format!(" postgres://mint:hunter2@{unreachable}"),
        format!("postgres://mint:p@hunter2@{unreachable}"),
        format!("postgres://mint:p@x/hunter2@{unreachable}"),
        format!("postgres://mint:p?hunter2@{unreachable}"),
        format!("postgres//mint:hunter2@{unreachable}"),
        format!("postgres:/mint:hunter2@{unreachable}"),
        format!("postgres;//mint:hunter2@{unreachable}"),
        format!("//mint:hunter2@{unreachable}"),
        format!("MINT_DATABASE=postgres://mint:hunter2@{unreachable}"),
        format!("mysql://mint:hunter2@{unreachable}"),
        format!("sqlite://mint:hunter2@{unreachable}"),
        format!("postgres://{unreachable}?password=hunter2"),
        format!("postgres://{unreachable}?passwd=hunter2"),
        "host=127.0.0.1 user=mint password=hunter2".to_owned(),
        "user='mint' password = 'hunter2'".to_owned(),
        "mint:hunter2".to_owned(),
        "/nowhere/hunter2".to_owned(),
    ];
    for location in &locations {
        place.write("secret", location);
        let assert_hidden = |command: &mut Command| {
            let ran = Ran::from(command.output().unwrap());
            assert_eq!(ran.code, Some(2), "{location}: {}", ran.stderr);
            let out = String::from_utf8(ran.stdout).unwrap();
            assert!(!(out + &ran.stderr).contains("hunter2"), "{location}");
        };
        let given: [&dyn Fn(&mut Command) -> &mut Command; 3] = [
            &|command| command.args(["--mint-database", location]),
            &|command| command.env("MINT_DATABASE", location),
            &|command| command.args(["--mint-database-file", "secret"]),
        ];
        for give in given {
            for mode in ["--check-config", "--wait-for-database=off"] {
                let serve = format!("serve --listen 127.0.0.1:0 {mode}");
                assert_hidden(give(&mut place.command(serve)));
            }
        }
        let build = "build --keyset 00deadbeefc0ffee --kind spent";
        assert_hidden(given[0](&mut place.command(build)));
    }
}

#[test]
fn check_config_reports_all_problems_without_secrets() {
    let said = check(
        &Place::new(),
        "mint_database = '/nowhere/mint.sqlite3'\ndata_dir = '/nowhere/data'\n\
         tls_certificate = '/nowhere/c.pem'\ntls_key = '/nowhere/k.pem'\n\
         mint_api = 'hunter2:x@mint'\nrefresh = 0\nno_such_key = 1\n\
         listen = ['unix:/nowhere/a.sock', '192.0.2.1:80', '127.0.0.1:0']\n",
    )
    .stderr;
    for problem in [
        "mint_database: database not found below /;",
        "give a database that this user can read (from ",
        "data_dir: /nowhere/data: No such file or directory (os error 2); let this user write to it (from ",
        "tls_certificate: invalid certificate or key in /nowhere/c.pem",
        "listen: unix:/nowhere/a.sock: No such file",
        "listen: 192.0.2.1:80: Cannot assign requested address",
        "mint_api: invalid value `***`: must begin with http:// or https://",
        "refresh: invalid value `0`: must be a whole number from 1 to 86400 seconds",
        "line 7: unknown key `no_such_key`",
        "invalid configuration (8 problems)",
    ] {
        assert_contains(&said, problem);
    }
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn invalid_configuration_is_named_with_its_place() {
    let place = Place::new();
    for (text, expected) in [
        (
            "mint_database = 'mysql://a:b@db/m'",
            "unsupported database scheme 'mysql'",
        ),
        ("mint_api = hunter2", "line 1: invalid TOML"),
    ] {
        let ran = check(&place, text);
        assert_eq!(ran.code, Some(2), "{text}");
        assert_contains(&ran.stderr, expected);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
    let mut command = nutfilter();
    let serve = command.arg("serve").env("MINT_DATABASE", "x");
    let ran = serve.env("NUTFILTER_LISTEN", "nowhere").output();
    let wanted = "(from the environment variable NUTFILTER_LISTEN)";
    Ran::from(ran.unwrap()).error_with(wanted);
}

#[test]
fn template_is_a_configuration() {
    let (place, _) = mint();
    let ran = place.run("serve --print-config-template");
    assert_eq!(ran.stderr, "");
    let template = ran.text();
    let chosen = template.replace("#mint_database = \"\"", "mint_database = '.'");
    assert_ne!(chosen, template);
    let ran = check(&place, &chosen);
    assert_eq!(ran.stderr, "");
    ran.ok();
}

#[test]
fn help_fits_on_a_screen() {
    let place = Place::new();
    let mut help = place.command("serve --help");
    let help = Ran::from(help.env("COLUMNS", "120").output().unwrap()).text();
    assert!(help.lines().count() <= 60, "{help}");
    for part in [
        "--mint-database",
        "MINT_DATABASE,",
        "--log-format",
        "[default: 60]",
    ] {
        assert_contains(&help, part);
    }
}

#[test]
fn check_config_warns_of_a_port_in_use() {
    let (place, _) = mint();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let ran = place.run(format!(
        "serve --check-config --listen {address} --mint-database ."
    ));
    let wanted = format!("listen: {address} is in use; unless by this service");
    assert_contains(&ran.stderr, &wanted);
    ran.ok();
}
