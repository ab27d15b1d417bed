//! Runs every target on its committed corpus, and on some thousands of inputs that are derived from it. The derived
//! inputs are the same in every run, so that a failure can be repeated on every machine. Findings stay in the corpus.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod mutate;

use std::collections::HashSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

use berth_fuzz::{TARGETS, Target, corpus};

use mutate::Mutator;

#[test]
fn no_decoder_fails_on_its_corpus_or_on_mutated_inputs() {
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

/// Runs a target on its corpus and on derived inputs. The error names the first input that fails.
fn run(target: &Target) -> Result<(), String> {
    let inputs: Vec<Vec<u8>> = read(target.name).into_iter().map(|input| input.bytes).collect();
    for input in &inputs {
        try_input(target, input, || format!("`{}` of its corpus", input.escape_ascii()))?;
    }
    let words = words(target.dictionary);
    let mut mutator = Mutator::new(target.name, inputs, &words);
    for number in 0..target.n_short {
        let input = mutator.next_input();
        try_input(target, &input, || stored(target.name, number, &input))?;
    }
    Ok(())
}

fn try_input(target: &Target, input: &[u8], at: impl FnOnce() -> String) -> Result<(), String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    outcome.map_err(|_| format!("`{}` fails on {} (its panic is printed above)", target.name, at()))
}

/// Stores an input that a target failed on, to be run again and added to the corpus. Returns the path.
fn stored(name: &str, number: u32, input: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{number}"));
    match fs::write(&path, input) {
        Ok(()) => path.display().to_string(),
        Err(_) => format!("`{}`", input.escape_ascii()),
    }
}

/// Reads the corpus of a target.
fn read(name: &str) -> Vec<corpus::Input> {
    let path = corpus::path(name);
    let inputs = corpus::read(name).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(!inputs.is_empty(), "{} is empty", path.display());
    inputs
}

/// Reads the words of a dictionary: one on each line, in quotes.
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

/// Every corpus is in the form that `corpus pack` writes, and has no input twice.
#[test]
fn corpora_are_packed() {
    for Target { name, .. } in TARGETS {
        let inputs = read(name);
        let text = fs::read_to_string(corpus::path(name)).unwrap();
        assert!(
            text == corpus::format(&inputs),
            "corpus/{name}.txt is not as `corpus pack` writes it"
        );
        let distinct: HashSet<&[u8]> = inputs.iter().map(|input| &*input.bytes).collect();
        assert_eq!(distinct.len(), inputs.len(), "corpus/{name}.txt has an input twice");
        let names: Vec<&str> =
            inputs.iter().map(|input| &*input.name).filter(|name| !name.is_empty()).collect();
        let distinct: HashSet<&&str> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "corpus/{name}.txt has a name twice");
    }
}

/// Every target has a binary of its own name, a corpus, and a line in the table of the README.
#[test]
fn every_target_has_a_binary_a_corpus_and_a_line_in_the_readme() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (manifest, readme) = (read("libfuzzer/Cargo.toml"), read("README.md"));
    for Target { name, .. } in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "libfuzzer/Cargo.toml: `{name}`");
        let call = format!("berth_fuzz::{name}::run(data)");
        assert!(read(&format!("libfuzzer/targets/{name}.rs")).contains(&call), "`{name}`");
        assert!(readme.contains(&format!("| `{name}` |")), "README.md: `{name}`");
    }
    let n_corpora = fs::read_dir(root().join("corpus")).unwrap().count();
    assert_eq!(n_corpora, TARGETS.len(), "one file in `corpus/` for each target");
}
