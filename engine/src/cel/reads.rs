//! Reads: which attributes and capacities of a device an expression looks at. Devices that agree in these get one
//! verdict.

use super::plan::{Attribute, Fold, Node, Qualifier, QualifierKey, Root, Step};
use super::value::Key;

/// An attribute or a capacity that an expression looks at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Read {
    pub(crate) of: Part,
    pub(crate) domain: String,
    pub(crate) id: String,
}

/// The part of a device that has something.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Attributes,
    Capacity,
}

/// What an expression looks at besides the driver and whether the device allows multiple allocations; `None` if that
/// depends on the device.
pub(super) fn reads(node: &Node) -> Option<Vec<Read>> {
    let mut reads = Reads(Vec::new());
    reads.node(node)?;
    Some(reads.0)
}

struct Reads(Vec<Read>);

/// Each function returns `None` for what may look at anything.
impl Reads {
    fn node(&mut self, node: &Node) -> Option<()> {
        match node {
            Node::Constant(_) | Node::Folded(..) => Some(()),
            Node::Attribute(attribute) | Node::Has(attribute) => self.attribute(attribute),
            Node::And(terms) | Node::Or(terms) => self.all(terms),
            Node::Equality { sides, .. } | Node::OptionalOr { sides, .. } => self.all(&**sides),
            Node::InConstant { value, .. } => self.node(value),
            Node::Search(search) => {
                self.node(&search.text)?;
                search.limit.iter().try_for_each(|limit| self.node(limit))
            }
            Node::Call(call) => self.all(&call.args),
            Node::List(elements) => self.all(elements.iter().map(|(element, _)| element)),
            Node::Map(entries) => self.all(entries.iter().flat_map(|(key, value, _)| [key, value])),
            Node::Fold(fold) => self.fold(fold),
            Node::Bind { value, body, .. } => self.all([&**value, &**body]),
            Node::OptionalMap { optional, body, .. } => self.all([&**optional, &**body]),
        }
    }

    fn all<'a>(&mut self, nodes: impl IntoIterator<Item = &'a Node>) -> Option<()> {
        nodes.into_iter().try_for_each(|node| self.node(node))
    }

    fn fold(&mut self, fold: &Fold) -> Option<()> {
        self.node(&fold.range)?;
        match &fold.step {
            Step::All(node) | Step::Exists(node) | Step::ExistsOne(node) | Step::Filter(node) => {
                self.node(node)
            }
            Step::Map(condition, node)
            | Step::TransformMap(condition, node)
            | Step::TransformMapEntry(condition, node) => {
                condition.iter().try_for_each(|condition| self.node(condition))?;
                self.node(node)
            }
        }
    }

    fn attribute(&mut self, attribute: &Attribute) -> Option<()> {
        let mut rest = &attribute.qualifiers[..];
        match &attribute.root {
            Root::Device => rest = self.of_device(rest)?,
            Root::Variable(_) => {}
            Root::Value(node) => self.node(node)?,
            Root::Conditional(parts) => self.all(parts)?,
        }
        rest.iter().try_for_each(|qualifier| match &qualifier.key {
            QualifierKey::Exact(_) => Some(()),
            QualifierKey::Computed(node) => self.node(node),
        })
    }

    /// Notes what the first selections of a device look at; returns the others.
    fn of_device<'q>(&mut self, qualifiers: &'q [Qualifier]) -> Option<&'q [Qualifier]> {
        let text = |qualifier: &'q Qualifier| match &qualifier.key {
            QualifierKey::Exact(Key::String(text)) if !qualifier.is_optional => Some(&**text),
            QualifierKey::Exact(_) | QualifierKey::Computed(_) => None,
        };
        let (field, rest) = qualifiers.split_first()?;
        let of = match text(field)? {
            "driver" | "allowMultipleAllocations" => return Some(rest),
            "attributes" => Part::Attributes,
            "capacity" => Part::Capacity,
            _ => return None,
        };
        let (domain, rest) = rest.split_first()?;
        let (id, rest) = rest.split_first()?;
        let QualifierKey::Exact(Key::String(id)) = &id.key else { return None };
        let read = Read { of, domain: text(domain)?.to_owned(), id: id.to_string() };
        if !self.0.contains(&read) {
            self.0.push(read);
        }
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Program;

    fn read(source: &str) -> Option<String> {
        let program = Program::compile(source).unwrap();
        let reads = program.reads()?;
        let names = reads.iter().map(|read| format!("{:?} {}/{}", read.of, read.domain, read.id));
        Some(names.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn what_is_named_by_constants_is_known() {
        let known = |source, expected: &str| assert_eq!(read(source), Some(expected.to_owned()));
        known("true", "");
        known(r#"device.driver == "a" && device.allowMultipleAllocations"#, "");
        known(
            r#"device.attributes["a"].model == "x" || device.attributes["a"]["model"] == "y""#,
            "Attributes a/model",
        );
        known(
            r#"device.capacity["a"].memory.compareTo(quantity("1Gi")) > 0 && has(device.attributes["b"].x)"#,
            "Capacity a/memory, Attributes b/x",
        );
        known(
            r#"["x"].exists(e, device.attributes["a"].?model.orValue("z") == e)"#,
            "Attributes a/model",
        );
    }

    #[test]
    fn what_depends_on_the_device_is_not() {
        for source in [
            r#""a" in device.attributes"#,
            r#"device.attributes[device.driver].model == "x""#,
            r#"device.attributes["a"].exists(name, name == "x")"#,
            r#"device.attributes["a"][device.driver] == "x""#,
            r#"device.attributes[?"a"].?model.orValue("z") == "z""#,
            r#"cel.bind(all, device.attributes["a"], all.model == "x")"#,
            r#"has(device.attributes)"#,
        ] {
            assert_eq!(read(source), None, "{source}");
        }
    }
}
