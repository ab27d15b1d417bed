//! More than a server can take: what is beyond its limits is refused at once and told when to come back, what is accepted is
//! answered, and nothing accepted is lost. Nothing here goes by the clock: work is held back by a lock, and conditions are
//! waited for.

mod deadlines;
mod extender;
mod limits;
mod readers;
mod request_ids;
mod world;
