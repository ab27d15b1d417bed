//! Checks of the source tree: rules are defined, cited and tested, imports are allowed, no markers of unfinished work
//! are left, and tables match their files.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod floors;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Every rule that the engine cites is mentioned by a test, or listed as covered by the recorded corpus.
#[test]
fn every_cited_rule_is_tested() {
    let mut cited: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut tested = BTreeSet::new();
    for path in rust_files("engine/src") {
        let text = read(&path);
        let (code, tests) = split_tests(&path, &text);
        cited.extend(ids(code).into_iter().map(|id| (id, path.clone())));
        tested.extend(ids(tests));
    }
    for path in rust_files("server/src") {
        let text = read(&path);
        tested.extend(ids(split_tests(&path, &text).1));
    }
    let tests = rust_files("engine/tests").into_iter().chain(rust_files("server/tests"));
    tested.extend(tests.flat_map(|path| ids(&read(&path))));
    let recorded = corpus_ids();
    let untested: Vec<_> =
        cited.iter().filter(|(id, _)| !tested.contains(*id) && !recorded.contains(*id)).collect();
    assert!(untested.is_empty(), "cited but not tested: {untested:#?}");
    let stale: Vec<_> = recorded.iter().filter(|id| !cited.contains_key(*id)).collect();
    assert!(stale.is_empty(), "in corpus-ids.txt but cited nowhere in the engine: {stale:?}");
    assert!(cited.len() > 60, "{} rules found", cited.len());
}

/// Reads lines `ID SUITE…`; `#` starts a comment.
fn corpus_ids() -> BTreeSet<String> {
    let path = root().join("engine/tests/data/corpus-ids.txt");
    let mut found = BTreeSet::new();
    for line in read(&path).lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split(' ');
        let id = words.next().unwrap_or_default();
        assert_eq!(ids(id), BTreeSet::from([id.to_owned()]), "`{line}` starts with a rule");
        assert!(words.next().is_some(), "`{line}` names a suite");
        assert!(found.insert(id.to_owned()), "`{id}` is listed twice");
    }
    found
}

/// The engine is pure: no clock, file, socket, environment, randomness, async runtime or wire format of its own.
#[test]
fn the_engine_imports_nothing_impure() {
    const FORBIDDEN: [&str; 16] = [
        "std::time",
        "std::fs",
        "std::net",
        "std::env",
        "std::process",
        "std::io",
        "thread::sleep",
        "Instant::now",
        "SystemTime",
        "RandomState",
        "tokio",
        "tonic",
        "rand::",
        "serde::",
        "Serialize",
        "Deserialize",
    ];
    for path in rust_files("engine/src") {
        let text = read(&path);
        let code = without_comments(split_tests(&path, &text).0);
        for forbidden in FORBIDDEN {
            assert!(!code.contains(forbidden), "{} uses `{forbidden}`", path.display());
        }
        let grouped = code.split("use std::{").skip(1).filter_map(|rest| rest.split(';').next());
        for word in grouped.flat_map(words) {
            let is_forbidden = FORBIDDEN.iter().any(|f| f.strip_prefix("std::") == Some(word));
            assert!(!is_forbidden, "{} uses `std::{word}`", path.display());
        }
    }
    let manifest = read(&root().join("engine/Cargo.toml"));
    let dependencies = manifest.split("[dev-dependencies]").next().unwrap_or_default();
    for forbidden in ["tokio", "tonic", "serde", "rand"] {
        let is_listed =
            dependencies.lines().any(|line| line.split(['.', ' ', '=']).next() == Some(forbidden));
        assert!(!is_listed, "engine/Cargo.toml depends on `{forbidden}`");
    }
}

/// No source has a marker of unfinished work.
#[test]
fn no_leftover_markers() {
    // The words are split so that this file passes too.
    let markers = [("TO", "DO"), ("FIX", "ME"), ("X", "XX")].map(|(a, b)| format!("{a}{b}"));
    let macros = [("to", "do"), ("unimple", "mented")].map(|(a, b)| format!("{a}{b}!"));
    for path in sources() {
        for (number, line) in read(&path).lines().enumerate() {
            let at = || format!("{}:{}: {line}", path.display(), number + 1);
            assert!(
                !words(line).any(|word| markers.iter().any(|marker| marker == word)),
                "{}",
                at()
            );
            assert!(!macros.iter().any(|marker| line.contains(marker.as_str())), "{}", at());
        }
    }
}

/// Each plugin has a file of its name, and is in the table.
#[test]
fn filters_and_scores_have_a_file_each() {
    // No plugin checks fences.
    check_table("filter", "FILTER", &["reason", "table", "ledger_fence"]);
    // The three strategies are arguments of NodeResourcesFit, not plugins.
    let others = [
        "ln",
        "normalize",
        "table",
        "utilization",
        "least_allocated",
        "most_allocated",
        "requested_to_capacity_ratio",
    ];
    check_table("score", "SCORE", &others);
}

fn check_table(module: &str, item: &str, others: &[&str]) {
    let table = read(&root().join(format!("engine/src/{module}/table.rs")));
    let entry = format!("::{item}");
    let code = without_comments(&table);
    let entries: BTreeSet<&str> = code
        .lines()
        .filter_map(|line| line.trim().trim_end_matches(',').strip_suffix(entry.as_str()))
        .flat_map(|names| words(names).next_back())
        .collect();
    assert!(!entries.is_empty());
    let mut files = BTreeSet::new();
    for path in rust_files(&format!("engine/src/{module}")) {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !others.contains(&name.as_str()) && name != "tests" {
            let text = read(&path);
            let plugin = text
                .split("plugin: Plugin::")
                .nth(1)
                .and_then(|rest| words(rest).next())
                .unwrap_or_default();
            assert_eq!(snake_case(plugin), name, "{} holds the rule of `{plugin}`", path.display());
            files.insert(name);
        }
    }
    assert_eq!(
        entries,
        files.iter().map(String::as_str).collect(),
        "the table and the files of `{module}`"
    );
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (i, c) in name.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Only two files contain `unsafe`: to call functions for detected CPU features, and to set an option of the allocator.
#[test]
fn two_files_hold_all_that_is_unsafe() {
    let allowed = ["engine/src/kernel/dispatch.rs", "server/src/allocator.rs"];
    let allowed = allowed.map(|path| root().join(path));
    let keyword = ["un", "safe"].concat();
    for path in sources().into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        let text = read(&path);
        let is_used = words(&without_comments(&text)).any(|word| word == keyword);
        assert_eq!(is_used, allowed.contains(&path), "{} and `{keyword}`", path.display());
    }
}

/// Crates of the workspace import downwards only (docs/decisions/0011-crates.md). Crates for tests and benches are not
/// listed: they may import anything, and no listed crate imports them.
#[test]
fn crates_depend_downwards() {
    for (folder, expected) in [
        ("proto", vec![]),
        ("engine", vec!["proto"]),
        ("client", vec!["proto"]),
        ("etcd", vec![]),
        ("synthetic", vec!["proto"]),
        ("server", vec!["client", "engine", "etcd", "proto", "synthetic"]),
        ("loadgen", vec!["client", "proto", "synthetic"]),
        ("fake-apiserver", vec!["proto"]),
    ] {
        let manifest = read(&root().join(folder).join("Cargo.toml"));
        let shipped = manifest.split("\n[dev-dependencies]").next().unwrap_or_default();
        let found: Vec<&str> = shipped
            .lines()
            .filter_map(|line| line.strip_prefix("berth-")?.split(['.', ' ', '=']).next())
            .collect();
        assert_eq!(found, expected, "dependencies of `{folder}` on crates of the workspace");
    }
}

/// No file is called `mod.rs`, so that every editor tab has its own name.
#[test]
fn modules_are_named_after_themselves() {
    for path in sources() {
        assert_ne!(path.file_name().unwrap(), "mod.rs", "{}", path.display());
    }
}

/// Returns the requirement ids of a text; a range such as `S-FIT-1 to S-FIT-4` names all of its rules.
fn ids(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut previous: Option<(&str, u32, usize)> = None;
    for (at, _) in text.match_indices(['S', 'L', 'W', 'A']) {
        let is_word_start = !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
        let Some((family, number, end)) = id_at(text, at).filter(|_| is_word_start) else {
            continue;
        };
        let first = match previous {
            Some((of, from, ended)) if of == family && &text[ended..at] == " to " => from,
            _ => number,
        };
        found.extend((first..=number).map(|number| format!("{family}-{number}")));
        previous = Some((family, number, end));
    }
    found
}

/// Returns family, number and end of an id that starts here.
fn id_at(text: &str, at: usize) -> Option<(&str, u32, usize)> {
    let rest = text[at..].get(1..)?.strip_prefix('-')?;
    let is_family = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let n_family = rest.bytes().take_while(is_family).count();
    let digits = rest.get(n_family..)?.strip_prefix('-')?;
    let n_digits = digits.bytes().take_while(u8::is_ascii_digit).count();
    let number = digits[..n_digits].parse().ok().filter(|_| n_family > 0)?;
    let family_end = at + 2 + n_family;
    Some((&text[at..family_end], number, family_end + 1 + n_digits))
}

/// Splits a source file into code and unit tests, which are at its end.
fn split_tests<'a>(path: &Path, text: &'a str) -> (&'a str, &'a str) {
    if path.file_stem().is_some_and(|stem| stem == "tests") {
        return ("", text);
    }
    text.split_at(text.find("\n#[cfg(test)]").unwrap_or(text.len()))
}

fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns every source and manifest of the workspace.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for room in
        ["proto", "engine", "client", "server", "synthetic", "loadgen", "fuzz/src", "benches"]
    {
        collect(&root().join(room), &["rs", "proto", "toml"], &mut found);
    }
    assert!(found.len() > 50);
    found
}

fn rust_files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&root().join(folder), &["rs"], &mut found);
    found
}

fn collect(folder: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    // A folder that does not exist has no files.
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, extensions, found);
        } else if path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e))
        {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_ranges() {
        let found = |text| ids(text).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(
            found("(S-FIT-1 to S-FIT-4, W-QTY-3)."),
            "S-FIT-1 S-FIT-2 S-FIT-3 S-FIT-4 W-QTY-3"
        );
        assert_eq!(found("S-137-9 to S-137-11"), "S-137-10 S-137-11 S-137-9");
        assert_eq!(found("AS-FIT-1, S-FIT, S-1, L-PHASE-12, s-fit-1, S-FIT-"), "L-PHASE-12");
    }

    #[test]
    fn names() {
        assert_eq!(snake_case("NodeResourcesFit"), "node_resources_fit");
    }
}
