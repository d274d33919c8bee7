//! Errors of the command line and of the environment: all of them together, each with its option and variable.

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// The variables of the environment with these begin belong to this command.
const PREFIX: &str = "NUTFILTER_";

/// Every invalid value, beginning with the one in this error of parsing `command`, a line each.
///
/// # Errors
///
/// The given one, if it is about something else.
pub(crate) fn errors(mut command: Command, first: clap::Error) -> Result<Vec<String>, clap::Error> {
    // Before that, options cannot be displayed.
    command.build();
    let (mut lines, mut unknown) = (vec![], vec![]);
    let mut next = Some(first);
    while let Some(mut error) = next.take() {
        let named = options(&error);
        let variable = variable(&command, &named);
        let is_value = matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation);
        if variable.is_some() {
            unknown = unknown_variables(&command);
        } else if !is_value {
            match lines.is_empty() {
                true => return Err(error),
                false => break,
            }
        }
        if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
            let value = ContextValue::String(shown(value).to_owned());
            error.insert(ContextKind::InvalidValue, value);
        }
        let line = one_line(&error, variable.as_deref());
        if lines.contains(&line) {
            // It is not about the value itself.
            break;
        }
        lines.push(line);
        if is_value {
            // To find the next error, this option accepts everything.
            let accept = |option: Arg| match named.contains(&option.to_string()) {
                true => option.value_parser(ValueParser::os_string()),
                false => option,
            };
            command = command.mut_args(accept).mut_subcommands(|one| one.mut_args(accept));
            next = command.try_get_matches_from_mut(std::env::args_os()).err();
        }
    }
    lines.extend(unknown);
    Ok(lines)
}

/// The variables of the environment that no option reads, a line each.
pub(crate) fn unknown_variables(command: &Command) -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let all = command.get_subcommands().flat_map(Command::get_arguments);
    let known: Vec<_> = all.filter_map(Arg::get_env).collect();
    let is_known = |name: &String| known.iter().any(|&known| known == name.as_str());
    let mut unknown: Vec<_> = names
        .filter(|name| name.starts_with(PREFIX) && !is_known(name))
        .map(|name| format!("unknown variable {name}: unset it, or see `nutfilter serve --help`"))
        .collect();
    unknown.sort();
    unknown
}

/// The options that an error is about, as `--name <VALUE>`.
fn options(error: &clap::Error) -> Vec<String> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => vec![option.clone()],
        Some(ContextValue::Strings(options)) => options.clone(),
        _ => vec![],
    }
}

/// The variable of these options of the given subcommand.
fn variable(command: &Command, named: &[String]) -> Option<String> {
    let mut words = std::env::args_os().skip(1);
    let used = words.find_map(|word| command.find_subcommand(word))?;
    let mut options = used.get_arguments();
    let option = options.find(|option| named.contains(&option.to_string()));
    let variable = option?.get_env()?.to_str()?;
    Some(variable.to_owned())
}

/// clap's message without its usage and tips, which repeat one of the possible values.
fn one_line(error: &clap::Error, variable: Option<&str>) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim);
    let left_out = ["For more information", "tip:", "Usage:"];
    let lines = lines.filter(|line| !left_out.iter().any(|start| line.starts_with(start)));
    let lines = lines.filter(|line| !line.is_empty());
    let mut line = lines.collect::<Vec<_>>().join(" ");
    if let Some(variable) = variable {
        line += &format!(" [env: {variable}]");
    }
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// A value as it may be printed: one that may hold a password is hidden as a whole.
pub(crate) fn shown(text: &str) -> &str {
    let lower = text.to_ascii_lowercase();
    let is_secret = ["@", "?", "passw", "%3a", "%40"].iter().any(|mark| lower.contains(mark));
    if is_secret { "***" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_may_hold_a_password_are_hidden() {
        for text in ["/var/lib/mint", "https://mint.example/Bitcoin", "0.0.0.0:1"] {
            assert_eq!(shown(text), text);
        }
        for text in [
            "https://user:hunter2@mint.example/Bitcoin",
            "https://user:h@hunter2/x@mint.example",
            "https://mint.example?key=hunter2",
            "mint:hunter2@mint.example",
            "mint%3Ahunter2",
            "host=db password=hunter2",
        ] {
            assert_eq!(shown(text), "***");
        }
    }
}
