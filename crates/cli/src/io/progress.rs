//! How far a long input has been read, as a line on a terminal.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// A reader that shows a line from the third second on, until its end or an error.
pub(crate) struct ShownReader<R> {
    reader: R,
    bar: ProgressBar,
    begun: Instant,
}

impl<R: Read> ShownReader<R> {
    /// `len` is the number of bytes, if it is known.
    pub(crate) fn new(reader: R, len: Option<u64>) -> Self {
        let style = match len {
            Some(_) => "{bytes} of {total_bytes} read, {eta} left {wide_bar}",
            None => "{bytes} read, {bytes_per_sec}",
        };
        let style = ProgressStyle::with_template(style).expect("the template is valid");
        let bar = ProgressBar::with_draw_target(len, ProgressDrawTarget::hidden());
        let bar = bar.with_style(style).with_finish(ProgressFinish::AndClear);
        let begun = Instant::now();
        Self { reader, bar, begun }
    }
}

impl<R: Read> Read for ShownReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        if self.bar.is_hidden() && self.begun.elapsed() > Duration::from_secs(2) {
            // Stays hidden where stderr is not a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(read as u64);
        Ok(read)
    }
}
