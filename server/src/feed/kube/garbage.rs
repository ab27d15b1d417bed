//! Garbage: what a server sends that is no event, and no object of its kind.

/// A line that is invalid in a watch: nothing after it can be trusted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Garbage {
    /// The line is not the JSON of an event.
    #[error("a line that is no event: {0}")]
    NoEvent(String),
    /// The `type` does not exist in watches.
    #[error("an event of the unknown type `{0}`")]
    UnknownType(String),
    /// The event's object cannot be identified.
    #[error("an event about no object: {0}")]
    NoObject(#[from] NoObject),
    /// A bookmark without a version.
    #[error("a bookmark without a resource version")]
    Unversioned,
}

/// Text of an object that cannot even be identified.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoObject {
    /// The text is not JSON.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// The text is JSON without a name in its metadata.
    #[error("an object without a name")]
    Nameless,
}
