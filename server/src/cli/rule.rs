//! `berth rule`: prints the text of the rules that answers, code and documents cite.

use std::process::ExitCode;

use super::{CliError, output};

/// The rules in the repository: path of the file, and its text.
const FILES: [(&str, &str); 6] = [
    ("docs/spec/scheduling.md", include_str!("../../../docs/spec/scheduling.md")),
    ("docs/spec/dra.md", include_str!("../../../docs/spec/dra.md")),
    ("docs/spec/kubernetes-1.37.md", include_str!("../../../docs/spec/kubernetes-1.37.md")),
    ("docs/spec/lifecycle.md", include_str!("../../../docs/spec/lifecycle.md")),
    ("docs/spec/admission.md", include_str!("../../../docs/spec/admission.md")),
    ("docs/spec/wire.md", include_str!("../../../docs/spec/wire.md")),
];

/// Prints the text of rules, such as those that `berth lifecycle explain` names
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when every rule was found; 1 when one was not; 2 for a wrong command line."
)]
pub struct RuleArgs {
    /// The id of a rule, such as L-TERM-9, or of a family of rules, such as L-TERM
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// An id that no rule has; standard output that cannot be written.
pub fn run(args: &RuleArgs) -> Result<ExitCode, CliError> {
    let mut texts = Vec::new();
    for id in &args.ids {
        let id = id.to_ascii_uppercase();
        let found = FILES.iter().flat_map(|(file, text)| rules(file, text));
        let matching = found.filter(|rule| rule.id == id || rule.family() == id);
        let n_before = texts.len();
        texts.extend(matching.map(|rule| rule.text()));
        if texts.len() == n_before {
            return Err(CliError::Request(format!(
                "unknown rule `{id}`; docs/spec lists all of them"
            )));
        }
    }
    output::show(&texts.join("\n\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// A rule in its file.
struct Rule<'a> {
    file: &'a str,
    id: &'a str,
    /// The text of the list item after the id, with the indented lines below it.
    lines: Vec<&'a str>,
}

/// The rules of a file, in its order. A rule is a list item that begins with an anchor and the id:
/// `- <a id="l-term-9"></a>**L-TERM-9** Per container, …`; indented lines below belong to it.
fn rules<'a>(file: &'a str, text: &'a str) -> Vec<Rule<'a>> {
    let mut found: Vec<Rule<'a>> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        let begun = line.strip_prefix("- <a id=\"").and_then(|rest| rest.split_once("\"></a>**"));
        if let Some((id, first)) = begun.and_then(|(_, rest)| rest.split_once("** ")) {
            found.push(Rule { file, id, lines: vec![first] });
            is_inside = true;
        } else if is_inside && (line.is_empty() || line.starts_with("  ")) {
            found.last_mut().into_iter().for_each(|rule| rule.lines.push(line));
        } else {
            is_inside = false;
        }
    }
    found
}

impl Rule<'_> {
    /// The id without its number.
    fn family(&self) -> &str {
        self.id.rsplit_once('-').map_or(self.id, |(family, _)| family)
    }

    fn text(&self) -> String {
        let Rule { file, id, lines } = self;
        let mut text = format!("{id}  {file}#{}", id.to_ascii_lowercase());
        for line in lines {
            // The first line lost its indentation with its bullet.
            text += "\n  ";
            text += line.strip_prefix("  ").unwrap_or(line);
        }
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_found_under_its_anchor() {
        let mut n_found = 0;
        for (file, text) in FILES {
            let found = rules(file, text);
            assert_eq!(found.len(), text.matches("<a id=\"").count(), "{file}");
            for rule in &found {
                let anchor =
                    format!("<a id=\"{}\"></a>**{}** ", rule.id.to_ascii_lowercase(), rule.id);
                assert!(text.contains(&anchor), "{file}: {}", rule.id);
                assert!(rule.lines[0].len() > 10, "{file}: {}", rule.id);
            }
            n_found += found.len();
        }
        assert!(n_found > 500, "{n_found} rules");
    }

    #[test]
    fn a_rule_ends_where_its_item_ends() {
        let text = "- <a id=\"l-gc-1\"></a>**L-GC-1** One\n  two:\n\n  | a |\n\n- <a id=\"l-gc-2\"></a>**L-GC-2** Three\nOther\n  text";
        let found: Vec<String> = rules("f.md", text).iter().map(Rule::text).collect();
        let expected =
            ["L-GC-1  f.md#l-gc-1\n  One\n  two:\n\n  | a |", "L-GC-2  f.md#l-gc-2\n  Three"];
        assert_eq!(found, expected);
    }
}
