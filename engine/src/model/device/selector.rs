//! Selectors: conditions on a device. Each expression is compiled once, however many classes and claims have it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use berth_proto::resource_v1;

use super::layout::Layout;
use super::published::Device;
use super::verdicts::{Judged, Verdict};
use crate::cel::{CompileError, Program};
use crate::model::table::Table;

/// A condition on a device: an expression, or `None` for a selector without one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DeviceSelector(pub(crate) Option<Arc<Selector>>);

/// An interned expression. Two selectors of one table are equal exactly if their ids are.
#[derive(Debug)]
pub(crate) struct Selector {
    pub(crate) id: u64,
    /// The compiled expression; an error counts only once a device is looked at (S-DRA-119).
    pub(crate) program: Result<Program, CompileError>,
    /// Its verdicts so far.
    judged: Judged,
}

/// Interned selectors by expression.
pub(crate) type SelectorTable = Table<Arc<str>, Selector>;

/// About as many bytes as a compiled expression takes for each byte of its text.
const BYTES_PER_BYTE: usize = 64;

impl Selector {
    fn new(id: u64, expression: &str) -> (Selector, usize) {
        let program = Program::compile(expression);
        let n_bytes = 512 + BYTES_PER_BYTE * expression.len();
        (Selector { id, program, judged: Judged::default() }, n_bytes)
    }

    /// Calls `note` with the verdict on each device of a slice.
    ///
    /// Cost: as [`Judged::judge`].
    pub(super) fn judge(
        &self,
        devices: &[Device],
        layout: Option<&Layout>,
        note: impl FnMut(usize, Verdict),
    ) {
        self.judged.judge(&self.program, devices, layout, note);
    }

    /// Why the selector fails on a device, as kube-scheduler words it (S-DRA-51).
    pub(crate) fn failure(&self, device: &Device) -> String {
        match &self.program {
            Err(error) => format!("CEL compile error: {error}"),
            Ok(program) => match program.evaluate(&device.for_expressions()).result {
                Ok(_) => String::new(),
                Err(error) => format!("CEL runtime error: {error}"),
            },
        }
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Selector) -> bool {
        self.id == other.id
    }
}

impl Eq for Selector {}

impl Hash for Selector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

/// The selectors of a class or a request, in order.
pub(super) fn selectors(
    list: &[resource_v1::DeviceSelector],
    table: &SelectorTable,
) -> Box<[DeviceSelector]> {
    let selector = |selector: &resource_v1::DeviceSelector| {
        let expression = selector.cel.as_ref().map(|cel| Arc::from(cel.expression.as_str()));
        DeviceSelector(
            expression.map(|text| table.intern(text, None, |id, text| Selector::new(id, &text))),
        )
    };
    list.iter().map(selector).collect()
}
