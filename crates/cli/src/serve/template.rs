//! A configuration file with every option in it, to be edited.

use super::options::{GROUPS, Setting, Shape};
use super::resolve::toml_value;

/// Longest line of a comment, in characters.
const WIDTH: usize = 100;

/// The template: all options with their defaults, none of them set.
pub(super) fn template() -> String {
    let mut text = String::from(
        "# Configuration of `nutfilter serve --config FILE`. A line that begins with # sets nothing; what it shows\n\
         # is the default. An empty text is as good as none. Flags and the environment go before this file.\n",
    );
    for group in GROUPS {
        text += &format!("\n## {}\n", group.title);
        for setting in group.settings {
            text += "\n";
            for line in comment(setting) {
                text += &format!("# {line}\n");
            }
            text += &format!("#{} = {}\n", setting.name, default(setting));
        }
    }
    text
}

/// The default as a value of the file; an empty one where there is none.
fn default(setting: &Setting) -> String {
    match (setting.default, setting.shape) {
        (Some(default), _) => toml_value(setting, &[default.to_owned()]),
        (None, Shape::List(_)) => "[]".to_owned(),
        (None, _) => "\"\"".to_owned(),
    }
}

/// What the option is, in lines that fit.
fn comment(setting: &Setting) -> Vec<String> {
    let mut words = setting.help.to_owned() + ".";
    if let Shape::Words(all) = setting.shape {
        words += &format!(" One of: {}.", all.join(", "));
    }
    if setting.default.is_none() {
        words += &format!(" Not set: {}.", setting.unset);
    }
    words += &format!(" Environment: {}.", setting.variable);
    let mut lines = vec![String::new()];
    for word in words.split(' ') {
        let line = lines.last_mut().expect("there is one from the beginning");
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
    use super::super::flags::Flags;
    use super::super::resolve::{Origin, Sources};
    use super::*;

    fn resolve(text: &str) -> String {
        let file = ConfigFile::parse(Path::new("template.toml"), text).unwrap();
        let sources = Sources {
            flags: &Flags::default(),
            threads: None,
            variable: &|_| None,
            file: Some(&file),
        };
        let resolved = sources.resolve().unwrap();
        let from_file = |origin: &Origin| matches!(origin, Origin::File { .. });
        let set = resolved
            .given
            .iter()
            .filter(|given| from_file(&given.origin))
            .count();
        format!("{set} {:?}", resolved.config)
    }

    #[test]
    fn the_template_sets_nothing_and_shows_the_defaults() {
        let defaults = resolve("");
        assert_eq!(resolve(&template()), defaults);

        let set: String = template()
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(option) if !option.starts_with([' ', '#']) => format!("{option}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let with_default = super::super::options::all()
            .filter(|setting| setting.default.is_some())
            .count();
        let wanted = defaults.replacen("0 ", &format!("{with_default} "), 1);
        assert_eq!(resolve(&set), wanted, "{set}");
    }
}
