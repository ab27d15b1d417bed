//! Tables for people.

use comfy_table::{ColumnConstraint, ContentArrangement, presets};

use crate::escape::printable;

/// Minimum width of a wrapped column: below it the terminal may as well break the long line.
const MIN_WRAPPED_WIDTH: u16 = 20;
/// Number of blanks between two columns.
const GAP: u16 = 2;

/// Rows under headings. Cells are never broken, so that `grep` and `cut` see whole names. Only for a terminal, the column
/// set with [`Table::wrapping`] takes several lines, and those set with [`Table::dropping`] are left out, until the table
/// fits.
pub(in crate::cli) struct Table {
    inner: comfy_table::Table,
    wrapped: Option<usize>,
    dropped: Vec<usize>,
}

impl Table {
    /// A table with these headings.
    pub(in crate::cli) fn new(headings: &[&str]) -> Table {
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING);
        inner.set_content_arrangement(ContentArrangement::Disabled);
        inner.set_header(headings.iter().copied());
        Table { inner, wrapped: None, dropped: Vec::new() }
    }

    /// Lets column `index` (from 0), which has sentences and not names, take several lines on a narrow terminal.
    pub(in crate::cli) fn wrapping(mut self, index: usize) -> Table {
        self.wrapped = Some(index);
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

    /// Drops columns, and then wraps one, as far as `width` takes it.
    fn fit(&self, table: &mut comfy_table::Table, width: u16) {
        let mut widths = table.column_max_content_widths();
        let taken = |widths: &[u16]| {
            let gaps = GAP.saturating_mul(u16::try_from(widths.len()).unwrap_or(u16::MAX));
            widths.iter().fold(gaps.saturating_sub(GAP), |sum, width| sum.saturating_add(*width))
        };
        let least = |widths: &[u16]| {
            let mut widths = widths.to_vec();
            if let Some(width) = self.wrapped.and_then(|index| widths.get_mut(index)) {
                *width = (*width).min(MIN_WRAPPED_WIDTH);
            }
            widths.retain(|width| *width > 0);
            taken(&widths)
        };
        for index in &self.dropped {
            if least(&widths) <= width {
                break;
            }
            if let (Some(column), Some(width)) = (table.column_mut(*index), widths.get_mut(*index))
            {
                column.set_constraint(ColumnConstraint::Hidden);
                *width = 0;
            }
        }
        let Some(wrapped) = self.wrapped.filter(|_| least(&widths) <= width) else {
            return;
        };
        for (index, column) in table.column_iter_mut().enumerate() {
            if index != wrapped && widths.get(index).is_some_and(|width| *width > 0) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table.set_content_arrangement(ContentArrangement::Dynamic);
        // The outer margins are removed below.
        table.set_width(width.saturating_add(GAP));
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
    fn only_the_wrapping_column_is_fitted_to_the_terminal() {
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
        assert_eq!(headings(Some(44)), "POD         SCORE  MESSAGE");
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
