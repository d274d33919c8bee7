use std::collections::BTreeMap;

use super::*;

/// What is said in one place.
#[derive(Clone, Default)]
struct Said {
    flags: Flags,
    variables: BTreeMap<String, OsString>,
    file: String,
}

impl Said {
    fn flag(mut self, name: &'static str, text: &str) -> Self {
        self.flags.0.entry(name).or_default().push(text.to_owned());
        self
    }

    fn variable(mut self, name: &str, text: impl Into<OsString>) -> Self {
        self.variables.insert(name.to_owned(), text.into());
        self
    }

    fn file(mut self, text: &str) -> Self {
        self.file = text.to_owned();
        self
    }

    fn resolve(&self) -> Result<Resolved, String> {
        let file = ConfigFile::parse(Path::new("n.toml"), &self.file)
            .map_err(|error| error.to_string())?;
        let sources = Sources {
            flags: &self.flags,
            threads: None,
            variable: &|name| self.variables.get(name).cloned(),
            file: Some(&file),
        };
        sources.resolve().map_err(|error| error.to_string())
    }

    fn refused(&self) -> String {
        self.resolve().expect_err("it is refused")
    }
}

fn nothing() -> Said {
    Said::default()
}

/// An acceptable value of a setting, the same in all sources but for what tells them apart.
fn sample(setting: &Setting, which: usize) -> String {
    let words = |words: &[&str]| words[which % words.len()].to_owned();
    match (setting.name, setting.shape) {
        ("host", _) => format!("host{which}"),
        ("base_path", _) => format!("/path{which}"),
        ("socket_mode", _) => format!("60{which}"),
        ("mint_api", _) => format!("https://mint{which}.example"),
        ("admin_token", _) => format!("0123456789abcdef{which}"),
        (_, Shape::Text(_)) => format!("/text{which}"),
        (_, Shape::List(_)) => format!("host{which}:80"),
        ("ready_within", _) => format!("10{which}"),
        (_, Shape::Number(_)) => format!("1{which}"),
        (_, Shape::Switch) => words(&["true", "false"]),
        (_, Shape::Words(all)) => words(all),
    }
}

#[test]
fn every_option_takes_the_flag_before_the_environment_before_the_file_before_the_default() {
    for setting in options::all().filter(|setting| !setting.name.ends_with("_file")) {
        let [by_file, by_variable, by_flag] = [0, 1, 2].map(|which| sample(setting, which));
        // Whatever has to stand beside it stands in the file.
        let beside = match setting.name {
            "tls_key" => "tls_certificate = '/x'\n",
            "tls_certificate" => "tls_key = '/x'\n",
            "info" => "mint_api = 'https://mint.example'\n",
            _ => "",
        };
        let mut said = nothing();
        let mut expected = vec![(setting.default.map(str::to_owned), Origin::Default)];
        let mut texts = vec![String::new()];
        texts.push(format!(
            "{beside}{} = {}",
            setting.name,
            toml_value(setting, std::slice::from_ref(&by_file))
        ));
        let line = 1 + beside.lines().count();
        expected.push((
            Some(by_file),
            Origin::File {
                path: "n.toml".into(),
                line,
            },
        ));
        expected.push((
            Some(by_variable.clone()),
            Origin::Environment(setting.variable),
        ));
        expected.push((Some(by_flag.clone()), Origin::Flag(setting.flag_text())));
        for (step, (text, origin)) in expected.into_iter().enumerate() {
            said = match step {
                0 => said.file(beside),
                1 => said.file(&texts[1]),
                2 => said.variable(setting.variable, by_variable.as_str()),
                _ if setting.flag == Flag::Own => said.flag(setting.name, &by_flag),
                _ => continue,
            };
            if step == 0 && !beside.is_empty() && setting.name != "info" {
                continue;
            }
            let resolved = said.resolve().unwrap();
            let given = resolved.given(setting.name);
            assert_eq!(
                (given.texts.first(), &given.origin),
                (text.as_ref(), &origin),
                "{}",
                setting.name
            );
        }
    }
}

#[test]
fn the_flag_of_all_subcommands_goes_before_the_file_too() {
    let file = ConfigFile::parse(Path::new("n.toml"), "threads = 3").unwrap();
    let threads = |threads| {
        let sources = Sources {
            flags: &Flags::default(),
            threads,
            variable: &|_| None,
            file: Some(&file),
        };
        sources.resolve().unwrap().config.threads
    };
    assert_eq!((threads(None), threads(Some(2))), (Some(3), Some(2)));
}

#[test]
fn an_empty_variable_and_an_empty_text_of_the_file_are_as_good_as_none() {
    for setting in options::all() {
        let file = match setting.shape {
            Shape::List(_) => format!("{} = []", setting.name),
            _ => format!("{} = ''", setting.name),
        };
        let resolved = nothing()
            .variable(setting.variable, "")
            .file(&file)
            .resolve()
            .unwrap();
        assert_eq!(
            resolved.given(setting.name).origin,
            Origin::Default,
            "{}",
            setting.name
        );
    }
}

#[test]
fn what_is_out_of_range_is_named_with_its_source() {
    for (said, expected) in [
        (
            nothing().variable("SERVER_PORT", "70000"),
            "port: `70000` must be from 0 to 65535 (from the environment variable SERVER_PORT)",
        ),
        (
            nothing().flag("refresh", "0"),
            "refresh: `0` must be from 1 to 86400 seconds (from the flag --refresh)",
        ),
        (
            nothing().file("jitter = 101"),
            "jitter: `101` must be from 0 to 50 (from n.toml, line 1)",
        ),
        (nothing().file("port = -1"), "(from n.toml, line 1)"),
        (
            nothing().file("port = [1, 2]"),
            "port: takes one value (from n.toml, line 1)",
        ),
        (
            nothing().file("metrics = 'perhaps'"),
            "metrics: `perhaps` is neither `on` nor `off`",
        ),
        (
            nothing().file("log_level = 'loud'"),
            "is none of error, warn, info, debug, trace",
        ),
        (
            nothing().file("mint_type = 'other'"),
            "is none of cdk, nutshell",
        ),
        (
            nothing().variable("NUTFILTER_LISTEN", "a:1,b"),
            "listen: `b` is neither HOST:PORT nor unix:/PATH",
        ),
        (
            nothing().flag("base_path", "/{id}"),
            "base_path: `/{id}` is no base path",
        ),
        (
            nothing().flag("data_dir", ""),
            "--data-dir: must not be empty",
        ),
        (nothing().file("socket_mode = '888'"), "octal"),
    ] {
        let error = said.refused();
        assert!(error.contains(expected), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_text_is_named() {
    use std::os::unix::ffi::OsStringExt;
    let odd = OsString::from_vec(vec![b'/', 0xff]);
    let error = nothing().variable("MINT_DATABASE", odd).refused();
    assert!(
        error.contains("not UTF-8 (from the environment variable MINT_DATABASE)"),
        "{error}"
    );
}

#[test]
fn options_that_exclude_each_other_are_weighed_by_where_they_stand() {
    let listen = |said: Said| {
        said.resolve()
            .unwrap()
            .config
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let file = "listen = ['a:1', 'unix:/run/b']\n";
    assert_eq!(listen(nothing()), ["127.0.0.1:3339"]);
    assert_eq!(listen(nothing().file(file)), ["a:1", "unix:/run/b"]);
    assert_eq!(
        listen(nothing().file(file).variable("SERVER_PORT", "5")),
        ["127.0.0.1:5"]
    );
    assert_eq!(
        listen(nothing().variable("SERVER_PORT", "5").flag("listen", "c:3")),
        ["c:3"]
    );
    assert_eq!(
        listen(nothing().variable("NUTFILTER_LISTEN", "c:3, d:4")),
        ["c:3", "d:4"]
    );
    let error = nothing().file(&format!("{file}port = 1")).refused();
    assert!(
        error.contains("listen and port: one or the other"),
        "{error}"
    );
    assert!(
        error.contains("n.toml, line 1; from n.toml, line 2"),
        "{error}"
    );
}

#[test]
fn what_needs_something_beside_it_says_what() {
    for (file, expected) in [
        (
            "tls_certificate = 'a'",
            "tls_certificate: needs tls_key beside it",
        ),
        ("tls_key = 'a'", "tls_key: needs tls_certificate beside it"),
        ("info = true", "info: cannot be made without mint_api"),
        (
            "refresh = 100\njitter = 50\nready_within = 150",
            "ready_within: must be more than",
        ),
    ] {
        let error = nothing().file(file).refused();
        assert!(error.contains(expected), "{error}");
    }
    assert!(
        nothing()
            .file("refresh = 100\njitter = 50\nready_within = 151")
            .resolve()
            .is_ok()
    );
    let error = nothing()
        .resolve()
        .unwrap()
        .mint_database()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("--mint-database") && error.contains("MINT_DATABASE"),
        "{error}"
    );
}

#[test]
fn a_secret_may_be_in_a_file_of_its_own_and_is_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let token = write("token", "hunter2-hunter2-hunter2\n");
    let database = write("database", "postgres://mint:hunter2@db/mint");
    let said = nothing()
        .variable("NUTFILTER_ADMIN_TOKEN_FILE", &token)
        .variable("MINT_DATABASE_FILE", &database);
    let resolved = said.resolve().unwrap();
    assert_eq!(
        resolved.config.admin_token.as_ref().unwrap().reveal(),
        "hunter2-hunter2-hunter2"
    );
    assert_eq!(
        resolved.mint_database().unwrap().reveal(),
        "postgres://mint:hunter2@db/mint"
    );
    let shown = format!("{}{:?}", listing(&resolved), resolved.config);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains(
        "admin_token = \"***\"  # from the environment variable NUTFILTER_ADMIN_TOKEN_FILE"
    ));
    assert!(
        shown.contains("mint_database = \"postgres://***@db/mint\""),
        "{shown}"
    );

    // A flag is nearer than a file that the environment names; in the same place one has to go.
    let direct = said
        .clone()
        .flag("mint_database", "/else")
        .resolve()
        .unwrap();
    assert_eq!(direct.mint_database().unwrap().reveal(), "/else");
    let both = said
        .clone()
        .variable("NUTFILTER_ADMIN_TOKEN", "hunter2-hunter2-hunter3")
        .refused();
    assert!(
        both.contains("admin_token and admin_token_file") && !both.contains("hunter2"),
        "{both}"
    );

    for (text, expected) in [
        ("", "is empty"),
        ("a\nhunter2", "more than one line"),
        ("hunter2", "from 16 to 512 characters"),
        ("hunter2 hunter2 hunter2", "no space"),
    ] {
        std::fs::write(&token, text).unwrap();
        let error = said.refused();
        assert!(
            error.contains(expected) && error.contains("NUTFILTER_ADMIN_TOKEN_FILE"),
            "{error}"
        );
        assert!(!error.contains("hunter2"), "{error}");
    }
    std::fs::remove_file(&token).unwrap();
    let error = said.refused();
    assert!(
        error.contains("admin_token_file") && error.contains("No such file"),
        "{error}"
    );
}

#[test]
fn what_the_listing_shows_can_be_read_again() {
    let said = nothing()
        .file("listen = ['a:1']\nmetrics = false\nrestamp = 77\nmint_database = '/a \"b\".sqlite'");
    let resolved = said.resolve().unwrap();
    let again = nothing().file(&listing(&resolved)).resolve().unwrap_err();
    // Host and port are shown too, as they have defaults; without them it is the same configuration.
    assert!(again.contains("listen and host"), "{again}");
    let lines = listing(&resolved);
    let shown: String = lines
        .lines()
        .filter(|line| !line.ends_with("# default"))
        .map(|line| format!("{line}\n"))
        .collect();
    let again = nothing().file(&shown).resolve().unwrap();
    assert_eq!(
        format!("{:?}", again.config),
        format!("{:?}", resolved.config)
    );
    assert_eq!(again.mint_database().unwrap().reveal(), "/a \"b\".sqlite");
}
