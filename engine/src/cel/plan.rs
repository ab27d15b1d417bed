//! A compiled expression: what the evaluator walks, with the facts that costs depend on (S-DRA-118).

use std::sync::Arc;

use regex::Regex;

use super::cost::Cost;
use super::function::Function;
use super::value::{Key, Value};

/// A part of a compiled expression.
#[derive(Debug)]
pub(crate) enum Node {
    /// A value that costs nothing.
    Constant(Value),
    /// A call that is computed at compile time; its cost counts at run time.
    Folded(Value, u64),
    /// A variable or a value, with selections and indices.
    Attribute(Box<Attribute>),
    /// `has()`: whether the last selection of the attribute finds something.
    Has(Box<Attribute>),
    And(Vec<Node>),
    Or(Vec<Node>),
    /// `==`, or `!=` if negated.
    Equality {
        sides: Box<[Node; 2]>,
        is_negated: bool,
    },
    /// `in` with a constant list of simple values.
    InConstant {
        value: Box<Node>,
        list: Arc<[Value]>,
    },
    /// `or`, or `orValue` if unwrapped: the second side is evaluated only if the first has no value.
    OptionalOr {
        sides: Box<[Node; 2]>,
        is_unwrapped: bool,
    },
    Search(Box<Search>),
    Call(Call),
    /// Elements; the flag marks optional ones.
    List(Vec<(Node, bool)>),
    /// Keys and values; the flag marks optional entries.
    Map(Vec<(Node, Node, bool)>),
    Fold(Box<Fold>),
    /// A variable that is evaluated when it is first read, and the expression that reads it.
    Bind {
        slot: usize,
        value: Box<Node>,
        body: Box<Node>,
    },
    /// `optMap`, or `optFlatMap` if flat. The optional is evaluated twice if it has a value.
    OptionalMap {
        slot: usize,
        optional: Box<Node>,
        body: Box<Node>,
        is_flat: bool,
    },
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: &'static Function,
    pub(crate) cost: Cost,
    pub(crate) args: Vec<Node>,
    /// Whether an argument that fails ends the call before the others are evaluated, and without its cost unless it is
    /// the last.
    pub(crate) exits_early: bool,
}

/// A search of a constant pattern.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) kind: SearchKind,
    pub(crate) regex: Regex,
    pub(crate) pattern: Value,
    pub(crate) text: Node,
    /// Limit of the number of matches.
    pub(crate) limit: Option<Node>,
    pub(crate) cost: Cost,
}

/// The functions that search for patterns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SearchKind {
    Matches,
    Find,
    FindAll,
}

/// A value and what is selected of it.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
}

/// The value that an attribute starts with.
#[derive(Debug)]
pub(crate) enum Root {
    Device,
    Variable(usize),
    Value(Node),
    /// Condition, and the values when it is true and false.
    Conditional([Node; 3]),
}

/// A selection or an index.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    pub(crate) is_optional: bool,
}

/// Key of a field, an index or a map entry that is selected.
#[derive(Debug)]
pub(crate) enum QualifierKey {
    /// A constant text, integer or bool.
    Exact(Key),
    Computed(Node),
}

/// A macro over the elements of a list or the entries of a map.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Node,
    /// The variables: elements or keys; with two, positions and elements or keys and values.
    pub(crate) slots: Slots,
    pub(crate) step: Step,
}

/// The variables of a macro.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slots {
    One(usize),
    Two(usize, usize),
}

/// Step of a macro for each element.
#[derive(Debug)]
pub(crate) enum Step {
    All(Node),
    Exists(Node),
    ExistsOne(Node),
    /// Collects results of the second node for elements that meet the first.
    Map(Option<Node>, Node),
    Filter(Node),
    TransformMap(Option<Node>, Node),
    TransformMapEntry(Option<Node>, Node),
}
