//! The rules of `docs/spec`: each id that is cited is defined there, and each that is defined is cited by code or
//! listed, with the reason, in `docs/spec/README.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{collect, ids, read, root, split_tests};

/// The files that define rules.
const FILES: [&str; 6] =
    ["scheduling.md", "dra.md", "kubernetes-1.37.md", "lifecycle.md", "wire.md", "admission.md"];
/// Demands on the test suite, which tests cite.
const OF_TESTS: &str = "L-TEST-";

#[test]
fn every_cited_rule_is_defined() {
    let defined = defined();
    let cited = Cited::find();
    let anywhere = cited.by_code.iter().chain(&cited.by_tests).chain(&cited.by_documents);
    let undefined: BTreeMap<_, _> = anywhere.filter(|(id, _)| !defined.contains(*id)).collect();
    assert!(undefined.is_empty(), "cited, but not defined in docs/spec: {undefined:#?}");
    assert!(cited.by_code.len() > 400, "{} rules cited by code", cited.by_code.len());
}

#[test]
fn every_defined_rule_is_cited_or_listed() {
    let defined = defined();
    let cited = Cited::find();
    let is_cited = |id: &str| {
        cited.by_code.contains_key(id)
            || id.starts_with(OF_TESTS) && cited.by_tests.contains_key(id)
    };
    let listed = listed();
    let silent: Vec<_> =
        defined.iter().filter(|id| !is_cited(id) && !listed.contains(*id)).collect();
    assert!(
        silent.is_empty(),
        "neither cited by code nor listed in docs/spec/README.md: {silent:?}"
    );
    let stale: Vec<_> = listed.iter().filter(|id| is_cited(id)).collect();
    assert!(stale.is_empty(), "listed in docs/spec/README.md, but cited by code: {stale:?}");
    let unknown: Vec<_> = listed.difference(&defined).collect();
    assert!(unknown.is_empty(), "listed in docs/spec/README.md, but not defined: {unknown:?}");
}

/// Returns the ids of list items with an anchor: `- <a id="s-fit-1"></a>**S-FIT-1** …`.
fn defined() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in FILES {
        let path = spec().join(file);
        for line in read(&path).lines() {
            let item = line.strip_prefix("- ").unwrap_or_default();
            let (anchor, rest) = match item.strip_prefix("<a id=\"") {
                Some(rest) => rest.split_once("\"></a>").expect("an anchor ends"),
                None => ("", item),
            };
            let bold = rest.strip_prefix("**").and_then(|rest| rest.split_once("**"));
            let Some((id, text)) = bold.filter(|(id, _)| ids(id).contains(*id)) else {
                assert!(anchor.is_empty(), "{}: an anchor without a rule: {line}", path.display());
                continue;
            };
            assert_eq!(anchor, id.to_ascii_lowercase(), "{}: {line}", path.display());
            assert!(text.starts_with(' '), "{}: {line}", path.display());
            assert!(found.insert(id.to_owned()), "{}: {id} is defined twice", path.display());
        }
    }
    found
}

/// Returns the ids of items `- ID: reason` on the page of rules that no code cites.
fn listed() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in read(&spec().join("README.md")).lines() {
        let Some((id, reason)) = line.strip_prefix("- ").and_then(|item| item.split_once(':'))
        else {
            continue;
        };
        assert_eq!(ids(id), BTreeSet::from([id.to_owned()]), "`{line}` starts with a rule");
        assert!(reason.trim().len() > 20, "`{line}` says why");
        assert!(found.insert(id.to_owned()), "{id} is listed twice");
    }
    assert!(!found.is_empty());
    found
}

/// Ids, each with a file that cites it.
#[derive(Default)]
struct Cited {
    by_code: BTreeMap<String, PathBuf>,
    by_tests: BTreeMap<String, PathBuf>,
    by_documents: BTreeMap<String, PathBuf>,
}

impl Cited {
    fn find() -> Cited {
        let mut cited = Cited::default();
        for path in files() {
            let text = read(&path);
            let with_path = |text| ids(text).into_iter().map(|id| (id, path.clone()));
            if is_of_tests(&path) {
                cited.by_tests.extend(with_path(&text));
            } else if is_source(&path) {
                let (code, tests) = split_tests(&path, &text);
                cited.by_code.extend(with_path(code));
                cited.by_tests.extend(with_path(tests));
            } else {
                cited.by_documents.extend(with_path(&text));
            }
        }
        cited
    }
}

fn is_of_tests(path: &Path) -> bool {
    let below = path.strip_prefix(root()).expect("below the root");
    below.iter().any(|folder| folder == "tests")
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs" || extension == "proto")
}

/// Returns every file of the repository that may cite a rule, the rules themselves included.
fn files() -> Vec<PathBuf> {
    let root = root();
    let mut found = Vec::new();
    for room in ["proto", "engine", "server", "loadgen", "fake-apiserver", "fuzz/src", "benches"] {
        collect(&root.join(room), &["rs", "proto", "md", "txt"], &mut found);
    }
    collect(&root.join("server/tests/data"), &["json"], &mut found);
    collect(&root.join("docs"), &["md"], &mut found);
    found.extend(["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|file| root.join(file)));
    assert!(found.len() > 500, "{} files", found.len());
    found
}

fn spec() -> PathBuf {
    root().join("docs/spec")
}
