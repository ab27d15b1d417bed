//! `berth lifecycle functions`: lists the decision functions.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::CliError;
use crate::cli::output::{self, Format};
use crate::lifecycle::FUNCTIONS;

/// Lists the decision functions: group, name, and what each decides
#[derive(Clone, Debug, clap::Args)]
pub(super) struct FunctionsArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
pub(super) fn run(args: &FunctionsArgs) -> Result<ExitCode, CliError> {
    let list: Vec<Value> = FUNCTIONS
        .iter()
        .map(|function| {
            json!({
                "group": function.group,
                "function": function.name,
                "decides": function.decides(),
            })
        })
        .collect();
    output::answer(args.output, &json!({ "functions": list }), table)?;
    Ok(ExitCode::SUCCESS)
}

fn table() -> String {
    let mut table = output::Table::new(&["GROUP", "FUNCTION", "DECIDES"]).wrapping(2);
    for function in FUNCTIONS {
        table.add_row([function.group, function.name, function.decides()]);
    }
    table.text()
}
