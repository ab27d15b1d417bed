//! What must hold of the lifecycle decisions whatever they are asked: properties over random stories.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod lifecycle {
    mod attachment;
    mod back_off;
    mod faults;
    mod fence;
    mod grace;
    mod identity;
    mod phase;
    mod pod_gc;
    mod probe;
}
