//! The access of methods as Markdown: a line for each method's page, and the table in `docs/security.md`.

use std::fmt::Write as _;

use berth_proto::access::{Effect, METHODS, Method};

/// Start of the head of the table in `docs/security.md`.
const TABLE: &str = "| RPC | role |";

/// The line about the method at `path` on its page.
pub(crate) fn line(path: &str) -> String {
    let method = METHODS.iter().find(|method| method.path == path).expect("a method");
    let (role, lane) = (word(&method.role), word(&method.lane));
    let effect = match method.effect {
        Effect::Reads => "changes nothing",
        Effect::ByRequest => "changes something by request",
        Effect::Changes => "changes something",
    };
    let condition = match method.condition {
        "" => String::new(),
        condition => format!(" A request may also need: {condition}."),
    };
    format!("Role `{role}`, lane `{lane}`, {effect}.{condition}")
}

/// The page with its table of RPCs as the protos have it.
pub(crate) fn updated(page: &str) -> String {
    let start = page.find(TABLE).expect("the table of RPCs");
    let rows = page[start..].split_inclusive('\n').take_while(|line| line.starts_with('|'));
    let end = start + rows.map(str::len).sum::<usize>();
    format!("{}{}{}", &page[..start], table(), &page[end..])
}

/// Methods of one service that have the table's other columns in common.
struct Row {
    methods: Vec<&'static Method>,
    is_rest: bool,
}

fn table() -> String {
    let mut text =
        format!("{TABLE} what a request may need besides | audit line |\n|---|---|---|---|\n");
    for row in rows() {
        let first = row.methods[0];
        let names = match row.is_rest {
            true => format!("`{}.*`", service(first)),
            false => {
                let names = row.methods.iter().map(|method| format!("`{}`", name(method)));
                names.collect::<Vec<_>>().join(", ")
            }
        };
        let role = word(&first.role);
        writeln!(text, "| {names} | {role} | {} | {} |", first.condition, audit_line(first))
            .expect("written");
    }
    text
}

/// The rows, service by service; the last row of a service has the methods that any reader may call unconditionally.
fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut methods: Vec<&Method> = METHODS.iter().collect();
    let services: Vec<&str> = METHODS.iter().map(service).collect();
    let position = |method: &Method| services.iter().position(|name| *name == service(method));
    methods.sort_by_key(|method| (position(method), is_plain(method)));
    for method in methods {
        let shared = rows.iter_mut().find(|row| {
            let first = row.methods[0];
            service(first) == service(method)
                && (first.role, first.condition, audit_line(first))
                    == (method.role, method.condition, audit_line(method))
        });
        match shared {
            Some(row) => row.methods.push(method),
            None => rows.push(Row { methods: vec![method], is_rest: is_plain(method) }),
        }
    }
    for row in &mut rows {
        row.is_rest &= row.methods.len() > 1;
    }
    rows
}

/// Whether every reader may call the method unconditionally and it changes nothing.
fn is_plain(method: &Method) -> bool {
    method.role == berth_proto::access::Role::Reader
        && method.effect == Effect::Reads
        && method.condition.is_empty()
}

fn audit_line(method: &Method) -> &'static str {
    match (method.effect, method.is_stream) {
        (Effect::Reads, _) => "",
        (Effect::ByRequest, false) => "when it changes something",
        (Effect::ByRequest, true) => "one, at its end, when a message changed something",
        (Effect::Changes, _) => "always",
    }
}

/// `PlacementService` of `/berth.v1.PlacementService/Place`.
fn service(method: &Method) -> &'static str {
    let (service, _) = method.path.rsplit_once('/').expect("a path");
    service.rsplit('.').next().expect("a name")
}

/// `PlacementService.Place` of `/berth.v1.PlacementService/Place`.
fn name(method: &Method) -> String {
    let (_, name) = method.path.rsplit_once('/').expect("a path");
    format!("{}.{name}", service(method))
}

/// The name of an enum's value, as it is written in files and messages.
fn word(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

#[test]
fn only_the_table_is_replaced() {
    let page = format!("before\n{TABLE} old |\n|---|---|\n| `X.Y` | admin |\n\nafter | more\n");
    let updated = updated(&page);
    assert!(updated.starts_with("before\n| RPC | role | what "), "{updated}");
    assert!(updated.ends_with(" |\n\nafter | more\n"), "{updated}");
    assert!(!updated.contains("`X.Y`"), "{updated}");
    for row in [
        "| `PlacementService.Place` | reader | `scheduler` to `ASSUME` in the live cluster | when it changes something |\n",
        "| `LifecycleService.BreakAttachment` | admin |  | always |\n",
        "| `LifecycleService.*` | reader |  |  |\n",
        "| `Expander.BestOptions` | reader |  |  |\n",
    ] {
        assert!(updated.contains(row), "{row} is not in\n{updated}");
    }
}
