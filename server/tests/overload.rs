//! More than a server can take: what is beyond its limits is refused at once and told when to come back, what is accepted is
//! answered, and nothing accepted is lost. Nothing here goes by the clock: work is held back by a lock, and conditions are
//! waited for.
#![cfg(test)]

#[path = "overload/deadlines.rs"]
mod deadlines;
#[path = "overload/drain.rs"]
mod drain;
#[path = "overload/extender.rs"]
mod extender;
#[path = "overload/limits.rs"]
mod limits;
#[path = "overload/readers.rs"]
mod readers;
#[path = "overload/request_ids.rs"]
mod request_ids;
#[path = "overload/world.rs"]
mod world;
