//! Imports: which file names an item of which other file.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::TokenTree;

use crate::module::{Module, Modules, Name};
use crate::tokens::{inside, is_path_separator, is_punct, line, word};

/// One import of a file.
#[derive(Clone, Debug)]
pub(crate) struct Import {
    /// The imported item.
    pub(crate) name: String,
    /// Line of the importing file.
    pub(crate) line: usize,
}

/// All imports from one file to another.
pub(crate) struct Imports {
    found: BTreeMap<(usize, usize), Vec<Import>>,
    n_files: usize,
}

/// The largest number of re-exports through which one name is followed.
const MAX_STEPS: usize = 32;

impl Imports {
    pub(crate) fn of(modules: &Modules) -> Imports {
        let mut imports = Imports { found: BTreeMap::new(), n_files: modules.n_files() };
        for (name, module) in modules.iter() {
            let finder = Finder { modules, name, module };
            for used in &module.uses {
                if !used.is_exported || finder.uses_word(&module.tokens, &used.name) {
                    imports.add(module.file, finder.resolve(&used.path), used.line);
                }
            }
            finder.paths(&module.tokens, &mut |path, line| {
                imports.add(module.file, finder.resolve(path), line);
            });
        }
        imports
    }

    fn add(&mut self, from: usize, targets: Vec<(usize, String)>, line: usize) {
        for (to, name) in targets.into_iter().filter(|(to, _)| *to != from) {
            self.found.entry((from, to)).or_default().push(Import { name, line });
        }
    }

    pub(crate) fn by_files(&self) -> impl Iterator<Item = ((usize, usize), &[Import])> {
        self.found.iter().map(|(files, imports)| (*files, imports.as_slice()))
    }

    /// Returns groups of files, each file of which imports every other, directly or through others.
    pub(crate) fn circles(&self) -> Vec<BTreeSet<usize>> {
        let reached: Vec<BTreeSet<usize>> =
            (0..self.n_files).map(|file| self.reached(file)).collect();
        let mut circles: Vec<BTreeSet<usize>> = Vec::new();
        for file in 0..self.n_files {
            let is_known = circles.iter().any(|circle| circle.contains(&file));
            if reached[file].contains(&file) && !is_known {
                circles.push(
                    reached[file]
                        .iter()
                        .copied()
                        .filter(|other| reached[*other].contains(&file))
                        .collect(),
                );
            }
        }
        circles
    }

    /// Returns the files that a file imports, directly or through others.
    fn reached(&self, file: usize) -> BTreeSet<usize> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![file]);
        while let Some(from) = next.pop() {
            for ((_, to), _) in self.found.range((from, 0)..(from + 1, 0)) {
                if reached.insert(*to) {
                    next.push(*to);
                }
            }
        }
        reached
    }
}

/// Finds what the code of one module names.
struct Finder<'a> {
    modules: &'a Modules,
    name: &'a Name,
    module: &'a Module,
}

impl Finder<'_> {
    /// Calls `found` for every path of two parts or more, `use` items left out.
    fn paths(&self, tokens: &[TokenTree], found: &mut impl FnMut(&[String], usize)) {
        let mut at = 0;
        while at < tokens.len() {
            if word(tokens.get(at)).is_some_and(|word| word == "use")
                && !is_punct(tokens.get(at + 1), '<')
            {
                at = (at..tokens.len())
                    .find(|i| is_punct(tokens.get(*i), ';'))
                    .unwrap_or(tokens.len());
            }
            if let Some(inner) = tokens.get(at).and_then(inside) {
                self.paths(&inner, found);
            }
            let (path, end) = path_at(tokens, at);
            if path.len() > 1 && !is_continued(tokens, at) {
                found(&path, line(&tokens[at]));
            }
            at = end.max(at + 1);
        }
    }

    /// Whether code outside `use` items begins a path with this word.
    fn uses_word(&self, tokens: &[TokenTree], wanted: &str) -> bool {
        let mut at = 0;
        while at < tokens.len() {
            if word(tokens.get(at)).is_some_and(|word| word == "use")
                && !is_punct(tokens.get(at + 1), '<')
            {
                at = (at..tokens.len())
                    .find(|i| is_punct(tokens.get(*i), ';'))
                    .unwrap_or(tokens.len());
            }
            let is_wanted = word(tokens.get(at)).is_some_and(|word| word == wanted);
            if is_wanted && !is_continued(tokens, at) {
                return true;
            }
            if tokens.get(at).and_then(inside).is_some_and(|inner| self.uses_word(&inner, wanted)) {
                return true;
            }
            at += 1;
        }
        false
    }

    /// Returns the files that define the item of a path in this module, and the item's name in each.
    fn resolve(&self, path: &[String]) -> Vec<(usize, String)> {
        resolve(self.modules, self.name, self.module, path, 0)
    }
}

/// Whether the word here continues a path (`::`), is a field or method (`.`), or a macro's variable (`$`).
fn is_continued(tokens: &[TokenTree], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|i| tokens.get(i));
    let is_crate = word(tokens.get(at)).is_some_and(|word| word == "crate");
    // `..` before a word is a range, not a field.
    is_punct(before(1), ':') && is_punct(before(2), ':')
        || is_punct(before(1), '.') && !is_punct(before(2), '.')
        || is_punct(before(1), '$') && !is_crate
}

/// Returns the words joined by `::` from here on, and the position after them.
fn path_at(tokens: &[TokenTree], at: usize) -> (Vec<String>, usize) {
    let (mut path, mut end) = (Vec::new(), at);
    while let Some(word) = word(tokens.get(end)) {
        path.push(word);
        end += 1;
        if !is_path_separator(tokens, end) || word_after(tokens, end).is_none() {
            break;
        }
        end += 2;
    }
    (path, end)
}

fn word_after(tokens: &[TokenTree], separator: usize) -> Option<String> {
    word(tokens.get(separator + 2))
}

/// Resolves a path as [`Finder::resolve`] does, after `step` re-exports.
fn resolve(
    modules: &Modules,
    name: &[String],
    module: &Module,
    path: &[String],
    step: usize,
) -> Vec<(usize, String)> {
    let Some((mut at, mut rest)) = begin(modules, name, module, path, step) else {
        return match imported(module, path) {
            Some(full) if step < MAX_STEPS => resolve(modules, name, module, &full, step + 1),
            _ => Vec::new(),
        };
    };
    while let Some((next, after)) = rest.split_first() {
        let child: Name = at.iter().chain([next]).cloned().collect();
        if modules.get(&child).is_none() {
            return item(modules, &at, rest, step);
        }
        (at, rest) = (child, after);
    }
    // The path names a module: paths that begin with it are imports themselves.
    Vec::new()
}

/// Returns the module where a path begins, and the rest of the path; `None` if the path begins with an imported or a
/// foreign name.
fn begin<'p>(
    modules: &Modules,
    name: &[String],
    module: &Module,
    path: &'p [String],
    step: usize,
) -> Option<(Name, &'p [String])> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some((Name::new(), rest)),
        "self" => Some((name.to_vec(), rest)),
        "super" => {
            let mut at = name.split_last()?.1;
            let mut rest = rest;
            while let Some(("super", after)) =
                rest.split_first().map(|(word, after)| (word.as_str(), after))
            {
                (at, rest) = (at.split_last()?.1, after);
            }
            Some((at.to_vec(), rest))
        }
        _ => {
            let child: Name = name.iter().chain([first]).cloned().collect();
            let is_here = modules.get(&child).is_some() || module.items.contains(first) && step > 0;
            is_here.then(|| (name.to_vec(), path))
        }
    }
}

/// Replaces the first word of a path by the full path if a `use` of the module imports it.
fn imported(module: &Module, path: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let used =
        module.uses.iter().find(|used| used.name == *first && used.path.first() != Some(first))?;
    Some(used.path.iter().chain(rest).cloned().collect())
}

/// Returns the files that define the item at the beginning of `rest` in the module `at`, through re-exports.
fn item(modules: &Modules, at: &[String], rest: &[String], step: usize) -> Vec<(usize, String)> {
    let (Some(module), Some(name)) = (modules.get(at), rest.first()) else { return Vec::new() };
    if name == "*" {
        return vec![(module.file, name.clone())];
    }
    if module.items.contains(name) || step >= MAX_STEPS {
        return vec![(module.file, name.clone())];
    }
    if let Some(used) = module.uses.iter().find(|used| used.name == *name) {
        let full: Vec<String> = used.path.iter().chain(&rest[1..]).cloned().collect();
        return resolve(modules, at, module, &full, step + 1);
    }
    let globs = module.uses.iter().filter(|used| used.name == "*");
    for glob in globs {
        let (_, parent) =
            glob.path.split_last().map_or((None, &[][..]), |(star, path)| (Some(star), path));
        let full: Vec<String> = parent.iter().chain(rest).cloned().collect();
        let found = resolve(modules, at, module, &full, step + 1);
        let defines = |(file, item): &(usize, String)| {
            modules.iter().any(|(_, module)| module.file == *file && module.items.contains(item))
        };
        if found.iter().any(defines) {
            return found;
        }
    }
    vec![(module.file, name.clone())]
}
