//! Modules: the module tree of a crate, with the names that each module defines and imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenTree};

use crate::tokens::{inside, is_path_separator, is_punct, line, read, word};

/// Source texts by path below `src`, with `/`.
pub(crate) struct Sources(BTreeMap<String, String>);

/// A module's name from the crate's root on: `["place", "memo"]`, `[]` for the root.
pub(crate) type Name = Vec<String>;

/// One module: a file, or a module in braces within one.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) file: usize,
    pub(crate) tokens: Vec<TokenTree>,
    /// Names of the items that the module defines itself.
    pub(crate) items: BTreeSet<String>,
    pub(crate) uses: Vec<Use>,
}

/// One name that a `use` imports into a module.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    /// The path as written; `*` may be its last part.
    pub(crate) path: Vec<String>,
    /// The name within this module; `*` imports everything, `_` nothing.
    pub(crate) name: String,
    /// Whether it has a visibility: `pub`, `pub(crate)` and the like.
    pub(crate) is_exported: bool,
    pub(crate) line: usize,
}

/// All modules of a crate that are not tests.
pub(crate) struct Modules {
    files: Vec<String>,
    modules: BTreeMap<Name, Module>,
}

impl Sources {
    /// Reads all Rust files below a folder.
    pub(crate) fn read(folder: &Path) -> Sources {
        let mut found = BTreeMap::new();
        collect(folder, "", &mut found);
        Sources(found)
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Sources {
        Sources(files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect())
    }
}

fn collect(folder: &Path, below: &str, found: &mut BTreeMap<String, String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of a folder").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a file name in UTF-8");
        if path.is_dir() {
            collect(&path, &format!("{below}{name}/"), found);
        } else if name.ends_with(".rs") {
            let text =
                fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            found.insert(format!("{below}{name}"), text);
        }
    }
}

impl Modules {
    pub(crate) fn new(sources: &Sources) -> Modules {
        let mut modules = Modules { files: Vec::new(), modules: BTreeMap::new() };
        modules.add_file(sources, "lib.rs", Name::new());
        modules
    }

    fn add_file(&mut self, sources: &Sources, path: &str, name: Name) {
        let text =
            sources.0.get(path).unwrap_or_else(|| panic!("{path} is declared and not there"));
        self.files.push(path.to_owned());
        let file = self.files.len() - 1;
        self.add_module(sources, file, name, &read(path, text));
    }

    fn add_module(&mut self, sources: &Sources, file: usize, name: Name, tokens: &[TokenTree]) {
        let mut module = Module { file, ..Module::default() };
        find_uses(tokens, &mut module.uses);
        let mut rest = Vec::with_capacity(tokens.len());
        let mut at = 0;
        while at < tokens.len() {
            let keyword = word(tokens.get(at)).unwrap_or_default();
            let item = word(tokens.get(at + 1));
            match (keyword.as_str(), item) {
                ("mod", Some(child)) => {
                    let child_name: Name = name.iter().chain([&child]).cloned().collect();
                    match tokens.get(at + 2).and_then(inside) {
                        Some(inner) => self.add_module(sources, file, child_name, &inner),
                        None => self.add_file(sources, &path_of(&child_name, sources), child_name),
                    }
                    at += 3;
                    continue;
                }
                (
                    "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static",
                    Some(item),
                ) => {
                    module.items.insert(item);
                }
                _ => {}
            }
            rest.push(tokens[at].clone());
            at += 1;
        }
        module.tokens = rest;
        self.modules.insert(name, module);
    }

    pub(crate) fn get(&self, name: &[String]) -> Option<&Module> {
        self.modules.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, &Module)> {
        self.modules.iter()
    }

    pub(crate) fn n_files(&self) -> usize {
        self.files.len()
    }

    /// Returns a file's path below `src`.
    pub(crate) fn path(&self, file: usize) -> &str {
        &self.files[file]
    }

    /// Returns the room of a file, `None` for the crate's root.
    pub(crate) fn room(&self, file: usize) -> Option<&str> {
        let path = self.path(file);
        path.split('/').next().map(|room| room.trim_end_matches(".rs")).filter(|_| path != "lib.rs")
    }

    pub(crate) fn rooms(&self) -> BTreeSet<String> {
        (0..self.n_files()).filter_map(|file| self.room(file)).map(str::to_owned).collect()
    }
}

/// Returns the file of a module: `place/memo.rs`, or `place/memo/mod.rs` if that exists.
fn path_of(name: &Name, sources: &Sources) -> String {
    let path = format!("{}.rs", name.join("/"));
    let other = format!("{}/mod.rs", name.join("/"));
    if sources.0.contains_key(&other) { other } else { path }
}

/// Finds the `use` items among tokens and inside their groups, but not those of modules in braces.
fn find_uses(tokens: &[TokenTree], found: &mut Vec<Use>) {
    let mut at = 0;
    while at < tokens.len() {
        let keyword = word(tokens.get(at)).unwrap_or_default();
        if keyword == "mod" && word(tokens.get(at + 1)).is_some() {
            at += 3;
        } else if keyword == "use" && !is_punct(tokens.get(at + 1), '<') {
            let end =
                (at..tokens.len()).find(|i| is_punct(tokens.get(*i), ';')).unwrap_or(tokens.len());
            let tree = UseTree {
                is_exported: at > 0 && ends_visibility(&tokens[at - 1]),
                prefix: Vec::new(),
            };
            tree.read(&tokens[at + 1..end], found);
            at = end + 1;
        } else {
            if let Some(inner) = inside(&tokens[at]) {
                find_uses(&inner, found);
            }
            at += 1;
        }
    }
}

/// Whether a token is `pub` or the parentheses of `pub(…)`.
fn ends_visibility(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Ident(ident) => ident == "pub",
        TokenTree::Group(group) => group.delimiter() == Delimiter::Parenthesis,
        _ => false,
    }
}

/// The paths of a `use`, from their common beginning on.
struct UseTree {
    is_exported: bool,
    prefix: Vec<String>,
}

impl UseTree {
    /// Reads the tokens after the beginning: one path, several in braces, or `*`.
    fn read(&self, tokens: &[TokenTree], found: &mut Vec<Use>) {
        for tokens in tokens.split(|tree| is_punct(Some(tree), ',')).filter(|part| !part.is_empty())
        {
            self.read_one(tokens, found);
        }
    }

    fn read_one(&self, tokens: &[TokenTree], found: &mut Vec<Use>) {
        let mut path = self.prefix.clone();
        let mut at = 0;
        while at < tokens.len() {
            if is_path_separator(tokens, at) {
                at += 2;
            } else if let Some(inner) = inside(&tokens[at]) {
                return UseTree { is_exported: self.is_exported, prefix: path }.read(&inner, found);
            } else if word(tokens.get(at)).is_some_and(|word| word == "as") {
                break;
            } else {
                path.push(tokens[at].to_string());
                at += 1;
            }
        }
        // `use a::{self}` imports `a`.
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let alias = word(tokens.get(at + 1)).filter(|_| at < tokens.len());
        let alias = alias
            .or_else(|| tokens.get(at + 1).filter(|_| at < tokens.len()).map(TokenTree::to_string));
        let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
        found.push(Use {
            path,
            name,
            is_exported: self.is_exported,
            line: tokens.first().map_or(1, line),
        });
    }
}
