//! The configuration file: TOML, one key an option, no tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::options;
use crate::error::CliError;

/// More than this is no configuration, and is not read into memory.
const LONGEST: u64 = 1 << 20;

/// What a file says, checked for nothing but its keys and types.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) values: BTreeMap<&'static str, FileValue>,
}

/// One value of a file.
#[derive(Clone, Debug)]
pub(super) struct FileValue {
    /// The line of the key, counted from 1.
    pub(super) line: usize,
    /// One text; several, or none at all, if it is a list.
    pub(super) texts: Vec<String>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is not TOML, or has a key that is none. No error quotes a line of the file, as
    /// there may be a password in it.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let failed = |error: std::io::Error| CliError::at(path.display(), error);
        let length = std::fs::metadata(path).map_err(failed)?.len();
        if length > LONGEST {
            return Err(CliError::at(
                path.display(),
                format_args!("{length} bytes are no configuration"),
            ));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Self::parse(path, &text)
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, CliError> {
        let line = |at: usize| 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
        let at = |line: usize, message: String| {
            CliError::at(format_args!("{}, line {line}", path.display()), message)
        };
        let table = DeTable::parse(text).map_err(|error| {
            let line = line(error.span().map_or(0, |span| span.start));
            at(line, format!("not TOML: {}", error.message()))
        })?;
        let mut values = BTreeMap::new();
        for (key, value) in table.get_ref() {
            let line = line(key.span().start);
            let Some(setting) = options::named(key.get_ref()) else {
                return Err(at(line, unknown(key.get_ref())));
            };
            let texts = texts(value.get_ref())
                .map_err(|error| at(line, format!("{}: {error}", setting.name)))?;
            values.insert(setting.name, FileValue { line, texts });
        }
        Ok(Self {
            path: path.into(),
            values,
        })
    }
}

/// What to say of a key that is none.
fn unknown(key: &str) -> String {
    let meant = key
        .trim_start_matches('-')
        .replace('-', "_")
        .to_ascii_lowercase();
    let variable = |setting: &&options::Setting| setting.variable.eq_ignore_ascii_case(&meant);
    let known = options::named(&meant).or_else(|| options::all().find(variable));
    match known {
        Some(setting) => format!("`{key}` is no option; `{}` is", setting.name),
        None => format!(
            "`{key}` is no option; `nutfilter serve --print-config-template` shows all of them"
        ),
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
            .map_err(|_| "is too large"),
        DeValue::Float(_) => Err("is not a whole number"),
        DeValue::Datetime(_) => Err("is a date, which no option is"),
        DeValue::Array(_) | DeValue::Table(_) => {
            Err("is a table or a list in a list, which no option is")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::parse(Path::new("nutfilter.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn values_of_every_type_are_read_with_their_lines() {
        let file = parse(
            "# one\nrefresh = 0x3c\nmetrics = false\n\nlisten = ['a:1',\n 'b:2']\nhost = \"x\"",
        )
        .unwrap();
        let value = |name: &str| (file.values[name].line, file.values[name].texts.join(" "));
        assert_eq!(value("refresh"), (2, "60".to_owned()));
        assert_eq!(value("metrics"), (3, "false".to_owned()));
        assert_eq!(value("listen"), (5, "a:1 b:2".to_owned()));
        assert_eq!(value("host"), (7, "x".to_owned()));
    }

    #[test]
    fn a_key_that_is_none_is_named_with_its_line() {
        for (text, line, said) in [
            (
                "port = 1\nrefrsh = 5",
                2,
                "`refrsh` is no option; `nutfilter serve --print",
            ),
            ("\n\nmint-database = 'x'", 3, "`mint_database` is"),
            ("SERVER_PORT = 1", 1, "`port` is"),
            ("[http]\nport = 1", 1, "`http` is no option"),
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
    fn what_is_not_toml_is_not_quoted() {
        for text in [
            "admin_token = 'hunter2-hunter2",
            "port = 1\nadmin_token = hunter2",
            "hunter2",
            "admin_token = 'a'\nadmin_token = 'hunter2'",
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.contains("line ") && error.contains("not TOML"),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn values_of_a_type_that_no_option_has_are_refused() {
        for text in [
            "refresh = 1.5",
            "refresh = 1979-05-27",
            "port = { a = 1 }",
            "listen = [['a:1']]",
        ] {
            assert!(parse(text).unwrap_err().contains("line 1: "), "{text}");
        }
    }
}
