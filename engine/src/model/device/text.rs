//! Texts of devices and claims: names that many objects repeat are shared, others are kept as they are.

use std::sync::Arc;

use crate::model::intern::Interner;

/// A name that many objects repeat, such as that of an attribute: one text for all of them.
pub(super) fn shared(name: &str, names: &Interner) -> Arc<str> {
    names.name(names.intern(name))
}

/// Names in their order.
pub(super) fn shared_list(list: &[String], names: &Interner) -> Box<[Arc<str>]> {
    list.iter().map(|name| shared(name, names)).collect()
}

/// A text that is set and not empty.
pub(super) fn set(text: Option<&String>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty()).map(|text| text.as_str().into())
}
