//! The rules for Prometheus and the dashboard for Grafana in `deploy/`: they can be read, and every metric that they
//! name exists.

use std::collections::BTreeSet;

use serde_json::Value;

use super::page::PAGE;

const RULES: &str = include_str!("../../../../deploy/prometheus/rules.yaml");
const DASHBOARD: &str = include_str!("../../../../deploy/grafana/berth.json");

/// Names of metrics in the first cells of the page's tables.
fn documented() -> BTreeSet<&'static str> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

/// Fails unless `expr` names metrics, all of them documented or recorded by a rule, and closes what it opens.
fn check(expr: &str, recorded: &BTreeSet<&str>) {
    let documented = documented();
    let words = expr.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let mut used = words.filter(|word| {
        word.contains(':') || word.starts_with("berth_") || word.starts_with("process_")
    });
    let exists = |name: &str| {
        let series = ["_bucket", "_sum", "_count"];
        let histogram = series.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        recorded.contains(name) || documented.contains(name) || documented.contains(histogram)
    };
    let first = used.next().unwrap_or_else(|| panic!("no metric: {expr}"));
    for name in std::iter::once(first).chain(used) {
        assert!(exists(name), "{name}: {expr}");
    }
    for (open, close) in [('(', ')'), ('[', ']'), ('{', '}')] {
        assert_eq!(expr.matches(open).count(), expr.matches(close).count(), "{expr}");
    }
}

#[test]
fn rules_use_existing_metrics() {
    let file: Value = serde_saphyr::from_str(RULES).unwrap();
    let rules: Vec<&Value> = file["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap())
        .collect();
    let recorded: BTreeSet<&str> =
        rules.iter().filter_map(|rule| rule["record"].as_str()).collect();
    let mut alerts = BTreeSet::new();
    for rule in &rules {
        let text = |key: &str| rule[key].as_str().unwrap_or_else(|| panic!("no `{key}`: {rule}"));
        check(text("expr"), &recorded);
        if rule["record"].is_string() {
            continue;
        }
        assert!(text("alert").starts_with("Berth"), "{rule}");
        assert!(alerts.insert(text("alert")), "{rule}");
        assert!(text("for").ends_with('m'), "{rule}");
        for key in ["summary", "description"] {
            assert!(rule["annotations"][key].is_string(), "{rule}");
        }
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning"].contains(&severity), "{rule}");
    }
    for alert in ["BerthFeedStale", "BerthNoLeader", "BerthLedgerUnavailable", "BerthBindsFail"] {
        assert!(alerts.contains(alert), "{alert}");
    }
}

#[test]
fn the_dashboard_draws_existing_metrics() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut areas: Vec<[u64; 4]> = Vec::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let area = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        let [x, y, w, h] = area;
        assert!(x + w <= 24, "{panel}");
        let overlaps =
            |[x2, y2, w2, h2]: &[u64; 4]| x < x2 + w2 && *x2 < x + w && y < y2 + h2 && *y2 < y + h;
        assert!(!areas.iter().any(overlaps), "{panel}");
        areas.push(area);
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].as_str().unwrap().ends_with('.'), "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            check(target["expr"].as_str().unwrap(), &BTreeSet::new());
        }
    }
    assert!(panels.len() > 20, "{}", panels.len());
}
