//! Writes a file with all alternatives of its sites.

use std::cmp::Reverse;

use serde::Serialize;

use crate::sites::{Alternative, Kind, Site};

/// Some bytes of what was written.
#[derive(Serialize)]
pub(crate) struct Place {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The mutants that they have to do with.
    pub(crate) mutants: Vec<u32>,
    /// Whether they are the text of one, and not what is around it.
    pub(crate) own: bool,
}

/// `text` with its sites, and where the mutants lie in that.
pub(crate) fn written(text: &str, mut sites: Vec<Site>) -> (String, Vec<Place>) {
    // An outer one is before what it has inside; and what is inserted where an expression begins, before the expression.
    sites.sort_by_key(|site| {
        (
            site.bytes.start,
            !matches!(site.kind, Kind::Body(_)),
            Reverse(site.bytes.end),
        )
    });
    let mut writer = Writer {
        from: text,
        text: String::new(),
        places: Vec::new(),
    };
    writer.stretch(0, text.len(), &sites);
    (writer.text, writer.places)
}

struct Writer<'t> {
    from: &'t str,
    text: String,
    places: Vec<Place>,
}

impl Writer<'_> {
    /// The bytes `start..end` of the file, with the sites in them.
    fn stretch(&mut self, start: usize, end: usize, mut sites: &[Site]) {
        let mut at = start;
        while let Some((site, following)) = sites.split_first() {
            let inside = following
                .iter()
                .take_while(|other| other.bytes.start < site.bytes.end)
                .count();
            let (inside, after) = following.split_at(inside);
            self.text.push_str(&self.from[at..site.bytes.start]);
            self.site(site, inside);
            (at, sites) = (site.bytes.end, after);
        }
        self.text.push_str(&self.from[at..end]);
    }

    fn site(&mut self, site: &Site, inside: &[Site]) {
        let start = self.text.len();
        let numbers = match &site.kind {
            Kind::Expression(alternatives) => {
                self.text.push('(');
                self.choice(alternatives, site, inside);
                self.text.push(')');
                numbers(alternatives)
            }
            Kind::Body(alternatives) => {
                for Alternative { number, text } in alternatives {
                    self.alternative(*number, &format!("return {text};"));
                    self.text.push(' ');
                }
                numbers(alternatives)
            }
            Kind::Arm(deleted) => {
                self.text.push_str(&format!(" if !{}", asked(*deleted)));
                vec![*deleted]
            }
            Kind::Guard(deleted, alternatives) => {
                if let Some(deleted) = deleted {
                    self.text.push_str(&format!("!{} && ", asked(*deleted)));
                }
                self.text.push('(');
                self.choice(alternatives, site, inside);
                self.text.push(')');
                deleted
                    .iter()
                    .copied()
                    .chain(numbers(alternatives))
                    .collect()
            }
            Kind::Whole(numbers) => {
                self.stretch(site.bytes.start, site.bytes.end, inside);
                numbers.clone()
            }
        };
        self.place(start, numbers, false);
    }

    /// One of `alternatives`, or what is there.
    fn choice(&mut self, alternatives: &[Alternative], site: &Site, inside: &[Site]) {
        for Alternative { number, text } in alternatives {
            self.alternative(*number, text);
            self.text.push_str(" else ");
        }
        self.text.push_str("{ ");
        self.stretch(site.bytes.start, site.bytes.end, inside);
        self.text.push_str(" }");
    }

    fn alternative(&mut self, number: u32, text: &str) {
        let start = self.text.len();
        self.text
            .push_str(&format!("if {} {{ {text} }}", asked(number)));
        self.place(start, vec![number], true);
    }

    /// What was written since `start`.
    fn place(&mut self, start: usize, mutants: Vec<u32>, own: bool) {
        self.places.push(Place {
            start,
            end: self.text.len(),
            mutants,
            own,
        });
    }
}

fn asked(number: u32) -> String {
    format!("crate::mutant_switch::is({number})")
}

fn numbers(alternatives: &[Alternative]) -> Vec<u32> {
    alternatives
        .iter()
        .map(|alternative| alternative.number)
        .collect()
}
