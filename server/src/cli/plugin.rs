//! The kubectl plug-in: the same program under the name `kubectl-berth`, so that `kubectl berth …` runs it. It reads the
//! cluster of kubectl's current context, unless another source is named.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Command;

/// The file name under which kubectl finds the plug-in.
const NAME: &str = "kubectl-berth";
/// Flags that name a source, and the one that a plug-in adds.
const SOURCES: [&str; 3] = ["--cluster", "--server", "--kube"];
const KUBE: &str = "--kube";

/// Whether the program was started as the plug-in.
#[must_use]
pub fn is_plugin(arguments: &[OsString]) -> bool {
    let program = arguments.first().map(Path::new);
    program.and_then(Path::file_stem).is_some_and(|name| name == NAME)
}

/// The arguments with `--kube`, if the command has that flag and none of them names a source.
pub(super) fn with_source(command: &Command, arguments: &[OsString]) -> Vec<OsString> {
    let mut all = arguments.to_vec();
    let end = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    let words = arguments.get(1..end).unwrap_or_default();
    if reads_a_cluster(command, words) && !words.iter().any(|word| names_a_source(word)) {
        all.insert(end, KUBE.into());
    }
    all
}

/// Whether the innermost subcommand of these words has the flag `--kube` of questions.
fn reads_a_cluster(command: &Command, words: &[OsString]) -> bool {
    let mut command = command;
    for word in words.iter().filter_map(|word| word.to_str()) {
        if let Some(inner) = command.find_subcommand(word) {
            command = inner;
        }
    }
    // `berth serve --kube` has a flag of this name too, whose value is a setting.
    command.get_arguments().any(|arg| arg.get_long() == Some("kube") && arg.get_env().is_none())
}

fn names_a_source(word: &OsStr) -> bool {
    let Some(word) = word.to_str() else { return false };
    let flag = word.split_once('=').map_or(word, |(flag, _)| flag);
    SOURCES.contains(&flag)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_name_of_the_program_makes_the_plugin() {
        assert!(is_plugin(&words("/usr/local/bin/kubectl-berth status")));
        for other in ["berth", "kubectl", "kubectl-berthing"] {
            assert!(!is_plugin(&words(other)), "{other}");
        }
    }

    #[test]
    fn questions_read_the_current_context_unless_told_otherwise() {
        let with = |text: &str| with_source(&Cli::command(), &words(text));
        for text in ["k status", "k explain shop/web-0 --context c", "k lifecycle qos shop/web-0"] {
            assert_eq!(with(text), words(&format!("{text} --kube")));
        }
        assert_eq!(with("k explain -- -"), words("k explain --kube -- -"));
        for text in [
            "k status --server http://h:1",
            "k explain p --cluster=c.json",
            "k get pods --kube",
            "k rule L-TERM-9",
            "k serve",
            "k --help",
            "k",
        ] {
            assert_eq!(with(text), words(text));
        }
    }
}
