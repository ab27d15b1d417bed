//! Every target on its committed corpus, and on some thousands of inputs that are made of it: always the same ones, so that a
//! failure here is one on every machine. What `libfuzzer/` finds is added to the corpus and stays.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "corpus/mutate.rs"]
mod mutate;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use berth_fuzz::{TARGETS, Target};

use mutate::Mutator;

#[test]
fn no_decoder_falls_over_what_was_found_nor_what_is_near_it() {
    let waiting = Mutex::new(TARGETS.iter());
    let failures = Mutex::new(Vec::new());
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                loop {
                    let Some(target) = waiting.lock().unwrap().next() else { return };
                    if let Err(failure) = run(target) {
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The first input that a target falls over.
fn run(target: &Target) -> Result<(), String> {
    let corpus = corpus(target.name);
    for (path, input) in &corpus {
        try_input(target, input, || path.display().to_string())?;
    }
    let inputs = corpus.into_iter().map(|(_, input)| input).collect();
    let words = words(target.dictionary);
    let mut mutator = Mutator::new(target.name, inputs, &words);
    for number in 0..target.n_short {
        let input = mutator.next_input();
        try_input(target, &input, || kept(target.name, number, &input))?;
    }
    Ok(())
}

fn try_input(target: &Target, input: &[u8], at: impl FnOnce() -> String) -> Result<(), String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    outcome.map_err(|_| format!("`{}` falls over {} (its panic stands above)", target.name, at()))
}

/// Keeps an input that something fell over, to be run again and added to the corpus.
fn kept(name: &str, number: u32, input: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{number}"));
    match fs::write(&path, input) {
        Ok(()) => path.display().to_string(),
        Err(_) => format!("`{}`", input.escape_ascii()),
    }
}

/// The files of a target's corpus, by name; it has some.
fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = root().join("corpus").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// The words of a dictionary: a line each, in quotes.
fn words(dictionary: &str) -> Vec<Vec<u8>> {
    if dictionary.is_empty() {
        return Vec::new();
    }
    let text = fs::read_to_string(root().join("dictionaries").join(dictionary)).unwrap();
    let word = |line: &str| {
        let word = line.strip_prefix('"').and_then(|line| line.strip_suffix('"')).unwrap();
        word.replace("\\\"", "\"").replace("\\\\", "\\").into_bytes()
    };
    text.lines().map(word).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every target has a binary of its own name, a corpus, and a line in the table of the README.
#[test]
fn every_target_is_built_fed_and_told_of() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (manifest, readme) = (read("libfuzzer/Cargo.toml"), read("README.md"));
    for Target { name, .. } in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "libfuzzer/Cargo.toml: `{name}`");
        let call = format!("berth_fuzz::{name}::run(data)");
        assert!(read(&format!("libfuzzer/targets/{name}.rs")).contains(&call), "`{name}`");
        assert!(readme.contains(&format!("| `{name}` |")), "README.md: `{name}`");
    }
    let folders = fs::read_dir(root().join("corpus")).unwrap().count();
    assert_eq!(folders, TARGETS.len(), "a folder of `corpus/` for each target");
}
