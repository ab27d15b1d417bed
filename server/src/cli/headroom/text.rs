//! Text and tables of `berth headroom`.

use berth_engine::{Rounding, amount_text};
use berth_proto::berth_v1::headroom_response::Next;
use berth_proto::berth_v1::{HeadroomResponse, HeadroomStop, NodeHeadroom, ResourceHeadroom};

use crate::cli::output;

/// Sections: how many fit, what runs out, resources, nodes.
pub(super) fn sections(name: &str, limit: u32, headroom: &HeadroomResponse) -> Vec<String> {
    let mut sections = vec![summary(name, limit, headroom)];
    if !headroom.stops.is_empty() {
        sections.push(stops(&headroom.stops));
    }
    if headroom.n_open_nodes > 0 {
        sections.push(resources(&headroom.resources));
        sections.push(nodes(headroom));
    }
    sections
}

/// The summary, ``11 more of shop/web fit; 3 of 5 nodes could take one``, and why no more fit.
fn summary(name: &str, limit: u32, headroom: &HeadroomResponse) -> String {
    let n_fit = match headroom.n_fit {
        0 => format!("no copy of {name} fits"),
        1 => format!("1 more of {name} fits"),
        n => format!("{} more of {name} fit", output::grouped(n)),
    };
    let (n_open, n_nodes) = (headroom.n_open_nodes, output::count(headroom.n_nodes, "node"));
    let n_fit = match n_open {
        0 => n_fit,
        n_open => format!("{n_fit}; {} of {n_nodes} could take one", output::grouped(n_open)),
    };
    match &headroom.next {
        Some(Next::Unschedulable(unschedulable)) => {
            format!("{n_fit}\nthe next: {}", unschedulable.message)
        }
        Some(Next::Gated(gated)) => format!("{n_fit}: {}", gated.reasons.join(", ")),
        Some(Next::LimitReached(_)) => {
            format!("{n_fit}\nthe limit of {} ended it: more would fit", output::grouped(limit))
        }
        None => n_fit,
    }
}

/// Table of the reasons why nodes that had room take no more.
fn stops(stops: &[HeadroomStop]) -> String {
    let mut table =
        output::Table::new(&["RUNS OUT", "NODES", "COPIES THERE", "PLUGIN"]).dropping([3]);
    for HeadroomStop { plugin, reason, n_nodes, n_fit } in stops {
        let (n_nodes, n_fit) = (output::grouped(*n_nodes), output::grouped(*n_fit));
        table.add_row([reason.as_str(), &n_nodes, &n_fit, plugin]);
    }
    table.text()
}

fn resources(resources: &[ResourceHeadroom]) -> String {
    let headings = ["RESOURCE", "EACH", "FREE NOW", "LEFT THEN", "NODES SHORT", "ALONE WOULD FIT"];
    let mut table = output::Table::new(&headings).dropping([4, 1]);
    for resource in resources {
        let ResourceHeadroom { resource: name, request, free_before, free_after, .. } = resource;
        let [each, now, then] =
            [request, free_before, free_after].map(|amount| quantity(name, *amount));
        let n_short = output::grouped(resource.n_nodes_short);
        let alone = output::grouped(resource.n_fit_alone);
        table.add_row([name.as_str(), &each, &now, &then, &n_short, &alone]);
    }
    table.text()
}

fn nodes(headroom: &HeadroomResponse) -> String {
    let names: Vec<&str> = headroom.resources.iter().map(|r| r.resource.as_str()).collect();
    let mut headings = vec!["NODE".to_owned(), "COPIES".to_owned()];
    headings.extend(names.iter().map(|name| format!("LEFT {name}").to_uppercase()));
    headings.push("STOPS BY".to_owned());
    let n_columns = headings.len();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table =
        output::Table::new(&headings).wrapping(n_columns - 1).dropping((2..n_columns - 1).rev());
    for NodeHeadroom { node_name, n_fit, rejection, free } in &headroom.nodes {
        let mut cells = vec![node_name.clone(), output::grouped(*n_fit)];
        cells.extend(names.iter().map(|name| {
            free.get(*name).map_or_else(|| "-".to_owned(), |amount| quantity(name, *amount))
        }));
        cells.push(
            rejection
                .as_ref()
                .map_or_else(|| "takes more".to_owned(), |rejection| rejection.reasons.join(", ")),
        );
        table.add_row(cells);
    }
    let n_left_out = (headroom.n_nodes as usize).saturating_sub(headroom.nodes.len());
    let left_out = match n_left_out {
        0 => String::new(),
        n => format!("\nand {} that take no more copies than these", output::count(n, "node")),
    };
    format!("{}{left_out}", table.text())
}

/// An amount in readable form, rounded down, so that room is not overstated.
fn quantity(resource: &str, amount: i64) -> String {
    amount_text(resource, amount, Rounding::Down)
}
