//! `berth lifecycle qos`: shows the class of service of pods.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_engine::lifecycle::pressure;
use berth_proto::berth_v1::QosClassRequest;
use serde_json::{Value, json};

use super::named::NamedArgs;
use crate::cli::CliError;
use crate::cli::output::{self, Format};
use crate::feed::file::UnknownFields;

/// Derives each pod's class of service from its requests and limits
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_STATUS)]
pub(super) struct QosArgs {
    /// Files with pods, as kubectl writes them (`-` for standard input), or pods of the cluster: `namespace/name`, or
    /// `pod/name` with `-n`
    #[arg(value_name = "POD", required_unless_present = "filename")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    named: NamedArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, files without a pod.
pub(super) fn run(args: &QosArgs, unknown_fields: UnknownFields) -> Result<ExitCode, CliError> {
    let mut objects = args.named.read(&args.files, unknown_fields)?;
    let answers = objects
        .ask(|pod| pressure::qos_class(&QosClassRequest { pod: Some(pod.clone()), key: None }))?;
    let list: Vec<Value> = answers
        .iter()
        .map(|(pod, answer)| json!({"pod": pod, "qosClass": answer.qos_class}))
        .collect();
    let table = || {
        let mut table = output::Table::new(&["POD", "CLASS"]);
        for (pod, answer) in &answers {
            table.add_row([pod, &answer.qos_class]);
        }
        table.text()
    };
    output::answer(args.output, &json!({ "pods": list }), table)?;
    Ok(objects.status())
}
