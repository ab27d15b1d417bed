//! Comments of the protos as Markdown.

use prost_reflect::FileDescriptor;

/// Comment of a declaration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Comment {
    /// Its paragraphs, each as its lines.
    pub(crate) paragraphs: Vec<Vec<String>>,
    /// The heading of a group of methods (`// --- …`) that begins here.
    pub(crate) group: Option<String>,
}

impl Comment {
    /// The comment of what is at `path` in the file, empty where there is none.
    pub(crate) fn of(file: &FileDescriptor, path: &[i32]) -> Comment {
        let source = file.file_descriptor_proto().source_code_info.as_ref();
        let location =
            source.and_then(|source| source.location.iter().find(|location| location.path == path));
        let Some(location) = location else {
            return Comment::default();
        };
        let detached = location.leading_detached_comments.iter();
        let group = detached.filter_map(|text| text.trim().strip_prefix("--- ")).next_back();
        let leading = location.leading_comments();
        // Some comments follow the declaration on its line.
        let text = if leading.is_empty() { location.trailing_comments() } else { leading };
        Comment { paragraphs: paragraphs(text), group: group.map(str::to_owned) }
    }

    /// Text for the body of a page, with errors in a paragraph of their own.
    pub(crate) fn body(&self) -> String {
        let paragraphs = self.paragraphs.iter().map(|lines| {
            escaped(&lines.join("\n"))
                .replacen("Errors, ", "\n\n**Errors**, ", 1)
                .replacen("Errors of ", "\n\n**Errors** of ", 1)
                .replacen("Errors: ", "\n\n**Errors**: ", 1)
        });
        let joined = paragraphs.collect::<Vec<_>>().join("\n\n");
        // A replacement at the beginning of a paragraph leaves an empty part.
        joined
            .split("\n\n")
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("\n\n")
    }

    /// Text for a cell of a table, in one line.
    pub(crate) fn cell(&self) -> String {
        let paragraphs = self.paragraphs.iter().map(|lines| escaped(&lines.join(" ")));
        in_cell(&paragraphs.collect::<Vec<_>>().join("<br>"))
    }

    /// The first sentence, for a list.
    pub(crate) fn summary(&self) -> String {
        let text = self.paragraphs.first().map(|lines| lines.join(" ")).unwrap_or_default();
        let end = text
            .match_indices(". ")
            .map(|(at, _)| at)
            .find(|at| text[at + 2..].starts_with(char::is_uppercase));
        in_cell(&escaped(&text[..end.map_or(text.len(), |at| at + 1)]))
    }
}

fn paragraphs(text: &str) -> Vec<Vec<String>> {
    let mut paragraphs = vec![Vec::new()];
    for line in text.lines().map(str::trim) {
        match paragraphs.last_mut() {
            Some(last) if !line.is_empty() => last.push(line.to_owned()),
            _ => paragraphs.push(Vec::new()),
        }
    }
    paragraphs.retain(|lines| !lines.is_empty());
    paragraphs
}

/// Escapes `<` and `*` outside of code, where they would be markup.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(index, part)| match index % 2 {
        0 => part.replace('<', "&lt;").replace('*', "\\*"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}

/// Escapes bars, which end a cell, also in code.
fn in_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn a_comment_becomes_markdown() {
    let text =
        " Where to? `a|b` < c.\n Errors: NOT_FOUND for none.\n\n More, e.g. `x < y`. And so on.\n";
    let comment = Comment { paragraphs: paragraphs(text), group: None };
    assert_eq!(
        comment.body(),
        "Where to? `a|b` &lt; c.\n\n**Errors**: NOT_FOUND for none.\n\nMore, e.g. `x < y`. And so on."
    );
    assert_eq!(
        comment.cell(),
        "Where to? `a\\|b` &lt; c. Errors: NOT_FOUND for none.<br>More, e.g. `x < y`. And so on."
    );
    assert_eq!(comment.summary(), "Where to? `a\\|b` &lt; c.");
}
