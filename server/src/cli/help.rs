//! Help: `--help` fits a page and has examples, `--help-all` has everything; options stand in groups.

use clap::{Arg, ArgAction, Command};

/// A command line with the help of every command, as it is parsed and printed.
pub(super) fn with_help(command: Command) -> Command {
    described(command, &[])
}

/// A command, at the end of this path, and its subcommands with examples, groups and the two flags.
fn described(command: Command, path: &[&str]) -> Command {
    let mut of_subcommands = path.to_vec();
    let command = command
        .disable_help_flag(true)
        .mut_args(grouped)
        .arg(
            Arg::new("help")
                .short('h')
                .long("help")
                .action(ArgAction::HelpShort)
                .help_heading(None::<&str>)
                .help("Print the common options, with examples"),
        )
        .arg(
            Arg::new("help-all")
                .long("help-all")
                .action(ArgAction::HelpLong)
                .help_heading(None::<&str>)
                .help("Print everything"),
        );
    let command = with_examples(command, path);
    let names: Vec<String> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    names.iter().fold(command, |command, name| {
        of_subcommands.truncate(path.len());
        of_subcommands.push(name);
        command.mut_subcommand(name, |subcommand| described(subcommand, &of_subcommands))
    })
}

/// Shows the examples on both pages, and what else there is to say on the long one only.
fn with_examples(command: Command, path: &[&str]) -> Command {
    let path = path.join(" ");
    let Some((_, examples)) = EXAMPLES.iter().find(|(of, _)| *of == path) else {
        return command;
    };
    let lines: Vec<String> = examples.iter().map(|line| format!("  berth {line}")).collect();
    let examples = format!("Examples:\n{}", lines.join("\n"));
    let more = command.get_after_help().map(|text| format!("\n\n{text}")).unwrap_or_default();
    let all = format!("{examples}{more}");
    command.after_help(examples).after_long_help(all)
}

/// Puts an option into its group, and leaves a rare one to the long page.
fn grouped(arg: Arg) -> Arg {
    let Some(name) = arg.get_long().map(str::to_owned) else {
        return arg;
    };
    let has = |names: &[&str]| names.contains(&name.as_str());
    let is_limit = name.starts_with("max-") || name == "slow-reader-timeout";
    let listed = GROUPS.iter().find(|(_, names)| has(names)).map(|(group, _)| *group);
    let is_rare = has(&RARE) || is_limit || name.starts_with("leader-elect-");
    arg.help_heading(listed.or(is_limit.then_some("Limits"))).hide_short_help(is_rare)
}

/// Groups of options by name; the others are in clap's own group.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Source of the cluster",
        &[
            "cluster",
            "server",
            "kube",
            "kubeconfig",
            "context",
            "kube-context",
            "kube-silence-timeout",
            "lenient",
            "session",
        ],
    ),
    (
        "Security",
        &[
            "ca-file",
            "token-file",
            "client-cert-file",
            "client-key-file",
            "tls-cert-file",
            "tls-private-key-file",
            "tls-client-ca-file",
            "insecure",
            "audit-log",
        ],
    ),
    ("Decision", &["scheduler-config", "kubernetes-version", "tie-break", "seed"]),
    ("What if", &["what-if", "without", "cordon"]),
    (
        "Leader election",
        &[
            "leader-elect",
            "leader-elect-namespace",
            "leader-elect-name",
            "leader-elect-lease-duration",
            "leader-elect-renew-deadline",
            "leader-elect-retry-period",
        ],
    ),
];

/// Options that few need.
const RARE: [&str; 55] = [
    "assume-ttl",
    "audit-log",
    "balance",
    "bind-burst",
    "bind-concurrency",
    "bind-qps",
    "by-priority",
    "ca-file",
    "client-cert-file",
    "client-key-file",
    "context",
    "cordon",
    "delete-local-data",
    "drain-grace-period",
    "etcd-prefix",
    "expander",
    "force-deletion",
    "ignore-safe-to-evict",
    "ignore-scale-down-disabled",
    "insecure",
    "journal",
    "journal-max-age",
    "journal-max-bytes",
    "keep-unready",
    "kube-context",
    "kube-silence-timeout",
    "kubernetes-version",
    "lenient",
    "log-format",
    "max-total-nodes",
    "min",
    "min-available-key",
    "min-replicas",
    "move-system-pods",
    "node-group-label",
    "now",
    "pod-group-label",
    "preempt",
    "replica-address",
    "replica-name",
    "require-controllers",
    "respect-fences",
    "round-robin",
    "scheduler-name",
    "seed",
    "session",
    "session-idle-timeout",
    "slow-reader-timeout",
    "system-pod-timeout",
    "threshold",
    "tie-break",
    "tls-client-ca-file",
    "usage",
    "without",
    "worker-threads",
];

/// Examples by command, without the program's name.
const EXAMPLES: [(&str, &[&str]); 45] = [
    ("", &["explain --kube pod/web-0 -n shop", "place --cluster cluster.json pod.yaml", "demo"]),
    ("serve", &["serve --cluster cluster.json", "serve --kube --token-file tokens.csv"]),
    ("schedule", &["schedule --kube", "schedule --kube --hand-off"]),
    ("demo", &["demo", "demo --exit --nodes 1000 --pods 2000"]),
    ("status", &["status --kube", "status --server http://127.0.0.1:7420"]),
    ("get", &["get pending --kube", "get nodes --cluster cluster.json -o json"]),
    (
        "place",
        &[
            "place --cluster cluster.json pod.yaml",
            "place --kube --pending --fail-pending",
            "place --server http://127.0.0.1:7420 -f deployment.yaml --replicas 20",
            "place --cluster cluster.json --pending --what-if new-node.yaml",
        ],
    ),
    (
        "explain",
        &[
            "explain --kube pod/web-0 -n shop",
            "explain --cluster cluster.json shop/web-0 --node node-7",
            "explain --server http://127.0.0.1:7420 -f pod.yaml",
        ],
    ),
    ("preempt", &["preempt --kube shop/web-0", "preempt --cluster cluster.json -f pod.yaml"]),
    ("drain", &["drain --kube node-7", "drain --cluster cluster.json node-7 node-8 --in-turn"]),
    ("headroom", &["headroom --kube -f pod.yaml", "headroom --cluster cluster.json shop/web-0"]),
    (
        "scale-up",
        &[
            "scale-up --kube --group general=node.yaml --group gpu=gpu-node.yaml",
            "scale-up --cluster cluster.json --group general=node.yaml -f web.yaml",
        ],
    ),
    ("fit", &["fit --kube", "fit --cluster cluster.json --node node-7 -f pod.yaml"]),
    (
        "consolidate",
        &["consolidate --kube --max-nodes 3", "consolidate --cluster cluster.json node-7 node-8"],
    ),
    (
        "scale-in",
        &[
            "scale-in --kube -n shop -l app=web --remove 3",
            "scale-in --cluster cluster.json shop/web-0 shop/web-1",
        ],
    ),
    ("config", &["config --config berth.yaml", "config --scheduler-config scheduler.yaml"]),
    ("conformance", &["conformance recordings"]),
    ("lifecycle", &["lifecycle explain --kube shop/web-0", "lifecycle phase pods.yaml"]),
    ("lifecycle explain", &["lifecycle explain --kube shop/web-0", "lifecycle explain pod.yaml"]),
    ("lifecycle phase", &["lifecycle phase pods.yaml", "lifecycle phase --kube shop/web-0"]),
    ("lifecycle conditions", &["lifecycle conditions pods.yaml"]),
    ("lifecycle qos", &["lifecycle qos pods.yaml"]),
    ("lifecycle delete", &["lifecycle delete pod.yaml", "lifecycle delete --kube shop/web-0"]),
    ("lifecycle budget", &["lifecycle budget budgets-and-pods.yaml"]),
    ("lifecycle gc", &["lifecycle gc nodes-and-pods.yaml"]),
    ("lifecycle evict-order", &["lifecycle evict-order --usage usage.yaml pods.yaml"]),
    ("lifecycle decide", &["lifecycle decide DerivePodPhase"]),
    ("session", &["session open", "session commit 6f1d0c52"]),
    ("session open", &["session open --server http://127.0.0.1:7420"]),
    ("session apply", &["session apply 6f1d0c52 -f new-node.yaml --without node/node-7"]),
    ("session show", &["session show 6f1d0c52"]),
    ("session commit", &["session commit 6f1d0c52"]),
    ("session close", &["session close 6f1d0c52"]),
    ("ledger", &["ledger list --last 20", "ledger holder volume/pv-1"]),
    ("ledger list", &["ledger list --last 20", "ledger list --after 1795491656140263 -o json"]),
    ("ledger holder", &["ledger holder identity/shop/db-0", "ledger holder fence/node-7"]),
    ("ledger history", &["ledger history volume/pv-1"]),
    ("ledger verify", &["ledger verify --server http://127.0.0.1:7420"]),
    (
        "replay",
        &[
            "replay journal",
            "replay journal --pod shop/web-0",
            "replay journal --threads 1 -o json",
        ],
    ),
    ("record", &["record journal", "record journal --kube-context production"]),
    (
        "compare",
        &[
            "compare journal --policy default --policy tight.yaml",
            "compare journal --policy tight.yaml --prices prices.csv -o html",
            "compare journal --policy default --policy tight.yaml --until-full",
        ],
    ),
    ("bisect", &["bisect journal --policy default --policy tight.yaml"]),
    ("rule", &["rule S-FIT-8", "rule L-TERM-9 L-TERM-10"]),
    ("completions", &["completions bash"]),
    ("man", &["man", "man pages"]),
];

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn command() -> Command {
        with_help(Cli::command())
    }

    /// Every command with its path; clap's own `help` is left out.
    fn visit(command: &Command, path: &[String], see: &mut dyn FnMut(&Command, &str)) {
        see(command, &path.join(" "));
        for subcommand in command.get_subcommands().filter(|it| it.get_name() != "help") {
            let mut path = path.to_vec();
            path.push(subcommand.get_name().to_owned());
            visit(subcommand, &path, see);
        }
    }

    #[test]
    fn the_help_of_every_command_fits_a_page() {
        visit(&command(), &[], &mut |command, path| {
            let mut command = command.clone().term_width(80);
            let page = command.render_help().to_string();
            assert!(page.lines().count() <= 60, "{path}: {}\n{page}", page.lines().count());
            assert!(page.lines().all(|line| line.chars().count() <= 80), "{path}:\n{page}");
            let all = command.render_long_help().to_string();
            assert!(all.lines().count() >= page.lines().count(), "{path}");
            if path != "lifecycle functions" {
                assert!(page.contains("Examples:"), "{path}");
            }
        });
    }

    /// Each example is a command line that is accepted, and each entry belongs to a command.
    #[test]
    fn examples_are_command_lines() {
        let mut paths = Vec::new();
        visit(&command(), &[], &mut |_, path| paths.push(path.to_owned()));
        for (path, examples) in EXAMPLES {
            assert!(paths.iter().any(|known| known == path), "{path}");
            for example in examples {
                assert!(example.starts_with(path), "{example}");
                let words = std::iter::once("berth").chain(example.split(' '));
                let parsed = command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }
}
