//! The recorded expressions: each verdict and each cost of kube-scheduler v1.36 on 30 devices (S-DRA-110 to S-DRA-120).

use berth_engine::cel::{Device, Program};
use serde_json::Value;

use crate::device;

const SUITE: &str = "conformance-dra/dra-cel.jsonl.gz";

/// Compile errors, verdicts and costs are equal. Costs of macros over maps are not compared, because upstream walks maps
/// in a random order.
#[test]
fn verdicts_and_costs_are_as_recorded() {
    let Some(text) = berth_testing::recorded::read(SUITE) else { return };
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    let devices: Vec<Device> =
        header["devices"].as_array().unwrap().iter().map(device::read).collect();
    let mut report = Report::default();
    for line in lines {
        report.compare(&line, &devices);
    }
    println!(
        "{} expressions, {} verdicts, {} costs, {} costs of walks through maps differ",
        report.n_expressions, report.n_verdicts, report.n_costs, report.n_map_costs
    );
    let n_faults = report.faults.len();
    let shown: Vec<&String> = report.faults.iter().take(40).collect();
    assert!(n_faults == 0, "{n_faults} differences, such as {shown:#?}");
    assert!(report.n_verdicts > 100_000, "{} verdicts", report.n_verdicts);
}

#[derive(Default)]
struct Report {
    n_expressions: usize,
    n_verdicts: usize,
    n_costs: usize,
    n_map_costs: usize,
    faults: Vec<String>,
}

impl Report {
    fn compare(&mut self, line: &Value, devices: &[Device]) {
        let source = line["expr"].as_str().unwrap();
        self.n_expressions += 1;
        let program = match (Program::compile(source), line["compileError"].as_str()) {
            (Ok(program), None) => program,
            (Err(_), Some(_)) => return,
            (Ok(_), Some(error)) => {
                return self.faults.push(format!("{source}: compiles, but recorded is: {error}"));
            }
            (Err(error), None) => return self.faults.push(format!("{source}: {error}")),
        };
        let (results, costs) =
            (line["results"].as_array().unwrap(), line["cost"].as_array().unwrap());
        assert_eq!((results.len(), costs.len()), (devices.len(), devices.len()));
        for (position, device) in devices.iter().enumerate() {
            let evaluation = program.evaluate(device);
            self.n_verdicts += 1;
            let recorded = &results[position];
            if evaluation.result.as_ref().ok() != recorded.as_bool().as_ref() {
                let found = format!("{:?}", evaluation.result);
                self.faults
                    .push(format!("{source} on {position}: {found}, recorded is {recorded}"));
                continue;
            }
            let Some(cost) = costs[position].as_u64() else { continue };
            self.n_costs += 1;
            if cost == evaluation.cost {
                continue;
            }
            if walks_a_map(source) {
                self.n_map_costs += 1;
            } else {
                let found = evaluation.cost;
                self.faults
                    .push(format!("{source} on {position}: costs {found}, recorded is {cost}"));
            }
        }
    }
}

/// Whether an expression has a macro over a map of the device.
fn walks_a_map(source: &str) -> bool {
    let macros = [".exists(", ".all(", ".exists_one(", ".map(", ".filter(", ".transform"];
    macros.iter().any(|name| {
        source.match_indices(name).any(|(at, _)| {
            let before = source[..at].rsplit("device.").next().unwrap_or_default();
            let domains = ["attributes[", "capacity[", "attributes", "capacity"];
            domains.iter().any(|domain| before.starts_with(domain))
                && before.matches(')').count() == 0
        })
    })
}
