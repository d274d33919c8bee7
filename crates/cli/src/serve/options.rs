//! What an option is. All of them are in `table`, once: flags, variables, keys of the file, their documentation,
//! the template and the check are made from it.

#[cfg(test)]
use std::fmt::Write as _;

use super::config::Config;
pub(crate) use super::table::GROUPS;
use super::values::Value;

/// One option.
pub(crate) struct Setting {
    /// The key in the file; with hyphens, the flag.
    pub(crate) name: &'static str,
    /// The variable.
    pub(crate) variable: &'static str,
    pub(crate) flag: Flag,
    pub(crate) shape: Shape,
    /// What holds when nobody says anything; `None` where [`Setting::unset`] says what then happens.
    pub(crate) default: Option<&'static str>,
    /// In place of a default, in words.
    pub(crate) unset: &'static str,
    pub(crate) secrecy: Secrecy,
    /// A sentence.
    pub(crate) help: &'static str,
    /// Reads a text into its field.
    pub(crate) read: fn(&mut Config, &str) -> Value<()>,
}

/// Whether the command line has a flag for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flag {
    /// One of `serve`.
    Own,
    /// One that all subcommands have.
    Global,
    /// None: what stands on a command line is seen by every user of the machine.
    None,
}

/// What values look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Any text; the word for it in the help.
    Text(&'static str),
    /// Any number of texts.
    List(&'static str),
    /// A whole number; the word for it in the help.
    Number(&'static str),
    /// On or off.
    Switch,
    /// One of these words, in any case.
    Words(&'static [&'static str]),
}

/// Who may see the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secrecy {
    Open,
    /// A place that may have a password in it.
    Place,
    Secret,
}

impl Setting {
    /// The flag, with its hyphens.
    pub(crate) fn flag_text(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// What the help and the documents say of the default.
    pub(crate) fn default_text(&self) -> &'static str {
        self.default.unwrap_or(self.unset)
    }
}

/// A group of options, as the help and the documents show them.
pub(crate) struct Group {
    pub(crate) title: &'static str,
    pub(crate) settings: &'static [Setting],
}

/// All options, in the order in which they are shown.
pub(crate) fn all() -> impl Iterator<Item = &'static Setting> {
    GROUPS.iter().flat_map(|group| group.settings)
}

/// The option of a name.
pub(crate) fn named(name: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.name == name)
}

/// The table of the documents, in Markdown.
#[cfg(test)]
pub(crate) fn markdown() -> String {
    let mut text = String::new();
    for group in GROUPS {
        let _ = write!(
            text,
            "\n**{}**\n\n| key in the file | environment | default | |\n|---|---|---|---|\n",
            group.title
        );
        for setting in group.settings {
            let default = match setting.default {
                Some(default) => format!("`{default}`"),
                None => setting.unset.to_owned(),
            };
            let flag = match setting.flag {
                Flag::None => " (no flag)",
                Flag::Own | Flag::Global => "",
            };
            let _ = writeln!(
                text,
                "| `{}`{flag} | `{}` | {default} | {} |",
                setting.name, setting.variable, setting.help
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_option_has_names_of_its_own_and_a_sentence() {
        let names: BTreeSet<_> = all().map(|setting| setting.name).collect();
        let variables: BTreeSet<_> = all().map(|setting| setting.variable).collect();
        assert_eq!(
            (names.len(), variables.len()),
            (all().count(), all().count())
        );
        for setting in all() {
            assert!(!setting.help.is_empty() && !setting.help.ends_with('.'));
            assert!(!setting.variable.is_empty() && !setting.default_text().is_empty());
            assert!(setting.secrecy != Secrecy::Secret || setting.flag == Flag::None);
        }
    }

    #[test]
    fn the_documents_have_the_table_of_the_options() {
        let document = include_str!("../../../../docs/operating.md");
        let table = markdown();
        assert!(
            document.contains(&table),
            "docs/operating.md lacks this table:\n{table}"
        );
    }
}
