//! Colours of answers for people, by the form of their lines: answers themselves hold no control characters.

use anstyle::{AnsiColor, Style};

const HEADING: Style = Style::new().bold();
const CHOSEN: Style = AnsiColor::Green.on_default().bold();
const REMARK: Style = AnsiColor::Yellow.on_default();

/// Marks the chosen node of a table.
const CHOSEN_MARK: &str = "->";
/// Begins the remark at the end of a line, such as that a refusal is the only thing in the way.
const REMARK_MARK: &str = "<- ";

/// The text with headings, the chosen line and remarks painted.
pub(super) fn painted(text: &str) -> String {
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn line(line: &str) -> String {
    if is_headings(line) {
        return in_style(HEADING, line);
    }
    if line.starts_with(CHOSEN_MARK) {
        return in_style(CHOSEN, line);
    }
    match line.find(REMARK_MARK) {
        Some(at) => {
            let (before, remark) = line.split_at(at);
            format!("{before}{}", in_style(REMARK, remark))
        }
        None => line.to_owned(),
    }
}

/// Whether the line has the headings of a table: names of objects have no capitals, and sentences have small letters.
fn is_headings(line: &str) -> bool {
    line.chars().any(char::is_uppercase) && !line.chars().any(char::is_lowercase)
}

fn in_style(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_the_choice_and_remarks_are_painted() {
        let text =
            "POD  NODE\n-> n1  411\n2  cpu <- the only thing in the way\nshop/a  n1\n\n1 pod";
        let expected = "\u{1b}[1mPOD  NODE\u{1b}[0m\n\u{1b}[1m\u{1b}[32m-> n1  411\u{1b}[0m\n\
            2  cpu \u{1b}[33m<- the only thing in the way\u{1b}[0m\nshop/a  n1\n\n1 pod";
        assert_eq!(painted(text), expected);
    }
}
