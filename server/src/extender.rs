//! Extender: the verbs of kube-scheduler's extender protocol v1, `filter`, `prioritize`, `preempt` and `bind`.
//! Rules: S-EXT-1 to S-EXT-16.
//!
//! A verb takes what it needs out of the body without decoding the rest (`arguments`, `json_object`), asks the engine
//! about exactly the nodes that were sent, and writes its response into one buffer (`text`). The HTTP half is
//! `http/extender.rs`.

mod filter;
mod prioritize;
mod preempt;
mod bind;
mod shared;
mod arguments;
mod candidates;
mod json_object;
mod priority_levels;
mod options;
pub(crate) mod text;
mod recent_pods;
mod failure;
mod policies;

use std::ops::Deref;
use std::sync::Arc;

use crate::service::{Access, Deadline, State};
use crate::telemetry::ExtenderVerb;
pub(crate) use failure::Failure;
pub(crate) use options::DEFAULT_MAX_BODY_BYTES;
pub use options::ExtenderOptions;
pub use policies::PolicyChoiceError;
pub(crate) use shared::Extender;

/// Size in bytes beyond which a body is handled off the reactor: the names of 5,000 nodes take half of it.
pub(crate) const LONG_BODY: usize = 128 << 10;

/// Number of objects in a body beyond which it is handled off the reactor: the pods that kube-scheduler sends have some
/// hundred. Each may be a term that is counted over all nodes.
const MANY_OBJECTS: usize = 512;

/// Maximum size of the body of a bind: four names are much shorter.
const LONGEST_BIND: usize = 64 << 10;

impl Extender {
    /// Carries out a verb; returns the JSON of its result. `B` keeps the memory reserved for the body.
    ///
    /// # Errors
    /// A body that the verb cannot read, a request that cannot be carried out, a server that is not ready.
    pub(crate) async fn carry_out<B>(
        self: &Arc<Self>,
        verb: ExtenderVerb,
        state: &Arc<State>,
        access: &Access,
        body: B,
    ) -> Result<Vec<u8>, Failure>
    where
        B: Deref<Target = [u8]> + Send + 'static,
    {
        state.freshness.check_decidable()?;
        let carry_out = match verb {
            ExtenderVerb::Filter => filter::filter,
            ExtenderVerb::Prioritize => prioritize::prioritize,
            ExtenderVerb::Preempt => preempt::preempt,
            ExtenderVerb::Bind if !self.binds => {
                return Err(Failure::Refused(
                    "this server does not bind for kube-scheduler: set `extender: {bind: true}` in its configuration, or leave `bindVerb` out"
                        .to_owned(),
                ));
            }
            ExtenderVerb::Bind if body.len() > LONGEST_BIND => {
                return Err(Failure::Invalid(format!(
                    "`ExtenderBindingArgs`: has more than {LONGEST_BIND} bytes"
                )));
            }
            ExtenderVerb::Bind => return bind::bind(state, self, access, &body).await,
        };
        if body.len() <= LONG_BODY
            && memchr::memchr_iter(b'{', &body).count() <= MANY_OBJECTS
            && verb != ExtenderVerb::Preempt
            && state.decides_in_microseconds(&state.cluster)
        {
            return carry_out(state, self, &body);
        }
        let (shared, extender) = (state.clone(), self.clone());
        state.pool.run(Deadline(None), move |_| carry_out(&shared, &extender, &body)).await?
    }
}
