//! Floors: the order of a crate's rooms, and the two rules that imports between them follow.
//!
//! A *room* is a top-level module of the crate: `src/x.rs` and everything in `src/x/`. The list names every room, from
//! the top floor to the ground; rooms on one line are on the same floor. The rules have no exceptions:
//!
//! 1. A file imports from its own room and from rooms on lower lines, from no other.
//! 2. No files import each other in a circle.
//!
//! A file *imports* another when its code names an item that the other file defines, by any path: a `use`, one name of
//! a nested `use`, or a path in an expression, a type or a macro's arguments. The definition is the strict one:
//!
//! * A name that a module re-exports counts as imported from the file that defines it, however long the chain is.
//! * A re-export (`pub use`, `pub(crate) use`) and a `mod` line import nothing by themselves. If the file also uses the
//!   re-exported name in its own code, that is an import.
//! * A parent module is a file like any other: if `x.rs` imports from `x/y.rs`, then `x/y.rs` must not import an item
//!   that `x.rs` itself defines.
//! * Comments, attributes, items under `#[cfg(test)]` and files of test modules are left out. The crate's root
//!   (`lib.rs`) belongs to no room; every file would import what it defines, so it should only declare and re-export.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::imports::{Import, Imports};
use crate::module::{Modules, Sources};

/// Checks a crate's `src` folder against its list of rooms; both paths are relative to the crate's folder. Returns one
/// text for each fault, none if the rules hold.
///
/// # Panics
/// If a source file or the list cannot be read.
pub fn check(crate_folder: &Path, list: &str) -> Vec<String> {
    let path = crate_folder.join(list);
    let list = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    check_sources(&Sources::read(&crate_folder.join("src")), &list)
}

fn check_sources(sources: &Sources, list: &str) -> Vec<String> {
    let modules = Modules::new(sources);
    let imports = Imports::of(&modules);
    let mut faults = list_faults(&modules, list);
    faults.extend(climbs(&modules, &imports, &floors(list)));
    faults.extend(circles(&modules, &imports));
    faults
}

/// Returns the number of each room's line, from the top; lines without a room are not counted.
fn floors(list: &str) -> BTreeMap<&str, usize> {
    let lines = list.lines().map(rooms_of_line).filter(|rooms| !rooms.is_empty());
    lines.enumerate().flat_map(|(i, rooms)| rooms.into_iter().map(move |room| (room, i))).collect()
}

/// Returns the rooms of a line; `#` starts a comment.
fn rooms_of_line(line: &str) -> Vec<&str> {
    line.split('#').next().unwrap_or_default().split_whitespace().collect()
}

/// Reports rooms that are listed twice, not listed, or listed but absent.
fn list_faults(modules: &Modules, list: &str) -> Vec<String> {
    let mut n_lines: BTreeMap<&str, usize> = BTreeMap::new();
    for room in list.lines().flat_map(rooms_of_line) {
        *n_lines.entry(room).or_default() += 1;
    }
    let rooms = modules.rooms();
    let unlisted = rooms.iter().filter(|room| !n_lines.contains_key(room.as_str()));
    let unlisted = unlisted.map(|room| format!("room `{room}` is not in the list of floors"));
    let missing = n_lines.keys().filter(|room| !rooms.contains(**room));
    let missing = missing.map(|room| format!("room `{room}` of the list of floors is not there"));
    let twice = n_lines.iter().filter(|(_, n)| **n > 1);
    let twice = twice.map(|(room, _)| format!("room `{room}` is in the list of floors twice"));
    unlisted.chain(missing).chain(twice).collect()
}

/// Reports imports from a room that is not on a lower line.
fn climbs(modules: &Modules, imports: &Imports, floors: &BTreeMap<&str, usize>) -> Vec<String> {
    let mut faults = Vec::new();
    for ((from, to), found) in imports.by_files() {
        let (Some(room), Some(other)) = (modules.room(from), modules.room(to)) else { continue };
        let (Some(here), Some(there)) = (floors.get(room), floors.get(other)) else { continue };
        if room != other && there <= here {
            let way = if there < here { "up to" } else { "sideways to" };
            faults.push(format!(
                "`{room}` imports {way} `{other}`: {}",
                arrow(modules, from, to, found)
            ));
        }
    }
    faults
}

/// Reports groups of files that import each other in a circle, each with the imports that form it.
fn circles(modules: &Modules, imports: &Imports) -> Vec<String> {
    let mut faults = Vec::new();
    for files in imports.circles() {
        let mut fault = format!("{} files import each other in a circle:", files.len());
        for ((from, to), found) in imports.by_files() {
            if files.contains(&from) && files.contains(&to) {
                let _ = write!(fault, "\n    {}", arrow(modules, from, to, found));
            }
        }
        faults.push(fault);
    }
    faults
}

/// Formats imports as `place.rs:12 -> filter/reason.rs (Reason, Refusal)`.
fn arrow(modules: &Modules, from: usize, to: usize, imports: &[Import]) -> String {
    let mut names: Vec<&str> = imports.iter().map(|import| import.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let line = imports.iter().map(|import| import.line).min().unwrap_or(1);
    format!("{}:{line} -> {} ({})", modules.path(from), modules.path(to), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(files: &[(&str, &str)], list: &str) -> Vec<String> {
        check_sources(&Sources::of(files), list)
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod upper; mod lower; pub use lower::Low;");

    #[test]
    fn imports_run_down() {
        let lower = ("lower.rs", "pub struct Low; // crate::upper::Up");
        let upper = ("upper.rs", "use crate::lower::Low; pub struct Up(Low);");
        assert_eq!(faults(&[ROOT, lower, upper], "upper # asks\n\n# ground\nlower"), [""; 0]);
        let found = faults(&[ROOT, lower, upper], "lower\nupper");
        assert_eq!(found, ["`upper` imports up to `lower`: upper.rs:1 -> lower.rs (Low)"]);
        let found = faults(&[ROOT, lower, upper], "lower upper");
        assert_eq!(found, ["`upper` imports sideways to `lower`: upper.rs:1 -> lower.rs (Low)"]);
    }

    #[test]
    fn the_list_names_every_room_once() {
        let files = [ROOT, ("lower.rs", ""), ("upper.rs", "")];
        assert_eq!(
            faults(&files, "lower\nlower\ncellar"),
            [
                "room `upper` is not in the list of floors",
                "room `cellar` of the list of floors is not there",
                "room `lower` is in the list of floors twice",
            ]
        );
    }

    #[test]
    fn every_way_to_name_an_item_is_an_import() {
        let lower =
            ("lower.rs", "pub struct Low; pub fn low() {} pub mod deep { pub struct Deep; }");
        for code in [
            "use crate::{\n    lower::{Low, low},\n};",
            "use super::lower::Low as Other;",
            "fn f() -> crate::lower::Low { crate::lower::Low }",
            "fn f() { use crate::lower; lower::low() }",
            "fn f() { assert!(x == [crate::lower::low()]) }",
            "use crate::lower::*;",
            "use crate::Low;",
            "use crate::lower::deep::Deep;",
            "use crate::lower as l; type T = Vec<l::deep::Deep>;",
            "macro_rules! m { () => { $crate::lower::low() } }",
            "mod inner { fn f() { super::super::lower::low() } }",
            "#[inline] pub fn f(_: &crate::lower::Low) {}",
        ] {
            let found = faults(&[ROOT, lower, ("upper.rs", code)], "lower\nupper");
            assert_eq!(found.len(), 1, "{code}: {found:?}");
            assert!(found[0].starts_with("`upper` imports up to `lower`: upper.rs:"), "{found:?}");
        }
    }

    #[test]
    fn tests_comments_texts_and_other_crates_import_nothing() {
        let lower = ("lower.rs", "pub struct Low;");
        for code in [
            "//! use crate::lower::Low;",
            "/// crate::lower::Low\nfn f() {}",
            "#[cfg(test)]\nmod tests { use crate::lower::Low; }",
            "#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;",
            "#[cfg(test)] use crate::lower::{Low};",
            "fn f() { let text = \"crate::lower::Low\"; }",
            "use lower_crate::lower::Low; fn f() { std::mem::drop(1) }",
            "fn f<'a>(x: &'a str) -> impl Copy + use<'a> { 'x' }",
            "enum Kind { Low } fn f() -> Kind { Kind::Low }",
        ] {
            assert_eq!(
                faults(&[ROOT, lower, ("upper.rs", code)], "lower\nupper"),
                [""; 0],
                "{code}"
            );
        }
    }

    #[test]
    fn a_name_belongs_to_the_file_that_defines_it() {
        let root = ("lib.rs", "mod upper; mod lower;");
        let lower = (
            "lower.rs",
            "mod deep; pub(crate) use deep::{Deep as Renamed};\npub(crate) use self::deep::*;",
        );
        let deep = ("lower/deep.rs", "pub(crate) struct Deep; pub(crate) const fn other() {}");
        for name in ["Renamed", "other"] {
            let upper = ("upper.rs", &*format!("use crate::lower::{name};"));
            let found = faults(&[root, lower, deep, upper], "lower\nupper");
            assert!(found[0].contains("upper.rs:1 -> lower/deep.rs ("), "{found:?}");
        }
    }

    #[test]
    fn a_parent_is_a_file_like_any_other() {
        let root = ("lib.rs", "mod house;");
        let child = ("house/room.rs", "use super::Shared; pub struct Room(Shared);");
        for (parent, n_faults) in [
            ("mod room; pub struct Shared; fn f(_: room::Room) {}", 1),
            ("mod room; pub struct Shared; use room::Room; fn f(_: Room) {}", 1),
            ("mod room; pub struct Shared; pub use room::Room; fn f(_: Room) {}", 1),
            ("mod room; pub struct Shared; pub use room::Room;", 0),
            ("mod room; pub struct Shared;", 0),
        ] {
            let found = faults(&[root, ("house.rs", parent), child], "house");
            assert_eq!(found.len(), n_faults, "{parent}: {found:?}");
        }
        let parent = ("house.rs", "mod room; pub struct Shared; fn f(_: room::Room) {}");
        assert_eq!(
            faults(&[root, parent, child], "house"),
            [concat!(
                "2 files import each other in a circle:",
                "\n    house.rs:1 -> house/room.rs (Room)",
                "\n    house/room.rs:1 -> house.rs (Shared)",
            )]
        );
    }
}
