//! The type checker: refuses what cel-go's checker refuses, and plans the evaluation (S-DRA-110, S-DRA-113, S-DRA-114).

use std::collections::BTreeMap;

use super::functions::{self, Clause};
use super::plan::{Attribute, Node, Qualifier, QualifierKey, Root};
use super::syntax::{Expr, Kind};
use super::token::Fault;
use super::types::{DEVICE, QUANTITY, Substitutions, Type};
use super::value::{Key, Value};

/// Limit of the number of types in a type.
const MAX_TYPE_SIZE: usize = 2000;
/// Limit of the parts of an expression that nest values: lists, maps, optionals, macros.
const MAX_CONSTRUCTORS: usize = 2000;

/// A planned expression and the number of its variables.
pub(crate) struct Checked {
    pub(crate) node: Node,
    pub(crate) of: Type,
    pub(crate) n_slots: usize,
}

/// Reason why a checker stops.
#[derive(Debug)]
pub(crate) enum Refusal {
    Fault(Fault),
    /// A constant conversion fails.
    Constant(String),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal::Fault(fault)
    }
}

/// Checks and plans an expression.
pub(crate) fn check(expr: &Expr) -> Result<Checked, Refusal> {
    let mut checker = Checker::default();
    let Typed { node, of } = checker.check(expr)?;
    checker.check_literals()?;
    Ok(Checked { node, of: checker.known.resolve_fully(&of), n_slots: checker.n_slots })
}

/// A part of an expression with its type.
pub(crate) struct Typed {
    pub(crate) node: Node,
    pub(crate) of: Type,
}

/// The state of a check.
#[derive(Default)]
pub(crate) struct Checker {
    pub(crate) known: Substitutions,
    /// Variables of macros, inner ones last: name, type, slot.
    pub(crate) variables: Vec<(String, Type, usize)>,
    pub(crate) n_slots: usize,
    pub(crate) n_constructors: usize,
    /// Types that must be equal in the end, with their places.
    uniform: Vec<Vec<(usize, Type)>>,
    /// The number of calls of `format` around; lists inside may be mixed.
    pub(crate) n_formats: usize,
    /// The types of the elements of the list literal that was checked last.
    pub(crate) elements: Vec<Type>,
    /// Calls of `format` with constant texts: place, text, types of the elements.
    pub(crate) format_calls: Vec<(usize, String, Vec<Type>)>,
}

impl Checker {
    /// Checks and plans a part of an expression.
    pub(crate) fn check(&mut self, expr: &Expr) -> Result<Typed, Refusal> {
        let typed = match &expr.kind {
            Kind::Literal(value) => literal(value),
            Kind::Ident(name) => self.ident(expr.at, name)?,
            Kind::Select { operand, field, is_optional } => {
                self.select(expr, operand, field, *is_optional)?
            }
            Kind::Has { operand, field } => self.has(expr.at, operand, field)?,
            Kind::Index { operand, index, is_optional } => {
                self.index(expr.at, operand, index, *is_optional)?
            }
            Kind::Call { target, function, args } => {
                self.call(expr.at, target.as_deref(), function, args)?
            }
            Kind::And(terms) => Typed { node: Node::And(self.terms(terms)?), of: Type::Bool },
            Kind::Or(terms) => Typed { node: Node::Or(self.terms(terms)?), of: Type::Bool },
            Kind::Conditional(parts) => self.conditional(expr.at, parts)?,
            Kind::List(elements) => self.list(elements)?,
            Kind::Map(entries) => self.map(entries)?,
            Kind::Macro(parts) => self.macro_call(expr.at, parts)?,
        };
        if typed.of.size() > MAX_TYPE_SIZE {
            return Err(Fault::new(expr.at, "type is too large").into());
        }
        Ok(typed)
    }

    fn ident(&mut self, at: usize, name: &str) -> Result<Typed, Refusal> {
        let variable = self.variables.iter().rev().find(|(known, ..)| known == name);
        if let Some((_, of, slot)) = variable {
            return Ok(attribute(Root::Variable(*slot), of.clone()));
        }
        if name == "device" {
            return Ok(attribute(Root::Device, DEVICE));
        }
        match type_named(name) {
            Some(name) => Ok(Typed { node: Node::Constant(Value::Type(name)), of: Type::Meta }),
            None => {
                let text = format!("undeclared reference to '{name}' (in container '')");
                Err(Fault::new(at, text).into())
            }
        }
    }

    fn select(
        &mut self,
        expr: &Expr,
        operand: &Expr,
        field: &str,
        is_optional: bool,
    ) -> Result<Typed, Refusal> {
        if let Some(name) = qualified_name(expr).as_deref().and_then(type_named) {
            return Ok(Typed { node: Node::Constant(Value::Type(name)), of: Type::Meta });
        }
        let operand = self.check(operand)?;
        let of = self.field(expr.at, &operand.of, field, is_optional)?;
        let key = QualifierKey::Exact(Key::String(field.into()));
        Ok(Typed { node: Node::Attribute(qualified(operand.node, key, is_optional)), of })
    }

    fn has(&mut self, at: usize, operand: &Expr, field: &str) -> Result<Typed, Refusal> {
        let operand = self.check(operand)?;
        self.field(at, &operand.of, field, false)?;
        let key = QualifierKey::Exact(Key::String(field.into()));
        Ok(Typed { node: Node::Has(qualified(operand.node, key, false)), of: Type::Bool })
    }

    /// The type of a field of a value.
    fn field(
        &mut self,
        at: usize,
        of: &Type,
        field: &str,
        is_optional: bool,
    ) -> Result<Type, Refusal> {
        let of = self.known.resolve(of);
        let (of, was_optional) = match of {
            Type::Optional(inner) => (inner.first.clone(), true),
            other => (other, false),
        };
        let result = match &of {
            Type::Map(inner) => inner.last.clone(),
            Type::Object(_) => field_of(&of, field)
                .ok_or_else(|| Fault::new(at, format!("undefined field '{field}'")))?,
            Type::Param(_) => {
                self.known.accept(&[Type::Dyn], std::slice::from_ref(&of));
                Type::Dyn
            }
            Type::Dyn | Type::Any => Type::Dyn,
            other => {
                let text = format!("type '{other}' does not support field selection");
                return Err(Fault::new(at, text).into());
            }
        };
        Ok(if was_optional || is_optional { Type::optional(result) } else { result })
    }

    fn index(
        &mut self,
        at: usize,
        operand: &Expr,
        index: &Expr,
        is_optional: bool,
    ) -> Result<Typed, Refusal> {
        let operand = self.check(operand)?;
        let index = self.check(index)?;
        let name = if is_optional { "_[?_]" } else { "_[_]" };
        let (of, ..) = self.resolve(at, name, false, &[operand.of, index.of])?;
        let key = match index.node {
            Node::Constant(value) => match value.to_key() {
                Some(key) => QualifierKey::Exact(key),
                None => QualifierKey::Computed(Node::Constant(value)),
            },
            node => QualifierKey::Computed(node),
        };
        Ok(Typed { node: Node::Attribute(qualified(operand.node, key, is_optional)), of })
    }

    fn terms(&mut self, terms: &[Expr]) -> Result<Vec<Node>, Refusal> {
        terms.iter().map(|term| self.condition(term)).collect()
    }

    /// Checks an expression that must be a bool.
    pub(crate) fn condition(&mut self, expr: &Expr) -> Result<Node, Refusal> {
        let Typed { node, of } = self.check(expr)?;
        if !self.known.accept(std::slice::from_ref(&of), &[Type::Bool]) {
            let of = self.known.resolve_fully(&of);
            return Err(mismatch(expr.at, &Type::Bool, &of));
        }
        Ok(node)
    }

    fn conditional(&mut self, at: usize, parts: &[Expr; 3]) -> Result<Typed, Refusal> {
        let [condition, yes, no] = parts;
        let (condition, yes, no) = (self.check(condition)?, self.check(yes)?, self.check(no)?);
        let (of, ..) = self.resolve(at, "_?_:_", false, &[condition.of, yes.of, no.of])?;
        Ok(attribute(Root::Conditional([condition.node, yes.node, no.node]), of))
    }

    fn list(&mut self, elements: &[(Expr, bool)]) -> Result<Typed, Refusal> {
        self.count_constructor(elements.first().map_or(0, |(element, _)| element.at))?;
        let mut of: Option<Type> = None;
        let (mut nodes, mut types) = (Vec::new(), Vec::new());
        for (element, is_optional) in elements {
            let typed = self.check(element)?;
            let element_type = self.unwrapped(element.at, typed.of, *is_optional)?;
            of = Some(self.joined(of, &element_type));
            types.push((element.at, element_type));
            nodes.push((typed.node, *is_optional));
        }
        self.elements = types.iter().map(|(_, of)| of.clone()).collect();
        self.require_uniform(types);
        let of = of.unwrap_or_else(|| self.known.variable());
        Ok(Typed { node: list_node(nodes), of: Type::list(of) })
    }

    fn map(&mut self, entries: &[(Expr, Expr, bool)]) -> Result<Typed, Refusal> {
        self.count_constructor(entries.first().map_or(0, |(key, ..)| key.at))?;
        let mut of: Option<(Type, Type)> = None;
        let (mut nodes, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value, is_optional) in entries {
            let (typed_key, typed_value) = (self.check(key)?, self.check(value)?);
            let value_type = self.unwrapped(value.at, typed_value.of, *is_optional)?;
            let (key_so_far, value_so_far) = of.unzip();
            of = Some((
                self.joined(key_so_far, &typed_key.of),
                self.joined(value_so_far, &value_type),
            ));
            keys.push((key.at, typed_key.of));
            values.push((value.at, value_type));
            nodes.push((typed_key.node, typed_value.node, *is_optional));
        }
        self.require_uniform(keys);
        self.require_uniform(values);
        let (key, value) = match of {
            Some(types) => types,
            None => (self.known.variable(), self.known.variable()),
        };
        Ok(Typed { node: map_node(nodes), of: Type::map(key, value) })
    }

    /// The type of an element that may be marked optional.
    fn unwrapped(&mut self, at: usize, of: Type, is_optional: bool) -> Result<Type, Refusal> {
        match of {
            Type::Optional(inner) if is_optional => Ok(inner.first.clone()),
            of if !is_optional || matches!(of, Type::Dyn | Type::Any) => Ok(of),
            of => Err(mismatch(at, &Type::optional(of.clone()), &of)),
        }
    }

    /// The type of elements of both types. Mixed literals are refused in the end, see `check_literals`.
    fn joined(&mut self, previous: Option<Type>, current: &Type) -> Type {
        match previous {
            Some(previous) => self.known.join(&previous, current).unwrap_or(Type::Dyn),
            None => current.clone(),
        }
    }

    fn require_uniform(&mut self, types: Vec<(usize, Type)>) {
        if self.n_formats == 0 && types.len() > 1 {
            self.uniform.push(types);
        }
    }

    /// Counts a part of the expression that makes values nest deeper.
    pub(crate) fn count_constructor(&mut self, at: usize) -> Result<(), Refusal> {
        self.n_constructors += 1;
        if self.n_constructors > MAX_CONSTRUCTORS {
            return Err(Fault::new(at, "expression makes too many lists and maps").into());
        }
        Ok(())
    }

    /// Checks what depends on types that are known only in the end: literals of one type each, and format texts.
    fn check_literals(&self) -> Result<(), Refusal> {
        for types in &self.uniform {
            let mut types = types.iter().map(|(at, of)| (at, self.known.resolve_fully(of)));
            let Some((_, first)) = types.next() else { continue };
            if let Some((at, other)) = types.find(|(_, of)| *of != first) {
                return Err(mismatch(*at, &first, &other));
            }
        }
        for (at, text, types) in &self.format_calls {
            let types: Vec<Type> = types.iter().map(|of| self.known.resolve_fully(of)).collect();
            if !fits_format(text, &types) {
                return Err(Fault::new(*at, "format text and arguments do not agree").into());
            }
        }
        Ok(())
    }
}

/// Whether a constant format text can be written with arguments of these types.
fn fits_format(text: &str, types: &[Type]) -> bool {
    let Some(clauses) = functions::clauses(text) else { return false };
    let letters: Vec<char> = clauses
        .iter()
        .filter_map(|clause| match clause {
            Clause::Argument(letter, _) => Some(*letter),
            Clause::Text(_) => None,
        })
        .collect();
    letters.len() == types.len()
        && letters.iter().zip(types).all(|(letter, of)| {
            *of == Type::Dyn
                || match letter {
                    'd' | 'o' => matches!(of, Type::Int | Type::Uint),
                    'f' | 'e' => matches!(of, Type::Double | Type::String),
                    'b' => matches!(of, Type::Int | Type::Uint | Type::Bool),
                    'x' | 'X' => matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes),
                    _ => !matches!(of, Type::Any | Type::Object(_) | Type::Optional(_)),
                }
        })
}

fn literal(value: &Value) -> Typed {
    let of = match value {
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Null,
    };
    Typed { node: Node::Constant(value.clone()), of }
}

pub(crate) fn attribute(root: Root, of: Type) -> Typed {
    Typed { node: Node::Attribute(Box::new(Attribute { root, qualifiers: Vec::new() })), of }
}

/// Adds a selection to an attribute, or makes an attribute of another value.
fn qualified(node: Node, key: QualifierKey, is_optional: bool) -> Box<Attribute> {
    let mut attribute = match node {
        Node::Attribute(attribute) => attribute,
        node => Box::new(Attribute { root: Root::Value(node), qualifiers: Vec::new() }),
    };
    attribute.qualifiers.push(Qualifier { key, is_optional });
    attribute
}

/// A list of constants is a constant.
fn list_node(nodes: Vec<(Node, bool)>) -> Node {
    let constants: Option<Vec<Value>> = nodes
        .iter()
        .map(|(node, is_optional)| match node {
            Node::Constant(value) if !is_optional => Some(value.clone()),
            _ => None,
        })
        .collect();
    constants.map_or(Node::List(nodes), |values| Node::Constant(Value::list(values)))
}

fn map_node(nodes: Vec<(Node, Node, bool)>) -> Node {
    let constants: Option<BTreeMap<Key, Value>> = nodes
        .iter()
        .map(|(key, value, is_optional)| match (key, value) {
            (Node::Constant(key), Node::Constant(value)) if !is_optional => {
                Some((key.to_key()?, value.clone()))
            }
            _ => None,
        })
        .collect();
    constants.map_or(Node::Map(nodes), |entries| Node::Constant(Value::map(entries)))
}

pub(crate) fn mismatch(at: usize, expected: &Type, found: &Type) -> Refusal {
    Fault::new(at, format!("expected type '{expected}' but found '{found}'")).into()
}

/// The name that a chain of selections spells.
pub(crate) fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select { operand, field, is_optional: false } => {
            let mut name = qualified_name(operand)?;
            name.push('.');
            name.push_str(field);
            Some(name)
        }
        _ => None,
    }
}

/// The fields of a device (S-DRA-110).
fn field_of(of: &Type, field: &str) -> Option<Type> {
    if *of != DEVICE {
        return None;
    }
    let domains = |value| Type::map(Type::String, Type::map(Type::String, value));
    match field {
        "driver" => Some(Type::String),
        "allowMultipleAllocations" => Some(Type::Bool),
        "attributes" => Some(domains(Type::Any)),
        "capacity" => Some(domains(QUANTITY)),
        _ => None,
    }
}

fn type_named(name: &str) -> Option<&'static str> {
    const NAMES: [&str; 13] = [
        "bool",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "list",
        "map",
        "null_type",
        "type",
        "optional_type",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
    ];
    NAMES.into_iter().find(|known| *known == name)
}
