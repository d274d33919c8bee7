use super::*;

/// The sources of a configuration.
#[derive(Clone, Default)]
struct Said {
    flags: Texts,
    variables: BTreeMap<String, OsString>,
    file: String,
}

impl Said {
    fn flag(mut self, name: &str, text: &str) -> Self {
        let texts = self.flags.entry(name.to_owned()).or_default();
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
        "mint_api" => format!("https://mint{which}.example"),
        "listen" => format!("host{which}:80"),
        _ if !words.is_empty() => words[which % words.len()].clone(),
        "wait_for_database" | "metrics" => ["off", "on"][which % 2].to_owned(),
        _ if default(option).is_some_and(|text| text.parse::<u32>().is_ok()) => format!("1{which}"),
        "threads" => format!("1{which}"),
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
        if name(option) != GLOBAL {
            let said = said.flag(name(option), &by_flag);
            expect(&said, Some(&by_flag), Origin::Flag(flag(option)));
        }
    }
}

#[test]
fn empty_variables_count_as_unset() {
    let empty = |said: Said, option: &Arg| said.variable(variable(option), "");
    let resolved = declared().iter().fold(nothing(), empty).resolved();
    assert!(resolved.problems.is_empty(), "{:?}", resolved.problems);
    let is_default = |given: &Given| given.origin == Origin::Default;
    assert!(resolved.given.iter().all(is_default));
}

#[test]
fn words_in_variables_may_have_any_case() {
    use tracing_subscriber::filter::LevelFilter;
    for (mint_type, text, level) in [
        ("CDK", "WARNING", LevelFilter::WARN),
        ("Cdk", "Warn", LevelFilter::WARN),
        ("cdk", "INFO", LevelFilter::INFO),
    ] {
        let said = nothing().variable("MINT_TYPE", mint_type);
        let options = said.variable("LOG_LEVEL", text).resolve().unwrap();
        assert_eq!(options.mint_type.map(|mint| mint.as_str()), Some("cdk"));
        assert_eq!(options.log_level, level);
    }
}

#[test]
fn global_thread_flag_takes_precedence_over_the_file() {
    let file = ConfigFile::parse(Path::new("n.toml"), "threads = 3").unwrap();
    let threads = |threads| {
        let sources = Sources {
            flags: &Texts::default(),
            threads,
            variable: &|_| None,
            file: Some(&file),
        };
        sources.resolve().options.threads
    };
    assert_eq!((threads(None), threads(Some(2))), (Some(3), Some(2)));
}

#[test]
fn all_problems_are_reported_at_once_with_their_sources() {
    let said = nothing()
        .file("refresh = 0\nrefesh = 5\nverify_every = 'much'")
        .variable("NUTFILTER_MAX_CONNECTIONS", "0")
        .flag("listen", "nowhere");
    let error = said.refused();
    for expected in [
        "n.toml, line 2: unknown key `refesh`",
        "refresh: invalid value `0`: must be a whole number from 1 to 86400 seconds (from n.toml, line 1)",
        "verify_every: invalid value `much`: must be a whole number from 1 to 86400 (from n.toml, line 3)",
        "max_connections: invalid value `0`: must be a whole number from 1 to 1000000 (from the environment variable NUTFILTER_MAX_CONNECTIONS)",
        "listen: invalid value `nowhere`: must be HOST:PORT or unix:/PATH (from the flag --listen)",
    ] {
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(error.lines().count(), 5, "{error}");
}

#[test]
fn invalid_value_is_named_with_its_source() {
    for (said, expected) in [
        (nothing().file("refresh = -1"), "(from n.toml, line 1)"),
        (
            nothing().file("refresh = [1, 2]"),
            "refresh: takes one value, not a list (from n.toml, line 1)",
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
            "data_dir: must not be empty (from the flag --data-dir)",
        ),
        (
            nothing().file("tls_certificate = 'a'"),
            "tls_certificate: tls_key is missing",
        ),
        (
            nothing().file("tls_key = 'a'"),
            "tls_key: tls_certificate is missing",
        ),
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
fn database_is_read_from_its_file_and_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("database");
    std::fs::write(&file, "postgres://mint:hunter2@db/mint\n").unwrap();
    let said = nothing().variable("MINT_DATABASE_FILE", &file);
    let revealed = |options: Options| options.mint_database.unwrap().reveal().to_owned();
    let resolved = said.resolved();
    let shown = format!("{}{:?}", resolved.listing(), resolved.options);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(
        shown.contains("\"postgres://mint@db/mint\"  # from the environment variable"),
        "{shown}"
    );
    let database = revealed(resolved.options);
    assert_eq!(database, "postgres://mint:hunter2@db/mint");

    // A flag takes precedence over a file that the environment names; the same source contradicts itself.
    let direct = said.clone().flag("mint_database", "/else").resolve();
    assert_eq!(revealed(direct.unwrap()), "/else");
    let both = said.clone().variable("MINT_DATABASE", "hunter2").refused();
    assert!(both.contains("set it or mint_database, not both"), "{both}");
    assert!(!both.contains("hunter2"), "{both}");

    for (text, expected) in [("", "file is empty"), ("a\nhunter2", "more than one line")] {
        std::fs::write(&file, text).unwrap();
        let error = said.refused();
        assert!(
            error.contains(expected) && error.contains("MINT_DATABASE_FILE"),
            "{error}"
        );
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn listing_can_be_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("a \"b\".sqlite");
    std::fs::write(&database, "").unwrap();
    let database = database.to_str().unwrap();
    let said = nothing().file(&format!(
        "listen = ['a:1']\nmetrics = false\nmax_connections = '64K'\nmint_database = '{database}'",
    ));
    let resolved = said.resolved();
    let again = nothing().file(&resolved.listing()).resolve().unwrap();
    assert_eq!(format!("{again:?}"), format!("{:?}", resolved.options));
    assert_eq!(again.mint_database.unwrap().reveal(), database);
}
