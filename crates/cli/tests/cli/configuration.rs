//! The sources of a configuration, and its messages.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::support::{Server, failure, nutfilter, sample, serve};
use crate::nutfilter::assert_contains;

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// `serve --check-config` with this file.
fn check(directory: &Path, text: &str) -> (Option<i32>, String, String) {
    let path = directory.join("nutfilter.toml");
    fs::write(&path, text).unwrap();
    output(
        nutfilter()
            .args(["serve", "--check-config", "--config"])
            .arg(path),
    )
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn config_precedence_in_a_running_service() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let file = directory.path().join("n.toml");
    fs::write(
        &file,
        format!(
            "mint_database = '{}'\nlisten = '127.0.0.1:0'\nbase_path = '/file'\nlog_level = 'info'\nmetrics = false\n",
            directory.path().display()
        ),
    )
    .unwrap();
    let mut command = nutfilter();
    command.arg("serve").env("NUTFILTER_CONFIG", &file);
    let metrics = |server: &Server| server.get("/metrics").0;

    let server = Server::start(&mut command);
    assert!(server.base.ends_with("/file"), "{}", server.base);
    assert_eq!(metrics(&server), "HTTP/1.1 404 Not Found");

    command
        .env("NUTFILTER_BASE_PATH", "/variable")
        .env("NUTFILTER_METRICS", "on");
    let server = Server::start(&mut command);
    assert!(server.base.ends_with("/variable"), "{}", server.base);
    assert_eq!(metrics(&server), "HTTP/1.1 200 OK");

    let server = Server::start(command.args(["--base-path", "/flag", "--metrics=off"]));
    assert!(server.base.ends_with("/flag"), "{}", server.base);
    assert_eq!(metrics(&server), "HTTP/1.1 404 Not Found");
}

#[test]
fn check_config_shows_sources_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    let file = format!(
        "mint_database = '{}'\ndata_dir = '{}'\nlisten = '127.0.0.1:0'\nmint_api = 'https://mint.example'\n",
        directory.path().display(),
        data.display()
    );
    let (code, shown, said) = check(directory.path(), &file);
    assert_eq!((code, said.as_str()), (Some(0), ""), "{shown}");
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
    assert_eq!(
        names(directory.path()),
        ["cdk-mintd.sqlite", "data", "nutfilter.toml"]
    );
    assert!(names(&data).is_empty());
}

#[test]
fn no_output_shows_the_password_of_a_wrong_location() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
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
        fs::write(&file, location).unwrap();
        let given: [&dyn Fn(&mut Command); 3] = [
            &|command| _ = command.args(["--mint-database", location]),
            &|command| _ = command.env("MINT_DATABASE", location),
            &|command| _ = command.arg("--mint-database-file").arg(&file),
        ];
        for give in given {
            for mode in ["--check-config", "--wait-for-database=off"] {
                let mut command = nutfilter();
                command.args(["serve", "--listen", "127.0.0.1:0", mode]);
                give(&mut command);
                let (code, out, said) = output(&mut command);
                assert_eq!(code, Some(2), "{location}: {said}");
                assert!(!(out + &said).contains("hunter2"), "{location}: {said}");
            }
        }
        let build = ["build", "--keyset", "00deadbeefc0ffee", "--kind", "spent"];
        let mut command = nutfilter();
        let (code, out, said) = output(command.args(build).args(["--mint-database", location]));
        assert_eq!(code, Some(2), "{location}: {said}");
        assert!(!(out + &said).contains("hunter2"), "{location}: {said}");
    }
    // The same at each retry of a service that waits.
    let mut server = Server::start_unready(serve("").env("MINT_DATABASE", &locations[8]));
    let said = server.wait_for("nothing to serve yet");
    let (_, health) = server.get("/health");
    assert!(!(said + &health).contains("hunter2"));
}

#[test]
fn check_config_reports_all_problems_without_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let (code, _, said) = check(
        directory.path(),
        "mint_database = '/nowhere/mint.sqlite3'\ndata_dir = '/nowhere/data'\n\
         tls_certificate = '/nowhere/c.pem'\ntls_key = '/nowhere/k.pem'\n\
         mint_api = 'hunter2:x@mint'\nrefresh = 0\nno_such_key = 1\n\
         listen = ['unix:/nowhere/a.sock', '192.0.2.1:80', '127.0.0.1:0']\n",
    );
    assert_eq!(code, Some(2));
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
    let directory = tempfile::tempdir().unwrap();
    for (text, expected) in [
        (
            "mint_database = 'x'\nrefesh = 5",
            "nutfilter.toml, line 2: unknown key `refesh`",
        ),
        (
            "refresh = 0",
            "refresh: invalid value `0`: must be a whole number from 1 to 86400 seconds (from ",
        ),
        (
            "mint_api = 'user:hunter2@mint'",
            "mint_api: invalid value `***`: must begin with http:// or https://",
        ),
        (
            "mint_database = 'mysql://a:hunter2@db/mint'",
            "unsupported database scheme 'mysql'",
        ),
        ("mint_api = hunter2", "line 1: invalid TOML"),
    ] {
        let (code, shown, said) = check(directory.path(), text);
        assert_eq!(code, Some(2), "{text}");
        assert_contains(&said, expected);
        assert!(
            !format!("{shown}{said}").contains("hunter2"),
            "{shown}{said}"
        );
    }
    let said = failure(
        nutfilter()
            .arg("serve")
            .env("MINT_DATABASE", "x")
            .env("NUTFILTER_LISTEN", "nowhere"),
    );
    assert_contains(&said, "(from the environment variable NUTFILTER_LISTEN)");
}

#[test]
fn template_is_a_configuration() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let (code, template, said) = output(nutfilter().args(["serve", "--print-config-template"]));
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let database = format!("mint_database = '{}'", directory.path().display());
    let chosen = template.replace("#mint_database = \"\"", &database);
    assert_ne!(chosen, template);
    let (code, _, said) = check(directory.path(), &chosen);
    assert_eq!((code, said.as_str()), (Some(0), ""));
}

#[test]
fn help_fits_on_a_screen() {
    let (_, help, _) = output(nutfilter().args(["serve", "--help"]).env("COLUMNS", "120"));
    assert!(help.lines().count() <= 60, "{help}");
    for part in [
        "--mint-database",
        "MINT_DATABASE,",
        "--log-format",
        "[default: 60]",
    ] {
        assert!(help.contains(part), "{part} is not in\n{help}");
    }
}

#[test]
fn check_config_warns_of_a_port_in_use() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, _, said) = output(
        nutfilter()
            .args(["serve", "--check-config", "--listen", &address])
            .args(["--mint-database".as_ref(), directory.path()]),
    );
    assert_eq!(code, Some(0), "{said}");
    assert_contains(
        &said,
        &format!("listen: {address} is in use; unless by this service"),
    );
}
