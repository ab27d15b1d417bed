//! More load than a server can take: calls beyond its limits are refused at once with a retry delay, and no accepted
//! call is lost. No test depends on the clock: a lock holds work back, and tests wait for conditions.

mod deadlines;
mod extender;
mod limits;
mod readers;
mod request_ids;
mod world;
