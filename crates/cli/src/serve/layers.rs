//! Merges flags, environment, file and defaults into one [`Options`], and remembers where each value came from.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, Resettable};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches};
use nutfilter_mint::source::DatabaseLocation;

use super::file::ConfigFile;
use super::options::{HTTP, Options};
use super::secret::{self, HIDDEN, only_line};
use crate::error::CliError;

/// The variable that names the configuration file.
pub(super) const CONFIG_VARIABLE: &str = "NUTFILTER_CONFIG";

/// The option whose flag belongs to all subcommands.
const GLOBAL: &str = "threads";

/// The options as clap sees them. Variables are only named here: [`Sources`] reads them.
pub(super) fn declared() -> Vec<Arg> {
    let command = Options::augment_args(Command::new("serve").no_binary_name(true));
    command.get_arguments().cloned().collect()
}

pub(super) fn name(option: &Arg) -> &str {
    option.get_id().as_str()
}

pub(super) fn variable(option: &Arg) -> &str {
    option
        .get_env()
        .and_then(|name| name.to_str())
        .expect("every option names a variable")
}

/// The description, on one line.
pub(super) fn help(option: &Arg) -> String {
    option
        .get_help()
        .expect("every option has a doc comment")
        .to_string()
}

pub(super) fn default(option: &Arg) -> Option<&str> {
    option.get_default_values().first()?.to_str()
}

pub(super) fn is_list(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Append)
}

fn flag(option: &Arg) -> String {
    format!("--{}", name(option).replace('_', "-"))
}

/// The texts of options.
pub(super) type Texts = BTreeMap<String, Vec<String>>;

/// The flags as texts: values are checked when all sources are merged, so that every invalid value is reported with its
/// source. `serve` has all of them, `publish` those that do not concern connections and requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags<const ALL: bool>(pub(super) Texts);

impl<const ALL: bool> clap::Args for Flags<ALL> {
    fn augment_args(command: Command) -> Command {
        let wanted = |option: &Arg| ALL || option.get_help_heading() != Some(HTTP);
        let flags = declared()
            .into_iter()
            .filter(|option| name(option) != GLOBAL && wanted(option));
        command.args(flags.map(|option| {
            let mut help = help(&option).replace('`', "");
            if let Some(default) = default(&option) {
                help += &format!(" [default: {default}]");
            }
            // Words are checked at once, for completions.
            let words = !option.get_possible_values().is_empty();
            let option = option
                .help(help)
                .env(Resettable::Reset)
                .default_value(Resettable::Reset)
                .allow_negative_numbers(true)
                .hide_possible_values(true);
            match words {
                true => option,
                false => option.value_parser(OsStringValueParser::new()),
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const ALL: bool> FromArgMatches for Flags<ALL> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in declared() {
            let Ok(Some(texts)) = matches.try_get_raw(name(&option)) else {
                continue;
            };
            // Invalid UTF-8 is rejected later by every parser except the one of paths.
            let texts = texts.map(|text| text.to_string_lossy().into_owned());
            self.0.insert(name(&option).to_owned(), texts.collect());
        }
        Ok(())
    }
}

/// Where a value came from. The order is the precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment(String),
    Flag(String),
}

impl Origin {
    /// Its place in the precedence.
    fn rank(&self) -> u8 {
        match self {
            Origin::Default => 0,
            Origin::File { .. } => 1,
            Origin::Environment(_) => 2,
            Origin::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "from {}, line {line}", path.display()),
            Origin::Environment(name) => write!(f, "from the environment variable {name}"),
            Origin::Flag(flag) => write!(f, "from the flag {flag}"),
        }
    }
}

/// An option and the value in effect.
#[derive(Clone, Debug)]
pub(super) struct Given {
    option: Arg,
    /// One text, several in a list, none if the option is not set.
    texts: Vec<String>,
    pub(super) origin: Origin,
}

impl Given {
    fn is_set(&self) -> bool {
        !self.texts.is_empty()
    }

    fn name(&self) -> &str {
        name(&self.option)
    }

    fn reset(&mut self) {
        self.texts = default(&self.option)
            .map(str::to_owned)
            .into_iter()
            .collect();
        self.origin = Origin::Default;
    }

    /// Whether an error of clap is about this option.
    fn is_meant(&self, error: &clap::Error) -> bool {
        let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
            return false;
        };
        argument.split([' ', '[', '=']).next() == Some(flag(&self.option).as_str())
    }

    /// What clap found.
    fn invalid(&self, error: &clap::Error) -> Problem {
        let reason = match (error.source(), error.get(ContextKind::ValidValue)) {
            (Some(reason), _) => reason.to_string(),
            (_, Some(ContextValue::Strings(words))) if !words.is_empty() => {
                format!("accepted are {}", words.join(", "))
            }
            _ => error.kind().to_string(),
        };
        let text = match error.get(ContextKind::InvalidValue) {
            Some(ContextValue::String(text)) if !text.is_empty() => text,
            _ => return self.problem("must not be empty"),
        };
        self.problem(format!("invalid value `{}`: {reason}", self.shown(text)))
    }

    /// A value as it may be printed.
    fn shown(&self, text: &str) -> String {
        match self.name() {
            "mint_database" => DatabaseLocation::parse(text)
                .map_or_else(|_| HIDDEN.to_owned(), |location| location.to_string()),
            _ => secret::shown(text).to_owned(),
        }
    }

    pub(super) fn problem(&self, message: impl fmt::Display) -> Problem {
        Problem {
            option: self.name().to_owned(),
            message: format!("{}: {message} ({})", self.name(), self.origin),
        }
    }
}

/// A problem of the configuration, and its option.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) option: String,
    pub(super) message: String,
}

/// The configuration, and where each of its values came from.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) options: Options,
    given: Vec<Given>,
    /// Everything that is wrong. An option with a problem has its default in `options`.
    pub(super) problems: Vec<Problem>,
}

/// The places that values come from.
pub(super) struct Sources<'a> {
    pub(super) flags: &'a Texts,
    /// The flag `--threads`, which all subcommands have.
    pub(super) threads: Option<usize>,
    /// A variable of the environment.
    pub(super) variable: &'a dyn Fn(&str) -> Option<OsString>,
    pub(super) file: Option<&'a ConfigFile>,
}

impl Sources<'_> {
    /// Merges all sources and checks every value. A secret in a file of its own is read.
    pub(super) fn resolve(&self) -> Resolved {
        let mut problems: Vec<Problem> = self
            .file
            .map(|file| file.problems.clone())
            .unwrap_or_default();
        let options = declared().into_iter();
        let mut given: Vec<Given> = options
            .map(|option| self.given(option, &mut problems))
            .collect();
        read_database_file(&mut given, &mut problems);
        // Each round finds one invalid value, which is reported and reset.
        let options = loop {
            match parse(&given) {
                Ok(options) => break options,
                Err(error) => {
                    let invalid = given.iter_mut().find(|given| given.is_meant(&error));
                    let invalid = invalid.expect("every error names its option");
                    problems.push(invalid.invalid(&error));
                    invalid.reset();
                }
            }
        };
        let mut resolved = Resolved {
            options,
            given,
            problems,
        };
        resolved.check_together();
        resolved
    }

    /// The value of the source with the highest precedence.
    fn given(&self, option: Arg, problems: &mut Vec<Problem>) -> Given {
        let name = name(&option).to_owned();
        let mut given = Given {
            option,
            texts: vec![],
            origin: Origin::Default,
        };
        given.reset();
        let flag_texts = match name == GLOBAL {
            true => self.threads.map(|threads| vec![threads.to_string()]),
            false => self.flags.get(&name).cloned(),
        };
        if let Some(texts) = flag_texts {
            given.origin = Origin::Flag(flag(&given.option));
            given.texts = texts;
            return given;
        }
        let variable_name = variable(&given.option).to_owned();
        // Compose files write `NAME=` for a variable that is not set.
        if let Some(value) = (self.variable)(&variable_name).filter(|value| !value.is_empty()) {
            given.origin = Origin::Environment(variable_name);
            match value.into_string() {
                Ok(text) if is_list(&given.option) => {
                    given.texts = text.split(',').map(|text| text.trim().to_owned()).collect();
                }
                Ok(text) => given.texts = vec![text],
                Err(_) => {
                    problems.push(given.problem("the value is not UTF-8"));
                    given.reset();
                }
            }
            return given;
        }
        let in_file = self
            .file
            .and_then(|file| Some((file, file.values.get(&name)?)));
        if let Some((file, value)) = in_file {
            let set = |text: &&String| !text.is_empty();
            let texts: Vec<_> = value.texts.iter().filter(set).cloned().collect();
            if texts.is_empty() && value.texts.len() <= 1 {
                return given;
            }
            given.origin = Origin::File {
                path: file.path.clone(),
                line: value.line,
            };
            given.texts = texts;
            if !is_list(&given.option) && value.texts.len() != 1 {
                problems.push(given.problem("takes one value, not a list"));
                given.reset();
            }
        }
        given
    }
}

/// Merged texts as typed values.
fn parse(given: &[Given]) -> Result<Options, clap::Error> {
    let command = Options::augment_args(Command::new("serve").no_binary_name(true))
        .mut_args(|option| option.env(Resettable::Reset));
    let set = given.iter().filter(|given| given.origin != Origin::Default);
    let arguments = set.flat_map(|given| {
        let flag = flag(&given.option);
        given.texts.iter().map(move |text| format!("{flag}={text}"))
    });
    let matches = command.try_get_matches_from(arguments)?;
    Options::from_arg_matches(&matches)
}

/// Takes the database from its file, unless a source of higher precedence gives it directly.
fn read_database_file(given: &mut [Given], problems: &mut Vec<Problem>) {
    let place = |name| given.iter().position(|given| given.name() == name);
    let place = |name| place(name).expect("the name belongs to an option");
    let (direct, by_file) = (place("mint_database"), place("mint_database_file"));
    let (direct, by_file) = (&given[direct], &given[by_file]);
    let direct_rank = direct.is_set().then(|| direct.origin.rank());
    let file_rank = by_file.origin.rank();
    if !by_file.is_set() || direct_rank > Some(file_rank) {
        return;
    }
    if direct_rank == Some(file_rank) {
        let (names, origin) = (
            "mint_database_file: set it or mint_database, not both",
            &direct.origin,
        );
        return problems.push(Problem {
            option: "mint_database".to_owned(),
            message: format!("{names} ({origin}; {})", by_file.origin),
        });
    }
    let path = PathBuf::from(&by_file.texts[0]);
    match only_line(&path) {
        Err(error) => problems.push(by_file.problem(format!("{}: {error}", path.display()))),
        Ok(text) => {
            let origin = by_file.origin.clone();
            let direct = place("mint_database");
            given[direct].texts = vec![text];
            given[direct].origin = origin;
        }
    }
}

impl Resolved {
    fn place(&self, name: &str) -> usize {
        let found = self.given.iter().position(|given| given.name() == name);
        found.expect("the name belongs to an option")
    }

    pub(super) fn given(&self, name: &str) -> &Given {
        &self.given[self.place(name)]
    }

    /// The configuration, if nothing is wrong with it.
    ///
    /// # Errors
    ///
    /// All problems, a line each.
    pub(super) fn valid(self) -> Result<Options, CliError> {
        if self.problems.is_empty() {
            return Ok(self.options);
        }
        let messages: Vec<_> = self.problems.into_iter().map(|it| it.message).collect();
        Err(CliError::usage(messages.join("\n")))
    }

    /// Checks values that are valid by themselves against each other.
    fn check_together(&mut self) {
        let mut problems = vec![];
        for (one, other) in [
            ("tls_certificate", "tls_key"),
            ("tls_key", "tls_certificate"),
        ] {
            if self.given(one).is_set() && !self.given(other).is_set() {
                problems.push(self.given(one).problem(format!("{other} is missing")));
            }
        }
        self.problems.extend(problems);
    }

    /// Every value of the configuration, one a line, as the file would have it.
    pub(super) fn listing(&self) -> String {
        let line = |given: &Given| match given.is_set() {
            true => {
                let shown: Vec<_> = given.texts.iter().map(|text| given.shown(text)).collect();
                let value = toml_value(&given.option, &shown);
                format!("{} = {value}  # {}\n", given.name(), given.origin)
            }
            false => format!("# {} is not set\n", given.name()),
        };
        self.given.iter().map(line).collect()
    }
}

/// Texts as a value of the file. Numbers and truth values need no quotes.
pub(super) fn toml_value(option: &Arg, texts: &[String]) -> String {
    let quoted = |text: &String| toml::Value::String(text.clone()).to_string();
    let text = texts.concat();
    if is_list(option) {
        let quoted: Vec<_> = texts.iter().map(quoted).collect();
        format!("[{}]", quoted.join(", "))
    } else if text
        .parse::<u32>()
        .is_ok_and(|number| number.to_string() == text)
    {
        text
    } else {
        match text.as_str() {
            "on" | "true" => "true".to_owned(),
            "off" | "false" => "false".to_owned(),
            _ => quoted(&text),
        }
    }
}

/// Merges the flags, the environment, and the configuration file that the flag or, failing that, the variable names.
pub(super) fn resolve(
    config: Option<&Path>,
    flags: &Texts,
    threads: Option<usize>,
) -> Result<Resolved, CliError> {
    let variable = |name: &str| std::env::var_os(name);
    let by_variable = || {
        let value = variable(CONFIG_VARIABLE).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let path = config.map(Path::to_path_buf).or_else(by_variable);
    let file = path.map(|path| ConfigFile::read(&path)).transpose()?;
    let sources = Sources {
        flags,
        threads,
        variable: &variable,
        file: file.as_ref(),
    };
    Ok(sources.resolve())
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
