//! Expressions of the Common Expression Language about devices, as dynamic resource allocation selects devices with
//! them (S-DRA-110 to S-DRA-120).
//!
//! A [`Program`] is compiled once and evaluated on many [`Device`]s, from any number of threads. Verdicts and costs are
//! those of kube-scheduler v1.36, which uses cel-go and Kubernetes' libraries. Read in this order: `syntax` and `parser`
//! (from text to a tree), `macros`, `types` and `checker` (which overloads apply), `plan` (what is left to do),
//! `reads` (what it looks at), `evaluate` and `comprehend` (the result and its cost), `functions` (the libraries).
//!
//! Known differences: time zones other than UTC and fixed offsets are an error, because there is no table of zones;
//! message literals such as `google.protobuf.Duration{seconds: 1}` do not compile; macros walk maps in the order of
//! their keys, where upstream's order is random. Expressions that need much memory or time for little cost fail.

mod syntax;
mod token;
mod word;
mod literal;
mod parser;
mod macros;
mod types;
mod signature;
mod checker;
mod calls;
mod comprehension;
mod plan;
pub(crate) mod reads;
mod evaluate;
mod comprehend;
mod cost;
mod function;
mod functions;
mod equality;
mod value;
mod amount;
mod semver;
mod time;
mod address;
mod url;
mod formats;
mod pattern;
mod device;
mod error;

pub use device::{AttributeValue, Device};
pub(crate) use device::{is_amount, is_version};
pub use error::{CompileError, EvalError, MAX_EXPRESSION_BYTES};

use checker::Refusal;
use evaluate::Machine;
use plan::Node;
use reads::Read;
use token::Fault;
use types::Type;
use value::Value;

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    node: Node,
    n_slots: usize,
    reads: Option<Vec<Read>>,
}

/// The outcome of an expression on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Whether the expression holds, or why it has no result.
    pub result: Result<bool, EvalError>,
    /// The actual cost, up to the failure if there is one (S-DRA-118).
    pub cost: u64,
}

impl Program {
    /// Compiles an expression: one that cel-go's checker refuses is refused, and one whose static type is neither bool
    /// nor any (S-DRA-113).
    pub fn compile(source: &str) -> Result<Program, CompileError> {
        if source.len() > MAX_EXPRESSION_BYTES {
            return Err(CompileError::TooLong(source.len()));
        }
        let expr = parser::parse(source).map_err(|fault| invalid(source, fault))?;
        let checked = checker::check(&expr).map_err(|refusal| match refusal {
            Refusal::Fault(fault) => invalid(source, fault),
            Refusal::Constant(reason) => CompileError::Constant(reason),
        })?;
        match checked.of {
            Type::Bool | Type::Any => {
                let (node, n_slots) = (checked.node, checked.n_slots);
                Ok(Program { reads: reads::reads(&node), node, n_slots })
            }
            other => Err(CompileError::NotBool(other.to_string())),
        }
    }

    /// What the expression looks at besides the driver and whether the device allows multiple allocations; `None` if
    /// that depends on the device. Devices that agree in these, and can be converted, get one verdict.
    pub(crate) fn reads(&self) -> Option<&[Read]> {
        self.reads.as_deref()
    }

    /// Evaluates the expression on a device.
    ///
    /// Cost: comparisons of attributes and capacities with constants allocate nothing.
    pub fn evaluate(&self, device: &Device) -> Evaluation {
        let value = match &device.value {
            Ok(value) => value,
            Err(error) => return Evaluation { result: Err(error.clone()), cost: 0 },
        };
        let mut machine = Machine::new(value, self.n_slots);
        let result = machine.evaluate(&self.node);
        let result = result.and_then(|value| match &*value {
            Value::Bool(value) => Ok(*value),
            other => Err(EvalError::NotBool(other.type_name().to_owned())),
        });
        Evaluation { result, cost: machine.cost }
    }
}

fn invalid(source: &str, fault: Fault) -> CompileError {
    let before = source.get(..fault.at).unwrap_or(source);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = 1 + before.matches('\n').count();
    let column = 1 + before[line_start..].chars().count();
    CompileError::Invalid { line, column, text: fault.text }
}

#[cfg(test)]
mod tests;
