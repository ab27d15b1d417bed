use super::*;
use crate::document::{self, decode::Reader};
use crate::expander::pattern::Pattern;
use crate::expander::priorities::Priorities;

fn read(text: &str) -> Result<ExpanderSection, String> {
    let document = document::parse("berth.yaml", text).map_err(|error| error.to_string())?;
    let reader = Reader::default();
    let read = section(reader.root(&document), Path::new("/etc/berth"));
    document::located("berth.yaml", &document, reader.into_problems())
        .map_err(|error| error.to_string())?;
    Ok(read.unwrap())
}

const WHOLE: &str = r#"
strategies: [priority, price, least-waste]
priorities:
  50: [".*spot.*"]
  10:
    - ".*"
prices:
  perCpuHour: 0.04
  perGibHour: 0.005
  perGpuHour: 2
  preferredCpus: 8
  nodes:
    - {nodeGroup: "^spot-", instanceType: m5.xlarge, labels: {tier: "1"}, perHour: 0.07}
    - {instanceType: m5.xlarge, perHour: 0.192}
"#;

#[test]
fn a_whole_section_is_read() {
    let config = resolve(&[], Some(&read(WHOLE).unwrap())).unwrap();
    assert_eq!(config.strategies, [Strategy::Priority, Strategy::Price, Strategy::LeastWaste]);
    let pattern = |text| Pattern::new(text).unwrap();
    let levels = vec![(50, vec![pattern(".*spot.*")]), (10, vec![pattern(".*")])];
    assert_eq!(config.priorities, Some(PrioritySource::Inline(Priorities { levels })));
    let prices = config.prices.unwrap();
    assert_eq!((prices.per_cpu_hour, prices.per_gib_hour), (0.04, 0.005));
    assert_eq!((prices.per_gpu_hour, prices.preferred_cpus), (2.0, Some(8)));
    assert_eq!(prices.nodes.len(), 2);
    assert_eq!(prices.nodes[0].labels["tier"], "1");
    assert_eq!(prices.nodes[1].per_hour, 0.192);
    assert_eq!(resolve(&[], None).unwrap(), ExpanderConfig::default());
}

#[test]
fn every_mistake_has_its_line() {
    for (text, expected) in [
        ("strategies: [berth, berth]", "line 1: `strategies[1]`: `berth` is named twice"),
        ("strategies: [cheapest]", "line 1: `strategies[0]`: `cheapest` is not one of"),
        ("strategies: [random]", "leave it out"),
        ("strategies: []", "line 1: `strategies`: names no strategy"),
        ("priorities: {}", "line 1: `priorities`: names no priority"),
        ("priorities:\n  ten: [a]", "line 2: `priorities.ten`: `ten` is not a whole number"),
        ("priorities:\n  1: ['(']", "line 2: `priorities.1[0]`: `(` is not a regular expression"),
        ("priorities:\n  1: a", "line 2: `priorities.1`: expected a list, got a string"),
        ("priorities:\n  1: [a]\n  1: [b]", "line 3: `1` is given twice"),
        ("priorities: {1: [a]}\nprioritiesFile: x", "exclude each other"),
        ("prices:\n  perCpuHour: 1", "line 2: `prices`: `perGibHour` is missing"),
        ("prices: {perCpuHour: 0, perGibHour: 1}", "`prices.perCpuHour`: must be greater than 0"),
        ("prices: {perCpuHour: -1, perGibHour: 1}", "must be a price of 0 or more"),
        ("prices: {perCpuHour: .nan, perGibHour: 1}", "line 1: non-finite float"),
        ("prices: {perCpuHour: 1, perGibHour: x}", "expected a number, got a string"),
        (
            "prices: {perCpuHour: 1, perGibHour: 1, nodes: [{instanceType: a}]}",
            "`prices.nodes[0]`: `perHour` is missing",
        ),
        ("prices: {perCpuHour: 1, perGibHour: 1, preferredCpus: 0}", "must be greater than 0"),
        ("strategy: berth", "line 1: `strategy`: unknown field"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_chain_has_what_its_strategies_need() {
    let section = read("priorities: {1: [a]}").unwrap();
    let refusal = |flag: &[Strategy], section: Option<&ExpanderSection>| {
        resolve(flag, section).unwrap_err().to_string()
    };
    let priority = [Strategy::Priority];
    assert!(resolve(&priority, Some(&section)).is_ok());
    assert!(refusal(&priority, None).starts_with("--expander: `priority` needs `priorities`"));
    assert!(refusal(&[Strategy::Price], Some(&section)).contains("needs `prices`"));
    assert!(refusal(&[Strategy::Berth, Strategy::Berth], None).contains("named twice"));
}
