//! The table of functions and operators, and their implementations by library (S-DRA-115).

mod authorizer;
mod conversions;
mod dates;
mod formatting;
mod lists;
mod network;
mod operators;
mod optionals;
mod quantities;
mod regexes;
mod sets;
mod strings;
mod versions;

pub(crate) use formatting::{Clause, clauses};

use super::function::Function;

/// All functions, by library.
const LIBRARIES: &[&[Function]] = &[
    operators::FUNCTIONS,
    conversions::FUNCTIONS,
    strings::FUNCTIONS,
    quantities::FUNCTIONS,
    versions::FUNCTIONS,
    optionals::FUNCTIONS,
    lists::FUNCTIONS,
    sets::FUNCTIONS,
    regexes::FUNCTIONS,
    dates::FUNCTIONS,
    network::FUNCTIONS,
    formatting::FUNCTIONS,
    authorizer::FUNCTIONS,
];

/// The function of a name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    LIBRARIES.iter().flat_map(|library| library.iter()).find(|function| function.name == name)
}

#[cfg(test)]
mod tests {
    use super::LIBRARIES;
    use crate::cel::signature::Signature;

    /// S-DRA-115: every signature can be read, and no function is there twice.
    #[test]
    fn signatures_are_well_formed() {
        let mut names: Vec<&str> = Vec::new();
        for function in LIBRARIES.iter().flat_map(|library| library.iter()) {
            assert!(!names.contains(&function.name), "{}", function.name);
            names.push(function.name);
            for (text, _) in function.overloads {
                assert!(Signature::read(text, 0).is_some(), "{}: {text}", function.name);
            }
        }
    }
}
