//! From flags, environment and file to one configuration, in which every value knows where it came from.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::config::{Config, HIDDEN, Secret, without_password};
use super::file::ConfigFile;
use super::flags::Flags;
use super::options::{self, Flag, Secrecy, Setting, Shape};
use super::values;
use crate::error::CliError;

/// Where a value came from. The order is the precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment(&'static str),
    Flag(String),
}

impl Origin {
    /// Which of them it is, as far as precedence goes.
    fn level(&self) -> u8 {
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

/// An option with what was said of it.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) setting: &'static Setting,
    /// One text, several in a list, none if it is not set.
    texts: Vec<String>,
    pub(super) origin: Origin,
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Given {
    /// The texts as anybody may see them.
    pub(super) fn shown(&self) -> Vec<String> {
        let show = |text: &String| match self.setting.secrecy {
            Secrecy::Open => text.clone(),
            Secrecy::Place => without_password(text),
            Secrecy::Secret => HIDDEN.to_owned(),
        };
        self.texts.iter().map(show).collect()
    }

    fn is_set(&self) -> bool {
        !self.texts.is_empty()
    }
}

/// A configuration, and where each of its values came from.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) config: Config,
    pub(super) given: Vec<Given>,
}

/// The places that values come from.
pub(super) struct Sources<'a> {
    pub(super) flags: &'a Flags,
    /// The flag `--threads`, which all subcommands have.
    pub(super) threads: Option<usize>,
    /// A variable of the environment.
    pub(super) variable: &'a dyn Fn(&str) -> Option<OsString>,
    pub(super) file: Option<&'a ConfigFile>,
}

impl Sources<'_> {
    /// Reads all options and checks them against each other. Secrets that are in files of their own are read.
    ///
    /// # Errors
    ///
    /// Names the option and where its value came from.
    pub(super) fn resolve(&self) -> Result<Resolved, CliError> {
        let mut config = Config::default();
        let mut all = vec![];
        for setting in options::all() {
            let given = self.given(setting)?;
            for text in &given.texts {
                (setting.read)(&mut config, text).map_err(|error| refusal(&given, text, &error))?;
            }
            all.push(given);
        }
        let mut resolved = Resolved { config, given: all };
        resolved.read_secrets()?;
        resolved.check()?;
        Ok(resolved)
    }

    /// What the highest source that says anything says.
    fn given(&self, setting: &'static Setting) -> Result<Given, CliError> {
        let given = |texts, origin| {
            Ok(Given {
                setting,
                texts,
                origin,
            })
        };
        let flag = match setting.flag {
            Flag::Own => self.flags.0.get(setting.name).cloned(),
            Flag::Global => self.threads.map(|threads| vec![threads.to_string()]),
            Flag::None => None,
        };
        if let Some(texts) = flag {
            let origin = Origin::Flag(setting.flag_text());
            if texts.iter().any(String::is_empty) {
                return Err(CliError::usage(format!(
                    "{}: must not be empty",
                    setting.flag_text()
                )));
            }
            return given(texts, origin);
        }
        // Compose files write `NAME=` for what nobody has set.
        if let Some(value) = (self.variable)(setting.variable).filter(|value| !value.is_empty()) {
            let origin = Origin::Environment(setting.variable);
            let text = value.into_string().map_err(|_| {
                CliError::usage(format!("{}: is not UTF-8 ({origin})", setting.name))
            })?;
            let texts = match setting.shape {
                Shape::List(_) => text.split(',').map(|text| text.trim().to_owned()).collect(),
                _ => vec![text],
            };
            return given(texts, origin);
        }
        if let Some((file, value)) = self
            .file
            .and_then(|file| Some((file, file.values.get(setting.name)?)))
        {
            let origin = Origin::File {
                path: file.path.clone(),
                line: value.line,
            };
            let single = !matches!(setting.shape, Shape::List(_));
            if single && value.texts.len() != 1 {
                return Err(CliError::usage(format!(
                    "{}: takes one value ({origin})",
                    setting.name
                )));
            }
            let texts: Vec<_> = value
                .texts
                .iter()
                .filter(|text| !text.is_empty())
                .cloned()
                .collect();
            if !texts.is_empty() {
                return given(texts, origin);
            }
        }
        let default = setting.default.map(str::to_owned);
        given(default.into_iter().collect(), Origin::Default)
    }
}

fn refusal(given: &Given, text: &str, error: &str) -> CliError {
    let Given {
        setting, origin, ..
    } = given;
    let name = setting.name;
    CliError::usage(match setting.secrecy {
        Secrecy::Open => format!("{name}: `{text}` {error} ({origin})"),
        Secrecy::Place | Secrecy::Secret => format!("{name}: the value {error} ({origin})"),
    })
}

impl Resolved {
    pub(super) fn given(&self, name: &str) -> &Given {
        let found = self.given.iter().find(|given| given.setting.name == name);
        found.expect("asked for by a name of the table")
    }

    /// The place of the mint's database.
    pub(crate) fn mint_database(&self) -> Result<&Secret, CliError> {
        self.config.mint_database.as_ref().ok_or_else(|| {
            CliError::usage("no mint database is given: say --mint-database, MINT_DATABASE, or mint_database in the file")
        })
    }

    /// Takes secrets from their files, unless a higher source gives them directly.
    fn read_secrets(&mut self) -> Result<(), CliError> {
        for (name, file_name) in [
            ("mint_database", "mint_database_file"),
            ("admin_token", "admin_token_file"),
        ] {
            let (direct, by_file) = (self.given(name), self.given(file_name));
            if !by_file.is_set()
                || (direct.is_set() && direct.origin.level() > by_file.origin.level())
            {
                continue;
            }
            if direct.is_set() && direct.origin.level() == by_file.origin.level() {
                return Err(contradiction(direct, by_file));
            }
            let path = PathBuf::from(&by_file.texts[0]);
            let text = only_line(&path).map_err(|error| {
                CliError::usage(format!(
                    "{file_name}: {}: {error} ({})",
                    path.display(),
                    by_file.origin
                ))
            })?;
            let read = Given {
                setting: direct.setting,
                origin: by_file.origin.clone(),
                texts: vec![text.clone()],
            };
            (read.setting.read)(&mut self.config, &text)
                .map_err(|error| refusal(&read, &text, &error))?;
            let place = self
                .given
                .iter()
                .position(|given| given.setting.name == name);
            self.given[place.expect("it was found above")] = read;
        }
        Ok(())
    }

    /// What is wrong with values that are right each by itself.
    fn check(&mut self) -> Result<(), CliError> {
        let listen = self.given("listen");
        let mut overruled = false;
        for other in [self.given("host"), self.given("port")] {
            if listen.is_set() && other.origin.level() == listen.origin.level() {
                return Err(contradiction(listen, other));
            }
            // What is nearer to the operator was said later.
            overruled |= other.origin.level() > listen.origin.level();
        }
        if overruled {
            self.config.listen.clear();
        }
        let (certificate, key) = (self.given("tls_certificate"), self.given("tls_key"));
        match (certificate.is_set(), key.is_set()) {
            (true, false) => return Err(alone(certificate, key)),
            (false, true) => return Err(alone(key, certificate)),
            _ => {}
        }
        let slowest = self.config.refresh + self.config.jitter();
        let ready = self.given("ready_within");
        if self.config.ready_within() <= slowest {
            return Err(CliError::usage(format!(
                "ready_within: must be more than a refresh with its jitter, {} seconds ({})",
                slowest.as_secs(),
                ready.origin
            )));
        }
        let info = self.given("info");
        if self.config.info == Some(true) && self.config.mint_api.is_none() {
            return Err(CliError::usage(format!(
                "info: cannot be made without mint_api ({})",
                info.origin
            )));
        }
        Ok(())
    }
}

fn contradiction(one: &Given, other: &Given) -> CliError {
    CliError::usage(format!(
        "{} and {}: one or the other, not both ({}; {})",
        one.setting.name, other.setting.name, one.origin, other.origin
    ))
}

fn alone(one: &Given, other: &Given) -> CliError {
    CliError::usage(format!(
        "{}: needs {} beside it ({})",
        one.setting.name, other.setting.name, one.origin
    ))
}

/// The only line of a file that holds a secret.
fn only_line(path: &Path) -> Result<String, String> {
    /// More is no password, and is not read into memory.
    const LONGEST: u64 = 64 << 10;
    let length = std::fs::metadata(path)
        .map_err(|error| error.to_string())?
        .len();
    if length > LONGEST {
        return Err(format!("has {length} bytes, which is no password"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let line = text.trim();
    match (line.is_empty(), line.contains(['\n', '\r', '\0'])) {
        (true, _) => Err("is empty".to_owned()),
        (_, true) => Err("has more than one line".to_owned()),
        _ => Ok(line.to_owned()),
    }
}

/// A path that is given in the same way as everything else, though it is no option: the file itself.
pub(super) fn config_file(
    flag: Option<&Path>,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Option<ConfigFile>, CliError> {
    let by_variable = || {
        variable(CONFIG_VARIABLE)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    match flag.map(Path::to_path_buf).or_else(by_variable) {
        Some(path) => ConfigFile::read(&path).map(Some),
        None => Ok(None),
    }
}

/// Where the file is, unless `--config` says it.
pub(super) const CONFIG_VARIABLE: &str = "NUTFILTER_CONFIG";

/// Every value of the configuration, one a line, as the file would have it.
pub(super) fn listing(resolved: &Resolved) -> String {
    let lines = resolved.given.iter().map(|given| {
        let name = given.setting.name;
        match given.is_set() {
            true => format!(
                "{name} = {}  # {}\n",
                toml_value(given.setting, &given.shown()),
                given.origin
            ),
            false => format!("# {name} is not set: {}\n", given.setting.unset),
        }
    });
    lines.collect()
}

/// Texts as a value of the file.
pub(super) fn toml_value(setting: &Setting, texts: &[String]) -> String {
    let quoted = |text: &String| toml::Value::String(text.clone()).to_string();
    match setting.shape {
        Shape::List(_) => {
            let quoted: Vec<_> = texts.iter().map(quoted).collect();
            format!("[{}]", quoted.join(", "))
        }
        Shape::Number(_) => texts.concat(),
        Shape::Switch => values::switch(&texts.concat())
            .unwrap_or_default()
            .to_string(),
        Shape::Text(_) | Shape::Words(_) => quoted(&texts.concat()),
    }
}

#[cfg(test)]
mod tests;
