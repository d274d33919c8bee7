//! Bytes of a text by lines and columns, the way compilers and parsers speak of places.

use proc_macro2::Span;

pub(crate) struct Positions<'t> {
    text: &'t str,
    /// The byte at which each line begins.
    lines: Vec<usize>,
}

impl<'t> Positions<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            lines: std::iter::once(0).chain(after_breaks).collect(),
        }
    }

    /// The byte of a character: lines count from 1, columns from 0.
    pub(crate) fn byte(&self, line: usize, column: usize) -> usize {
        let start = self.lines[line - 1];
        let rest = &self.text[start..];
        start
            + rest
                .char_indices()
                .nth(column)
                .map_or(rest.len(), |(at, _)| at)
    }

    /// The bytes of what a parser read.
    pub(crate) fn bytes(&self, span: Span) -> std::ops::Range<usize> {
        let (start, end) = (span.start(), span.end());
        self.byte(start.line, start.column)..self.byte(end.line, end.column)
    }
}
