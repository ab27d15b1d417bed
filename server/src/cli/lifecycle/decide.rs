//! `berth lifecycle decide`: calls any decision function, with its request as JSON or YAML.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use crate::cli::CliError;
use crate::cli::output::{self, Format};
use crate::feed::file::{self, UnknownFields};
use crate::lifecycle::{FUNCTIONS, Function, FunctionError, path_below};

/// Calls a decision function and prints its answer
///
/// `berth lifecycle functions` lists the functions. The request is what the function takes over gRPC, in its JSON form.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when the function answered; 1 when it refused the request, or that cannot be read; 2 for a \
                  wrong command line."
)]
pub(super) struct DecideArgs {
    /// The function, such as DecideRestart
    #[arg(value_name = "FUNCTION", value_parser = function)]
    function: &'static Function,
    /// A file with the request in JSON or YAML; `-` for standard input
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read or is no request, an unknown field, a request that the function refuses.
pub(super) fn run(args: &DecideArgs, unknown_fields: UnknownFields) -> Result<ExitCode, CliError> {
    let request = file::read_value(&args.file)?;
    let refused = |reason: String| {
        CliError::Request(format!("`{}`: {}: {reason}", args.file.display(), args.function.name))
    };
    let answer = match args.function.decide(&request) {
        Err(FunctionError::Request(reason)) if unknown_fields == UnknownFields::Warn => {
            let answer = args.function.decide_leniently(&request);
            if answer.is_ok() {
                output::note(&format!("warning: {}: {reason}", args.function.name));
            }
            answer
        }
        answer => answer,
    };
    let answer = answer.map_err(|error| refused(error.to_string()))?;
    output::answer(args.output, &answer, || table(&answer))?;
    Ok(ExitCode::SUCCESS)
}

/// The function with this name; a name that differs only in case is suggested in the error.
fn function(name: &str) -> Result<&'static Function, String> {
    Function::named(name).ok_or_else(|| {
        let meant = FUNCTIONS.iter().find(|known| known.name.eq_ignore_ascii_case(name));
        let hint = meant.map(|known| format!("; `{}` is one", known.name)).unwrap_or_default();
        format!("no such function{hint} (`berth lifecycle functions` lists them)")
    })
}

/// Table with a row for each value of the answer.
fn table(answer: &Value) -> String {
    let mut table = output::Table::new(&["FIELD", "ANSWER"]).wrapping(1);
    let mut rows = Vec::new();
    flatten("", answer, &mut rows);
    for (path, value) in rows {
        table.add_row([path, value]);
    }
    table.text()
}

fn flatten(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(keys) if !keys.is_empty() => {
            for (key, value) in keys {
                flatten(&path_below(path, key), value, rows);
            }
        }
        Value::Array(elements) if elements.iter().any(|one| one.is_object() || one.is_array()) => {
            for (index, element) in elements.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), element, rows);
            }
        }
        Value::Array(elements) => {
            let words: Vec<String> = elements.iter().map(word).collect();
            let list = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
            rows.push((path.to_owned(), list));
        }
        other => rows.push((path.to_owned(), word(other))),
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_a_row_a_value() {
        let answer =
            json!({"a": {"b": [1, 2], "c/d": "x"}, "e": [], "f": [{"g": true}, {}], "h": ""});
        let expected = "\
FIELD     ANSWER
a.b       1, 2
a[\"c/d\"]  x
e         none
f[0].g    true
f[1]      {}
h         \"\"";
        assert_eq!(table(&answer), expected);
    }

    #[test]
    fn functions_are_known_by_their_exact_names() {
        assert_eq!(function("PodGC").unwrap().group, "podgc");
        assert!(function("podgc").unwrap_err().starts_with("no such function; `PodGC` is one ("));
        assert!(function("Pod").unwrap_err().starts_with("no such function (`berth "));
    }
}
