use super::super::secret::Secret;
use super::*;

/// The sources of a configuration.
#[derive(Clone, Default)]
struct Said {
    flags: Flags,
    variables: BTreeMap<String, OsString>,
    file: String,
}

impl Said {
    fn flag(mut self, name: &str, text: &str) -> Self {
        let texts = self.flags.0.entry(name.to_owned()).or_default();
        texts.push(text.to_owned());
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

    fn resolved(&self) -> Resolved {
        let file = ConfigFile::parse(Path::new("n.toml"), &self.file).unwrap();
        let sources = Sources {
            flags: &self.flags,
            threads: None,
            variable: &|name| self.variables.get(name).cloned(),
            file: Some(&file),
        };
        sources.resolve()
    }

    fn resolve(&self) -> Result<Options, String> {
        self.resolved().valid().map_err(|error| error.to_string())
    }

    fn refused(&self) -> String {
        self.resolve().expect_err("it is invalid")
    }
}

fn nothing() -> Said {
    Said::default()
}

/// A valid value of an option, different for each `which`.
fn sample(option: &Arg, which: usize) -> String {
    let words: Vec<_> = option
        .get_possible_values()
        .iter()
        .filter(|word| !word.is_hide_set())
        .map(|word| word.get_name().to_owned())
        .collect();
    match name(option) {
        "base_path" => format!("/path{which}"),
        "socket_mode" => format!("60{which}"),
        "mint_api" => format!("https://mint{which}.example"),
        "admin_token" => format!("0123456789abcdef{which}"),
        "listen" => format!("host{which}:80"),
        "ready_max_age" => format!("10{which}"),
        "block_timeout" => format!("360{which}"),
        _ if !words.is_empty() => words[which % words.len()].clone(),
        _ if toml_value(option, &["1".to_owned()]) == "1" => format!("1{which}"),
        _ => format!("text{which}"),
    }
}

#[test]
fn config_precedence() {
    for option in declared()
        .iter()
        .filter(|option| !name(option).ends_with("_file"))
    {
        let [by_file, by_variable, by_flag] = [0, 1, 2].map(|which| sample(option, which));
        // Options that need another one.
        let needed = match name(option) {
            "tls_key" => "tls_certificate = '/x'\n",
            "tls_certificate" => "tls_key = '/x'\n",
            "info" => "mint_api = 'https://mint.example'\n",
            "state_filters" => "data_dir = '/x'\n",
            _ => "",
        };
        let expect = |said: &Said, text: Option<&str>, origin: Origin| {
            let resolved = said.resolved();
            let given = resolved.given(name(option));
            assert_eq!(resolved.problems.len(), 0, "{:?}", resolved.problems);
            let found = given.texts.first().map(String::as_str);
            assert_eq!((found, &given.origin), (text, &origin), "{}", name(option));
        };
        if needed.is_empty() {
            expect(&nothing(), default(option), Origin::Default);
        }
        let value = toml_value(option, std::slice::from_ref(&by_file));
        let said = nothing().file(&format!("{needed}{} = {value}", name(option)));
        let origin = Origin::File {
            path: "n.toml".into(),
            line: 1 + needed.lines().count(),
        };
        expect(&said, Some(&by_file), origin);
        let said = said.variable(variable(option), by_variable.as_str());
        let origin = Origin::Environment(variable(option).to_owned());
        expect(&said, Some(&by_variable), origin);
        if name(option) != GLOBAL && !is_secret(option) {
            let said = said.flag(name(option), &by_flag);
            expect(&said, Some(&by_flag), Origin::Flag(flag(option)));
        }
    }
}

#[test]
fn every_option_has_its_own_variable_and_secrets_have_no_flag() {
    let options = declared();
    let variables: std::collections::BTreeSet<_> = options.iter().map(variable).collect();
    assert_eq!(variables.len(), options.len());
    let flags = Flags::augment_args(Command::new("serve"));
    let has_flag = |name: &str| flags.get_arguments().any(|flag| flag.get_id() == name);
    assert!(has_flag("admin_token_file") && !has_flag("admin_token"));
}

#[test]
fn global_thread_flag_takes_precedence_over_the_file() {
    let file = ConfigFile::parse(Path::new("n.toml"), "threads = 3").unwrap();
    let threads = |threads| {
        let sources = Sources {
            flags: &Flags::default(),
            threads,
            variable: &|_| None,
            file: Some(&file),
        };
        sources.resolve().options.process.threads
    };
    assert_eq!((threads(None), threads(Some(2))), (Some(3), Some(2)));
}

#[test]
fn empty_variable_or_text_counts_as_not_set() {
    for option in &declared() {
        let file = match is_list(option) {
            true => format!("{} = []", name(option)),
            false => format!("{} = ''", name(option)),
        };
        let said = nothing().variable(variable(option), "").file(&file);
        let origin = said.resolved().given(name(option)).origin.clone();
        assert_eq!(origin, Origin::Default, "{}", name(option));
    }
}

#[test]
fn all_problems_are_reported_at_once_with_their_sources() {
    let said = nothing()
        .file("refresh = 0\nrefesh = 5\njitter = 'much'")
        .variable("SERVER_PORT", "70000")
        .flag("listen", "nowhere");
    let error = said.refused();
    for expected in [
        "n.toml, line 2: unknown key `refesh`",
        "refresh: invalid value `0`: must be a whole number from 1 to 86400 seconds (from n.toml, line 1)",
        "jitter: invalid value `much`: must be a whole number from 0 to 50 (from n.toml, line 3)",
        "port: invalid value `70000`: must be a whole number from 0 to 65535 (from the environment variable SERVER_PORT)",
        "listen: invalid value `nowhere`: must be HOST:PORT or unix:/PATH (from the flag --listen)",
    ] {
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(error.lines().count(), 5, "{error}");
}

#[test]
fn invalid_value_is_named_with_its_source() {
    for (said, expected) in [
        (nothing().file("port = -1"), "(from n.toml, line 1)"),
        (
            nothing().file("port = [1, 2]"),
            "port: takes one value, not a list (from n.toml, line 1)",
        ),
        (
            nothing().file("metrics = 'perhaps'"),
            "metrics: invalid value `perhaps`",
        ),
        (
            nothing().file("log_level = 'loud'"),
            "accepted are error, warn, info, debug, trace",
        ),
        (
            nothing().file("mint_type = 'other'"),
            "accepted are cdk, nutshell",
        ),
        (
            nothing().variable("NUTFILTER_LISTEN", "a:1,b"),
            "listen: invalid value `b`",
        ),
        (
            nothing().flag("base_path", "/{id}"),
            "base_path: invalid value `/{id}`",
        ),
        (
            nothing().flag("data_dir", ""),
            "data_dir: invalid value ``: must not be empty (from the flag --data-dir)",
        ),
        (nothing().file("socket_mode = '888'"), "octal"),
    ] {
        let error = said.refused();
        assert!(error.contains(expected), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn non_utf8_variable_is_named() {
    use std::os::unix::ffi::OsStringExt;
    let odd = OsString::from_vec(vec![b'/', 0xff]);
    let error = nothing().variable("MINT_DATABASE", odd).refused();
    assert!(
        error.contains("not UTF-8 (from the environment variable MINT_DATABASE)"),
        "{error}"
    );
}

#[test]
fn listen_and_port_exclude_each_other_by_precedence() {
    let listen = |said: Said| {
        said.resolve()
            .unwrap()
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
        error.contains("listen and port: set one of them, not both"),
        "{error}"
    );
    assert!(
        error.contains("n.toml, line 1; from n.toml, line 2"),
        "{error}"
    );
}

#[test]
fn missing_counterpart_is_named() {
    for (file, expected) in [
        (
            "tls_certificate = 'a'",
            "tls_certificate: tls_key is missing",
        ),
        ("tls_key = 'a'", "tls_key: tls_certificate is missing"),
        ("info = true", "info: needs mint_api"),
        (
            "state_filters = ['proof_state']",
            "state_filters: needs data_dir",
        ),
        (
            "state_filters_info_key = 'a'\ninfo_key = 'a'",
            "state_filters_info_key: must differ from info_key",
        ),
        (
            "segments_info_key = 'a'\nstate_filters_info_key = 'a'",
            "segments_info_key: must differ from state_filters_info_key",
        ),
        (
            "refresh = 100\njitter = 50\nready_max_age = 150",
            "ready_max_age: must be more than",
        ),
    ] {
        let error = nothing().file(file).refused();
        assert!(error.contains(expected), "{error}");
    }
    assert!(
        nothing()
            .file("refresh = 100\njitter = 50\nready_max_age = 151")
            .resolve()
            .is_ok()
    );
}

#[test]
fn secret_is_read_from_its_file_and_never_shown() {
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
    let revealed = |secret: &Option<Secret>| secret.as_ref().unwrap().reveal().to_owned();
    let resolved = said.resolved();
    let options = &resolved.options;
    assert_eq!(
        revealed(&options.endpoints.admin_token),
        "hunter2-hunter2-hunter2"
    );
    assert_eq!(
        revealed(&options.mint.mint_database),
        "postgres://mint:hunter2@db/mint"
    );
    let shown = format!("{}{options:?}", resolved.listing());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains(
        "admin_token = \"***\"  # from the environment variable NUTFILTER_ADMIN_TOKEN_FILE"
    ));
    assert!(
        shown.contains("mint_database = \"postgres://mint@db/mint\""),
        "{shown}"
    );

    // A flag takes precedence over a file that the environment names; the same source contradicts itself.
    let direct = said.clone().flag("mint_database", "/else").resolve();
    assert_eq!(revealed(&direct.unwrap().mint.mint_database), "/else");
    let both = said
        .clone()
        .variable("NUTFILTER_ADMIN_TOKEN", "hunter2-hunter2-hunter3")
        .refused();
    assert!(
        both.contains("admin_token and admin_token_file") && !both.contains("hunter2"),
        "{both}"
    );

    for (text, expected) in [
        ("", "file is empty"),
        ("a\nhunter2", "more than one line"),
        ("hunter2", "from 16 to 512 characters"),
        ("hunter2 hunter2 hunter2", "without spaces"),
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
fn listing_can_be_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("a \"b\".sqlite");
    std::fs::write(&database, "").unwrap();
    let database = database.to_str().unwrap();
    let said = nothing().file(&format!(
        "listen = ['a:1']\nmetrics = false\nmax_connections = '64K'\nmax_timestamp_age = 77\nmint_database = '{database}'",
    ));
    let resolved = said.resolved();
    // Host and port are shown too, as they have defaults; the same source may not set them and `listen`.
    let again = nothing().file(&resolved.listing()).refused();
    assert!(again.contains("listen and host"), "{again}");
    let shown: String = resolved
        .listing()
        .lines()
        .filter(|line| !line.ends_with("# default"))
        .map(|line| format!("{line}\n"))
        .collect();
    let again = nothing().file(&shown).resolve().unwrap();
    assert_eq!(format!("{again:?}"), format!("{:?}", resolved.options));
    assert_eq!(again.mint.mint_database.unwrap().reveal(), database);
}
