//! Checks that `docs/configuration.md` names every field, flag, variable and default, and nothing else.

use std::collections::BTreeSet;

use clap::{Arg, CommandFactory as _};

use super::super::*;
use crate::cli::Cli;
use crate::config::settings::Documented;

/// Variables without a flag.
const WITHOUT_FLAG: [&str; 1] = ["BERTH_LOG"];

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    std::fs::read_to_string(path).unwrap()
}

/// One setting of the page: names and default without back-ticks, empty if the page has none. A flag's variable follows
/// from its name.
#[derive(Debug, Default, Clone)]
struct Setting {
    field: String,
    flag: String,
    variable: String,
    default: String,
}

/// The settings in the section with this heading, each written as
/// ``* `field`, `--flag`, default `value`: meaning``.
fn settings(heading: &str) -> Vec<Setting> {
    let page = page();
    let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut settings = Vec::new();
    for item in section.replace("\n  ", " ").lines().filter_map(|line| line.strip_prefix("* ")) {
        let (head, _) = item.split_once(": ").unwrap();
        let (names, default) = match head.split_once(", default ") {
            Some((names, default)) => (names, default.replace('`', "")),
            None => (head, String::new()),
        };
        let mut setting = Setting { default, ..Setting::default() };
        for name in names.split(", ") {
            let name = name.replace('`', "");
            match name.strip_prefix("--") {
                Some(flag) => {
                    setting.variable = format!("BERTH_{}", flag.replace('-', "_").to_uppercase());
                    setting.flag = name;
                }
                None if name.starts_with("BERTH_") => setting.variable = name,
                None => setting.field = name,
            }
        }
        settings.push(setting);
    }
    assert!(!settings.is_empty(), "`{heading}` lists no settings");
    settings
}

fn of_serve() -> Vec<Setting> {
    settings("## Settings of the service")
}

/// The flags of a command, without `--help`.
fn flags(command: &str) -> Vec<Arg> {
    let cli = Cli::command();
    let command = cli.find_subcommand(command).unwrap();
    command.get_arguments().filter(|arg| arg.get_id() != "help").cloned().collect()
}

fn flag(arg: &Arg) -> String {
    arg.get_long().map(|long| format!("--{long}")).unwrap_or_default()
}

fn variable(arg: &Arg) -> String {
    arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Default in the help of a flag.
fn default(arg: &Arg) -> Option<String> {
    let values: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !values.is_empty() {
        return Some(values.join(","));
    }
    let help = arg.get_help()?.to_string();
    let (_, default) = help.split_once("[default: ")?;
    Some(default.strip_suffix(']')?.replace('`', ""))
}

/// Asserts that the page lists each flag once, with its default, that its variable follows from its name, and that the
/// page lists no other flag.
fn compare(flags: &[Arg], settings: &[Setting]) {
    for arg in flags {
        let name = flag(arg);
        let lines: Vec<_> = settings.iter().filter(|line| line.flag == name).collect();
        let [line] = lines.as_slice() else {
            panic!("docs/configuration.md has {} lines for `{name}`", lines.len());
        };
        assert_eq!(line.variable, variable(arg), "the variable of `{name}`");
        if let Some(default) = default(arg) {
            assert_eq!(line.default, default, "the default of `{name}`");
        }
    }
    let known: BTreeSet<String> = flags.iter().map(flag).collect();
    for line in settings {
        assert!(line.flag.is_empty() || known.contains(&line.flag), "no flag: {line:?}");
        let alone = line.flag.is_empty() && !line.variable.is_empty();
        assert!(!alone || WITHOUT_FLAG.contains(&line.variable.as_str()), "no variable: {line:?}");
    }
}

#[test]
fn every_flag_and_variable_is_documented() {
    let serve = flags("serve");
    compare(&serve, &of_serve());
    let known: BTreeSet<String> = serve.iter().map(flag).collect();
    let mut schedule = flags("schedule");
    schedule.retain(|arg| !known.contains(&flag(arg)));
    compare(&schedule, &settings("## Settings of `berth schedule`"));
}

#[test]
fn every_field_is_documented_and_the_example_has_them() {
    let page = page();
    let (_, example) = page.split_once("```yaml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let document = crate::document::parse("docs/configuration.md", example).unwrap();
    let reader = Reader::default();
    reader.root(&document).object(|fields| fields_of(fields, Path::new("/etc/berth")));
    let read: BTreeSet<String> = reader.taken().into_iter().collect();
    assert_eq!(reader.into_problems(), []);

    // A field that holds others is documented by them, unless it can also be empty.
    let holds_others = |path: &String| {
        read.iter().any(|other| {
            other.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']))
        })
    };
    let documented: BTreeSet<String> =
        of_serve().into_iter().map(|line| line.field).filter(|field| !field.is_empty()).collect();
    let missing: Vec<&String> = read
        .iter()
        .filter(|path| !holds_others(path) && !documented.contains(*path))
        .filter(|path| !["apiVersion", "kind"].contains(&path.as_str()))
        .collect();
    assert!(missing.is_empty(), "docs/configuration.md has no line for {missing:?}");
    let unknown: Vec<&String> = documented.difference(&read).collect();
    assert!(
        unknown.is_empty(),
        "docs/configuration.md has lines for {unknown:?}, which no file may have"
    );
}

/// Returns the entries that the page must have, each as ``* `field`, `--flag`, default `value`: meaning``.
fn entries() -> Vec<String> {
    let serve = flags("serve");
    let lists = [
        ("", Overrides::documented()),
        ("kube.", KubeOverrides::documented()),
        ("etcd.", EtcdOverrides::documented()),
        ("tls.", TlsOverrides::documented()),
        ("auth.", AuthOverrides::documented()),
        ("audit.", AuditOverrides::documented()),
        ("journal.", JournalOverrides::documented()),
        ("limits.", LimitsOverrides::documented()),
    ];
    let mut entries = Vec::new();
    // The flag that names the file is of no list.
    let mut undocumented: Vec<String> =
        serve.iter().map(flag).filter(|flag| flag != "--config").collect();
    for (section, settings) in lists {
        for Documented { name, field, at, shown, meaning } in settings {
            // A section has no entry: its settings have.
            let Some(meaning) = meaning else { continue };
            let flag = serve.iter().find(|arg| arg.get_id() == name).map(flag);
            undocumented.retain(|known| Some(known) != flag.as_ref());
            let field = at.map(str::to_owned).or(field.map(|name| format!("{section}{name}")));
            let names: Vec<String> =
                field.into_iter().chain(flag).map(|name| format!("`{name}`")).collect();
            let default = shown.map_or(String::new(), |shown| format!(", default {shown}"));
            entries.push(format!("* {}{default}: {meaning}", names.join(", ")));
        }
    }
    assert!(undocumented.is_empty(), "the lists have no `page` for {undocumented:?}");
    entries
}

/// An entry in lines of at most 120 columns.
fn wrapped(entry: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in entry.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > 120 {
            text.push_str("\n ");
            width = 1;
        }
        if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text
}

#[test]
fn the_page_says_what_the_lists_say() {
    let page = page().replace("\n  ", " ");
    let lines: BTreeSet<&str> = page.lines().collect();
    let entries = entries();
    let missing: Vec<String> = entries
        .iter()
        .filter(|entry| !lines.contains(entry.as_str()))
        .map(|entry| wrapped(entry))
        .collect();
    assert!(missing.is_empty(), "docs/configuration.md has to say:\n{}", missing.join("\n"));
}
