//! Lines: the bytes of a watch cut at newlines. Chunks are arbitrary: several events share one, and an event spans
//! several.

use std::io::BufRead as _;

/// Maximum length of a line, in bytes. etcd accepts objects of 1.5 MiB.
pub const MAX_LINE_BYTES: usize = 8 << 20;
/// Capacity that is kept from one line to the next.
const KEPT_BYTES: usize = 1 << 20;

/// Bytes that are not yet returned as lines. Never holds more than a chunk and [`MAX_LINE_BYTES`].
#[derive(Default)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// Index at which the first line begins that was not returned.
    start: usize,
    /// Index up to which there is no newline after `start`.
    searched: usize,
    /// Whether the bytes belong to a line that is too long.
    is_skipping: bool,
}

/// The next line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A whole line, without its newline; not empty.
    Whole(&'a [u8]),
    /// A line longer than [`MAX_LINE_BYTES`], which is dropped.
    TooLong,
}

impl Lines {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.buffer.len() + chunk.len() < KEPT_BYTES {
            self.buffer.shrink_to(KEPT_BYTES);
        }
        self.buffer.extend_from_slice(chunk);
    }

    /// Returns the next line, or `None` until more bytes come.
    pub(super) fn next(&mut self) -> Option<Line<'_>> {
        loop {
            let mut rest = self.buffer.get(self.searched..)?;
            // Reading from memory cannot fail.
            let n = rest.skip_until(b'\n').ok()?;
            self.searched += n;
            if n == 0 || self.buffer.get(self.searched - 1) != Some(&b'\n') {
                return self.give_up_if_too_long();
            }
            let line = self.start..self.searched - 1;
            self.start = self.searched;
            if std::mem::take(&mut self.is_skipping)
                || self.buffer[line.clone()].trim_ascii().is_empty()
            {
                continue;
            }
            if line.len() > MAX_LINE_BYTES {
                return Some(Line::TooLong);
            }
            return Some(Line::Whole(&self.buffer[line]));
        }
    }

    fn give_up_if_too_long(&mut self) -> Option<Line<'_>> {
        if self.is_skipping || self.buffer.len() - self.start > MAX_LINE_BYTES {
            self.start = self.buffer.len();
            return (!std::mem::replace(&mut self.is_skipping, true)).then_some(Line::TooLong);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `text` if it comes in pieces of `n` bytes.
    fn cut(text: &str, n: usize) -> Vec<String> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in text.as_bytes().chunks(n) {
            lines.push(piece);
            while let Some(line) = lines.next() {
                found.push(match line {
                    Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                    Line::TooLong => "too long".to_owned(),
                });
            }
        }
        found
    }

    #[test]
    fn lines_do_not_depend_on_chunks() {
        let text = "{\"a\":1}\n\n{\"b\":\"ж\"}\r\n{\"half";
        for n in 1..=text.len() {
            assert_eq!(cut(text, n), ["{\"a\":1}", "{\"b\":\"ж\"}\r"], "in pieces of {n}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_said_once_and_costs_no_other() {
        let long = "x".repeat(MAX_LINE_BYTES + 1);
        for n in [1 << 16, 3 << 20, 64 << 20] {
            assert_eq!(
                cut(&format!("a\n{long}\nb\n{long}"), n),
                ["a", "too long", "b", "too long"]
            );
        }
        let mut lines = Lines::default();
        for _ in 0..1_000 {
            lines.push(&[b'x'; 1 << 16]);
            while lines.next().is_some() {}
        }
        assert!(lines.buffer.capacity() < 3 * MAX_LINE_BYTES);
    }

    #[test]
    fn the_longest_line_is_taken() {
        let text = format!("{}\n", "x".repeat(MAX_LINE_BYTES));
        assert_eq!(cut(&text, 1 << 20)[0].len(), MAX_LINE_BYTES);
    }
}
