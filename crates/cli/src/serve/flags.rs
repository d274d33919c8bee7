//! The flags of `serve`, made from the table of options.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};

use super::options::{self, Flag, GROUPS, Setting, Shape};

/// What the command line says, by the name of the option.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags(pub(super) BTreeMap<&'static str, Vec<String>>);

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        GROUPS.iter().fold(command, |command, group| {
            let flags = group
                .settings
                .iter()
                .filter(|setting| setting.flag == Flag::Own);
            command
                .next_help_heading(group.title)
                .args(flags.map(argument))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for setting in options::all().filter(|setting| setting.flag == Flag::Own) {
            if let Some(texts) = matches.get_many::<String>(setting.name) {
                self.0.insert(setting.name, texts.cloned().collect());
            }
        }
        Ok(())
    }
}

fn argument(setting: &'static Setting) -> Arg {
    let long = setting.name.replace('_', "-");
    let mut help = setting.help.replace('`', "");
    // Writing to a string cannot fail.
    let _ = write!(
        help,
        " [env: {}] [default: {}]",
        setting.variable,
        setting.default_text().replace('`', "")
    );
    let argument = Arg::new(setting.name).long(long).help(help);
    match setting.shape {
        Shape::Text(word) | Shape::Number(word) => argument.value_name(word),
        Shape::List(word) => argument.value_name(word).action(ArgAction::Append),
        Shape::Switch => argument
            .value_name("on|off")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("on"),
        Shape::Words(words) => argument
            .value_name("WORD")
            // For completions; other spellings are understood as well.
            .value_parser(PossibleValuesParser::new(words))
            .ignore_case(true),
    }
    .allow_negative_numbers(true)
}
