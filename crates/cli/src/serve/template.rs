//! A configuration file with every option in it, for operators to edit.

use super::layers::{declared, default, help, is_list, toml_value, variable};

/// Longest line of a comment, in characters.
const WIDTH: usize = 100;

/// The template: all options with their defaults, none of them set.
pub(super) fn template() -> String {
    let mut text = String::from(
        "# Configuration of `nutfilter serve --config FILE`. A line that begins with # sets nothing; it\n\
         # shows the default. An empty value counts as not set. Flags and environment take precedence.\n",
    );
    let mut heading = None;
    for option in declared() {
        if option.get_help_heading() != heading.as_deref() {
            heading = option.get_help_heading().map(str::to_owned);
            text += &format!("\n## {}\n", heading.as_deref().unwrap_or_default());
        }
        let words: Vec<_> = option
            .get_possible_values()
            .iter()
            .filter(|word| !word.is_hide_set())
            .map(|word| word.get_name().to_owned())
            .collect();
        let accepted = match words.is_empty() {
            true => String::new(),
            false => format!(" Accepted: {}.", words.join(", ")),
        };
        let sentence = format!(
            "{}.{accepted} Environment: {}.",
            help(&option),
            variable(&option)
        );
        text += "\n";
        for line in wrapped(&sentence) {
            text += &format!("# {line}\n");
        }
        let value = match default(&option) {
            Some(default) => toml_value(&option, &[default.to_owned()]),
            None if is_list(&option) => "[]".to_owned(),
            None => "\"\"".to_owned(),
        };
        text += &format!("#{} = {value}\n", option.get_id());
    }
    text
}

fn wrapped(sentence: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in sentence.split(' ') {
        let line = lines.last_mut().expect("the vector starts with one line");
        if line.len() + word.len() >= WIDTH {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::ConfigFile;
    use super::super::layers::{Sources, Texts};
    use super::*;

    /// The configuration that a file makes, as text.
    fn resolve(text: &str) -> String {
        let file = ConfigFile::parse(Path::new("template.toml"), text).unwrap();
        let sources = Sources {
            flags: &Texts::default(),
            threads: None,
            variable: &|_| None,
            file: Some(&file),
        };
        format!("{:?}", sources.resolve().valid().unwrap())
    }

    #[test]
    fn template_sets_nothing_and_shows_the_defaults() {
        assert_eq!(resolve(&template()), resolve(""));
        let uncommented: String = template()
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(option) if !option.starts_with([' ', '#']) => format!("{option}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        assert_eq!(resolve(&uncommented), resolve(""), "{uncommented}");
        assert!(
            uncommented.contains("\nmax_connections = 4096\n"),
            "{uncommented}"
        );
    }
}
