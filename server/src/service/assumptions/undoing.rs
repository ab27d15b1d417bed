//! Undoing: ends the pods of requests that a server before this one has carried out and not answered.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::keeper::{Ending, Undone};
use super::request::{self, Unanswered};
use super::{AssumptionEnd, Assumptions};
use crate::service::response_cache::ResponseCache;

/// The requests, with the ends of their pods. From the beginning on, a retry waits.
#[derive(Debug, Default)]
pub(super) struct Undoing {
    requests: Vec<(Undone, Vec<Ending>)>,
    /// Tokens of the pods of a request, by the first, with the request's index.
    tokens: BTreeMap<u64, (Range<u64>, usize)>,
}

impl Undoing {
    /// To be called after [`ResponseCache::restore`]: a name that still had an older response would not be waited for.
    pub(super) fn begin(unanswered: &[Unanswered], responses: &Arc<ResponseCache>) -> Undoing {
        let mut undoing = Undoing::default();
        for (index, Unanswered { name, digest, tokens }) in unanswered.iter().enumerate() {
            let of_request = tokens.iter().map(|range| (range.start, (range.clone(), index)));
            undoing.tokens.extend(of_request);
            let key = request::key(name);
            let _retry = responses.begin_again(name.clone(), *digest).map(Arc::new);
            undoing.requests.push((Undone { key, _retry }, Vec::new()));
        }
        undoing
    }

    /// The ends of the pods of the request that has assumed this one; `None` if it is of no such request.
    pub(super) fn ends_with(&mut self, token: u64) -> Option<&mut Vec<Ending>> {
        let (_, (range, index)) = self.tokens.range(..=token).next_back()?;
        let (_, pods) = self.requests.get_mut(*index).filter(|_| range.contains(&token))?;
        Some(pods)
    }

    /// Has the ends written, and removes the records of the requests.
    pub(super) fn finish(self, assumptions: &Assumptions) {
        for (undone, pods) in self.requests {
            // A retry waits for it.
            drop(assumptions.at_keeper(|keeper| {
                let mut table = assumptions.table();
                for pod in &pods {
                    if let Some((key, _)) = &pod.assumed {
                        table.begin_to_end(key, pod.token);
                    }
                }
                drop(table);
                keeper.end(&pods, AssumptionEnd::Undelivered, Some(undone))
            }));
        }
    }
}
