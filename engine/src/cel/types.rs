//! Static types, and when a value of one may stand where another is expected, as cel-go's checker decides (S-DRA-114).

use std::fmt;
use std::rc::Rc;

/// A static type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    Dyn,
    /// The type of attribute values.
    Any,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    /// The type of types.
    Meta,
    List(Rc<Inner>),
    Map(Rc<Inner>),
    Optional(Rc<Inner>),
    /// A type without parameters that only its own functions know.
    Object(&'static str),
    /// A variable that stands for a type.
    Param(usize),
}

/// The parameters of a type, and the number of types in it.
#[derive(Debug, PartialEq)]
pub(crate) struct Inner {
    size: usize,
    pub(crate) first: Type,
    /// The type of values of a map; a repetition of `first` otherwise.
    pub(crate) last: Type,
}

/// The type of the variable `device`.
pub(crate) const DEVICE: Type = Type::Object("kubernetes.DRADevice");
/// The type of capacities.
pub(crate) const QUANTITY: Type = Type::Object("kubernetes.Quantity");

impl Type {
    pub(crate) fn list(element: Type) -> Type {
        Type::List(Inner::one(element))
    }

    pub(crate) fn optional(value: Type) -> Type {
        Type::Optional(Inner::one(value))
    }

    pub(crate) fn map(key: Type, value: Type) -> Type {
        Type::Map(Rc::new(Inner { size: 1 + key.size() + value.size(), first: key, last: value }))
    }

    /// The number of types in this one.
    pub(crate) fn size(&self) -> usize {
        match self {
            Type::List(inner) | Type::Map(inner) | Type::Optional(inner) => inner.size,
            _ => 1,
        }
    }

    fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn | Type::Any)
    }

    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Type::Null | Type::Object(_) | Type::Optional(_) | Type::Duration | Type::Timestamp
        )
    }

    /// Whether this type is equal to another one or stands for more than it.
    fn is_as_general_as(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Dyn | Type::Any | Type::Param(_), _) => true,
            (_, Type::Dyn | Type::Any | Type::Param(_)) => false,
            (Type::List(left), Type::List(right))
            | (Type::Optional(left), Type::Optional(right)) => {
                left.first.is_as_general_as(&right.first)
            }
            (Type::Map(left), Type::Map(right)) => {
                left.first.is_as_general_as(&right.first) && left.last.is_as_general_as(&right.last)
            }
            _ => self == other,
        }
    }
}

impl Inner {
    fn one(element: Type) -> Rc<Inner> {
        Rc::new(Inner { size: 1 + element.size(), first: element, last: Type::Null })
    }
}

/// The types that variables stand for, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Substitutions {
    known: Vec<Option<Type>>,
    /// What the comparison that is going on has changed, with the values before.
    trail: Vec<(usize, Option<Type>)>,
}

impl Substitutions {
    /// Adds variables and returns the number of the first.
    pub(crate) fn fresh(&mut self, n_variables: usize) -> usize {
        let first = self.known.len();
        self.known.resize(first + n_variables, None);
        first
    }

    /// Removes variables that nothing mentions, from this number on.
    pub(crate) fn forget(&mut self, first: usize) {
        self.known.truncate(first);
    }

    /// A new variable.
    pub(crate) fn variable(&mut self) -> Type {
        Type::Param(self.fresh(1))
    }

    /// Whether values of each type may stand where the other list expects them. Learns about variables only if so.
    pub(crate) fn accept(&mut self, given: &[Type], expected: &[Type]) -> bool {
        self.trail.clear();
        let accepted = given.len() == expected.len()
            && given.iter().zip(expected).all(|(given, expected)| self.assign(given, expected));
        if !accepted {
            while let Some((param, before)) = self.trail.pop() {
                self.known[param] = before;
            }
        }
        accepted
    }

    fn learn(&mut self, param: usize, of: Type) {
        let before = self.known[param].replace(of);
        self.trail.push((param, before));
    }

    /// The more general of two types if one may stand for the other.
    pub(crate) fn join(&mut self, previous: &Type, current: &Type) -> Option<Type> {
        let accepted = self.accept(std::slice::from_ref(previous), std::slice::from_ref(current));
        accepted.then(|| most_general(previous, current).clone())
    }

    /// The type with its variables replaced by what they stand for.
    pub(crate) fn resolve(&self, of: &Type) -> Type {
        self.replaced(of, &|param| Type::Param(param))
    }

    /// [`Substitutions::resolve`], and `dyn` for variables that stand for nothing.
    pub(crate) fn resolve_fully(&self, of: &Type) -> Type {
        self.replaced(of, &|_| Type::Dyn)
    }

    fn replaced(&self, of: &Type, unknown: &dyn Fn(usize) -> Type) -> Type {
        match of {
            Type::Param(param) => match self.find(*param) {
                Some(known) => self.replaced(known, unknown),
                None => unknown(*param),
            },
            Type::List(inner) => Type::list(self.replaced(&inner.first, unknown)),
            Type::Optional(inner) => Type::optional(self.replaced(&inner.first, unknown)),
            Type::Map(inner) => {
                Type::map(self.replaced(&inner.first, unknown), self.replaced(&inner.last, unknown))
            }
            other => other.clone(),
        }
    }

    fn find(&self, param: usize) -> Option<&Type> {
        self.known.get(param).and_then(Option::as_ref)
    }

    fn assign(&mut self, given: &Type, expected: &Type) -> bool {
        if let Type::Param(param) = expected {
            match self.stand(*param, given) {
                Standing::Accepted => return true,
                Standing::Refused => return false,
                Standing::Circular => {}
            }
        }
        if let Type::Param(param) = given {
            return matches!(self.stand(*param, expected), Standing::Accepted);
        }
        match (given, expected) {
            (given, expected) if given.is_dyn() || expected.is_dyn() => true,
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::List(given), Type::List(expected))
            | (Type::Optional(given), Type::Optional(expected)) => {
                self.assign(&given.first, &expected.first)
            }
            (Type::Map(given), Type::Map(expected)) => {
                self.assign(&given.first, &expected.first)
                    && self.assign(&given.last, &expected.last)
            }
            _ => given == expected,
        }
    }

    /// Lets a variable stand for a type, if that agrees with what it stands for.
    fn stand(&mut self, param: usize, other: &Type) -> Standing {
        if *other == Type::Param(param) {
            return Standing::Accepted;
        }
        let Some(known) = self.find(param).cloned() else {
            if self.mentions(other, param) {
                return Standing::Circular;
            }
            self.learn(param, other.clone());
            return Standing::Accepted;
        };
        if known == *other {
            return Standing::Accepted;
        }
        if !self.assign(other, &known) {
            return Standing::Refused;
        }
        let general = most_general(other, &known).clone();
        if !self.mentions(&general, param) {
            self.learn(param, general);
        }
        Standing::Accepted
    }

    fn mentions(&self, of: &Type, param: usize) -> bool {
        match of {
            Type::Param(other) if *other == param => true,
            Type::Param(other) => {
                self.find(*other).is_some_and(|known| self.mentions(known, param))
            }
            Type::List(inner) | Type::Optional(inner) => self.mentions(&inner.first, param),
            Type::Map(inner) => {
                self.mentions(&inner.first, param) || self.mentions(&inner.last, param)
            }
            _ => false,
        }
    }
}

/// Whether a variable stands for a type.
enum Standing {
    Accepted,
    Refused,
    /// The type mentions the variable.
    Circular,
}

fn most_general<'t>(left: &'t Type, right: &'t Type) -> &'t Type {
    if left.is_as_general_as(right) { left } else { right }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::List(inner) => return write!(f, "list({})", inner.first),
            Type::Map(inner) => return write!(f, "map({}, {})", inner.first, inner.last),
            Type::Optional(inner) => return write!(f, "optional_type({})", inner.first),
            Type::Param(param) => return write!(f, "_var{param}"),
            Type::Dyn => "dyn",
            Type::Any => "any",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Meta => "type",
            Type::Object(name) => name,
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::{Substitutions, Type};

    /// S-DRA-114: a variable stands for the more general of the types that it meets.
    #[test]
    fn variables_widen() {
        let mut known = Substitutions::default();
        let variable = known.variable();
        let twice = [variable.clone(), variable.clone()];
        assert!(known.accept(&[Type::Bool, Type::Any], &twice));
        assert_eq!(known.resolve(&variable), Type::Any);
        let other = known.variable();
        assert!(!known.accept(&[Type::Bool, Type::Int], &[other.clone(), other.clone()]));
        assert_eq!(known.resolve_fully(&other), Type::Dyn);
        assert!(!known.accept(&[Type::list(other.clone())], &[other]));
    }
}
