//! Tables for people.

use comfy_table::{ColumnConstraint, ContentArrangement, presets};

use crate::escape::printable;

/// Width of a wrapped column at which it reads well: columns are dropped for it.
const GOOD_WRAPPED_WIDTH: u16 = 36;
/// Least width of a wrapped column: below it the terminal may as well break the long line.
const LEAST_WRAPPED_WIDTH: u16 = 20;
/// Number of blanks between two columns.
const GAP: u16 = 2;

/// Rows under headings. Cells are never broken, so that `grep` and `cut` see whole names. Only for a terminal, columns
/// set with [`Table::dropping`] are left out, and those set with [`Table::wrapping`] take several lines, until the table
/// fits.
pub(in crate::cli) struct Table {
    inner: comfy_table::Table,
    wrapped: Vec<usize>,
    dropped: Vec<usize>,
}

impl Table {
    /// A table with these headings.
    pub(in crate::cli) fn new(headings: &[&str]) -> Table {
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING);
        inner.set_content_arrangement(ContentArrangement::Disabled);
        inner.set_header(headings.iter().copied());
        Table { inner, wrapped: Vec::new(), dropped: Vec::new() }
    }

    /// Lets column `index` (from 0), which has sentences and not names, take several lines on a narrow terminal. Several
    /// such columns share the room.
    pub(in crate::cli) fn wrapping(mut self, index: usize) -> Table {
        self.wrapped.push(index);
        self
    }

    /// Adds a row; control characters are escaped.
    pub(in crate::cli) fn add_row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        let cells: Vec<String> =
            cells.into_iter().map(|cell| printable(cell.as_ref()).into_owned()).collect();
        self.inner.add_row(cells);
    }

    /// Leaves out these columns (from 0), one after another, for as long as the terminal is too narrow for the rest. The
    /// structured output has what they say, and so has a pipe.
    pub(in crate::cli) fn dropping(mut self, columns: impl IntoIterator<Item = usize>) -> Table {
        self.dropped.extend(columns);
        self
    }

    /// The text, without the padding of the last column and the margin of the first.
    pub(in crate::cli) fn text(&self) -> String {
        self.text_for(terminal_width())
    }

    fn text_for(&self, width: Option<u16>) -> String {
        let mut table = self.inner.clone();
        if let Some(width) = width {
            self.fit(&mut table, width);
        }
        let lines: Vec<String> = table
            .lines()
            .map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned())
            .collect();
        lines.join("\n")
    }

    /// Drops columns, and then wraps some, as far as `width` takes it.
    fn fit(&self, table: &mut comfy_table::Table, width: u16) {
        let mut widths = table.column_max_content_widths();
        for index in &self.dropped {
            if self.taken(&widths, GOOD_WRAPPED_WIDTH) <= width {
                break;
            }
            if let (Some(column), Some(width)) = (table.column_mut(*index), widths.get_mut(*index))
            {
                column.set_constraint(ColumnConstraint::Hidden);
                *width = 0;
            }
        }
        if self.wrapped.is_empty() || self.taken(&widths, LEAST_WRAPPED_WIDTH) > width {
            return;
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            let is_shown = widths.get(index).is_some_and(|width| *width > 0);
            if is_shown && !self.wrapped.contains(&index) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table.set_content_arrangement(ContentArrangement::Dynamic);
        // The outer margins are removed below.
        table.set_width(width.saturating_add(GAP));
    }

    /// The width of the table if its wrapped columns have no more than `wrapped` each; hidden columns have 0.
    fn taken(&self, widths: &[u16], wrapped: u16) -> u16 {
        let least = |(index, width): (usize, &u16)| match self.wrapped.contains(&index) {
            true => (*width).min(wrapped),
            false => *width,
        };
        let shown = widths.iter().enumerate().map(least).filter(|width| *width > 0);
        shown
            .fold(0, |sum: u16, width| sum.saturating_add(width).saturating_add(GAP))
            .saturating_sub(GAP)
    }
}

/// Number of columns of the terminal that standard output is, if it is one and knows.
pub(super) fn terminal_width() -> Option<u16> {
    // A terminal that does not know its width reports 0.
    comfy_table::Table::new().width().filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_plain_and_unpadded() {
        let mut table = Table::new(&["POD", "NODE"]);
        table.add_row(["default/web", "n1"]);
        table.add_row(["a/b", "a-longer-node-name"]);
        let expected = "POD          NODE\ndefault/web  n1\na/b          a-longer-node-name";
        assert_eq!(table.text_for(None), expected);
        assert_eq!(table.text_for(Some(10)), expected, "no column may be broken");
    }

    #[test]
    fn only_wrapping_columns_are_fitted_to_the_terminal() {
        let name = "default/".to_owned() + &"n".repeat(30);
        let mut table = Table::new(&["POD", "MESSAGE", "NODE"]).wrapping(1);
        let message = "0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient cpu.";
        table.add_row([name.as_str(), message, "n1"]);
        let text = table.text_for(Some(80));
        assert!(text.lines().count() > 2, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.lines().any(|line| line.starts_with(&name)), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        for word in message.split_whitespace() {
            assert!(words.contains(&word), "{word} is broken in\n{text}");
        }
        let mut two = Table::new(&["CAUSE", "NODES", "WOULD HELP"]).wrapping(0).wrapping(2);
        two.add_row([message, "12 of 300", message]);
        let text = two.text_for(Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        // Too narrow for a sentence: nothing is wrapped.
        assert_eq!(table.text_for(Some(60)), table.text_for(None));
    }

    #[test]
    fn columns_are_dropped_in_order_until_the_rest_fits() {
        let table = || {
            let mut table = Table::new(&["POD", "SCORE", "BEST", "MESSAGE"]).wrapping(3);
            table.add_row(["shop/web-0", "435", "1", "a message of some length that wraps"]);
            table.dropping([2, 1])
        };
        let headings = |width| table().text_for(width).lines().next().map(str::to_owned).unwrap();
        assert_eq!(headings(None), "POD         SCORE  BEST  MESSAGE");
        assert_eq!(headings(Some(80)), "POD         SCORE  BEST  MESSAGE");
        assert_eq!(headings(Some(55)), "POD         SCORE  MESSAGE");
        let narrow = table().text_for(Some(38));
        assert_eq!(narrow.lines().next(), Some("POD         MESSAGE"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 38), "{narrow}");
        assert_eq!(headings(Some(20)), "POD         MESSAGE");
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        let mut table = Table::new(&["POD"]);
        table.add_row(["a\r\u{1b}]0;x\u{7}"]);
        assert_eq!(table.text_for(None), "POD\na\\r\\u{1b}]0;x\\u{7}");
    }
}
