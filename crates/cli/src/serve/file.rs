//! The configuration file: TOML, one key per option, no tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Arg;
use toml::de::{DeTable, DeValue};

use super::layers::{Problem, declared, name, variable};
use crate::error::CliError;

/// A larger file is not a configuration, and is not read into memory.
const LONGEST: u64 = 1 << 20;

/// The contents of a file; only keys and types are checked.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) values: BTreeMap<String, FileValue>,
    /// Unknown keys, and values that no option can have.
    pub(super) problems: Vec<Problem>,
}

/// One value of a file.
#[derive(Clone, Debug)]
pub(super) struct FileValue {
    /// The line of the key, counted from 1.
    pub(super) line: usize,
    /// One text, or the elements of a list.
    pub(super) texts: Vec<String>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is not TOML. No error quotes a line of the file, as it may hold a password.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let failed = |error: std::io::Error| CliError::at(path.display(), error);
        let length = std::fs::metadata(path).map_err(failed)?.len();
        if length > LONGEST {
            return Err(CliError::at(
                path.display(),
                format_args!("file is too large for a configuration ({length} bytes)"),
            ));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Self::parse(path, &text)
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, CliError> {
        let line = |at: usize| 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
        let place = |line: usize| format!("{}, line {line}", path.display());
        let table = DeTable::parse(text).map_err(|error| {
            let line = line(error.span().map_or(0, |span| span.start));
            CliError::at(
                place(line),
                format_args!("invalid TOML: {}", error.message()),
            )
        })?;
        let options = declared();
        let mut file = Self {
            path: path.into(),
            ..Self::default()
        };
        for (key, value) in table.get_ref() {
            let line = line(key.span().start);
            let key = key.get_ref().as_ref();
            let texts = match options.iter().any(|option| name(option) == key) {
                true => texts(value.get_ref()).map_err(|error| format!("{key}: {error}")),
                false => Err(unknown(key, &options)),
            };
            match texts {
                Ok(texts) => {
                    file.values
                        .insert(key.to_owned(), FileValue { line, texts });
                }
                Err(error) => file.problems.push(Problem {
                    option: key.to_owned(),
                    message: format!("{}: {error}", place(line)),
                }),
            }
        }
        Ok(file)
    }
}

/// The error for an unknown key, with the option that was probably meant.
fn unknown(key: &str, options: &[Arg]) -> String {
    let meant = key
        .trim_start_matches('-')
        .replace('-', "_")
        .to_ascii_lowercase();
    let is_meant =
        |option: &&Arg| name(option) == meant || variable(option).eq_ignore_ascii_case(&meant);
    match options.iter().find(is_meant) {
        Some(option) => format!("unknown key `{key}`; did you mean `{}`?", name(option)),
        None => {
            format!("unknown key `{key}`; `nutfilter serve --print-config-template` shows all keys")
        }
    }
}

/// A value as the texts that flags and variables would have.
fn texts(value: &DeValue<'_>) -> Result<Vec<String>, &'static str> {
    match value {
        DeValue::Array(values) => values.iter().map(|value| text(value.get_ref())).collect(),
        value => Ok(vec![text(value)?]),
    }
}

fn text(value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Boolean(value) => Ok(value.to_string()),
        DeValue::Integer(value) => i64::from_str_radix(value.as_str(), value.radix())
            .map(|value| value.to_string())
            .map_err(|_| "the number is too large"),
        DeValue::Float(_) => Err("must be a whole number"),
        DeValue::Datetime(_) => Err("must not be a date"),
        DeValue::Array(_) | DeValue::Table(_) => Err("must not be a table or a nested list"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        let file = ConfigFile::parse(Path::new("nutfilter.toml"), text)
            .map_err(|error| error.to_string())?;
        match file.problems.first() {
            Some(problem) => Err(problem.message.clone()),
            None => Ok(file),
        }
    }

    #[test]
    fn values_of_every_type_are_read_with_their_lines() {
        let file = parse(
            "# one\nrefresh = 0x3c\nmetrics = false\n\nlisten = ['a:1',\n 'b:2']\nbase_path = \"x\"",
        )
        .unwrap();
        let value = |name: &str| (file.values[name].line, file.values[name].texts.join(" "));
        assert_eq!(value("refresh"), (2, "60".to_owned()));
        assert_eq!(value("metrics"), (3, "false".to_owned()));
        assert_eq!(value("listen"), (5, "a:1 b:2".to_owned()));
        assert_eq!(value("base_path"), (7, "x".to_owned()));
    }

    #[test]
    fn unknown_key_is_named_with_its_line() {
        for (text, line, said) in [
            (
                "refresh = 1\nrefrsh = 5",
                2,
                "unknown key `refrsh`; `nutfilter serve --print",
            ),
            (
                "\n\nmint-database = 'x'",
                3,
                "did you mean `mint_database`?",
            ),
            ("LOG_LEVEL = 1", 1, "did you mean `log_level`?"),
            ("[http]\nrefresh = 1", 1, "unknown key `http`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.starts_with(&format!("nutfilter.toml, line {line}: ")),
                "{error}"
            );
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn invalid_toml_is_not_quoted() {
        for text in [
            "mint_api = 'hunter2-hunter2",
            "refresh = 1\nmint_api = hunter2",
            "hunter2",
            "mint_api = 'a'\nmint_api = 'hunter2'",
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.contains("line ") && error.contains("invalid TOML"),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn values_of_unsupported_types_are_refused() {
        for text in [
            "refresh = 1.5",
            "refresh = 1979-05-27",
            "refresh = { a = 1 }",
            "listen = [['a:1']]",
        ] {
            assert!(parse(text).unwrap_err().contains("line 1: "), "{text}");
        }
    }
}
