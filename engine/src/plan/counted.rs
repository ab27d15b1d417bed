//! Counted: a plan within the scope in which other pods are counted, so that its filters, or its filters and scores,
//! can run.
//!
//! Counts are kept between attempts. [`Plan::filtering`] and [`Plan::scoring`] take them from their keeper, update them
//! to the plan's snapshot, and give them back at the end; code that needs counts takes one of the two types that only
//! these scopes create.

use std::ops::Deref;

use super::Plan;
use crate::census::Census;
use crate::filter::Filter;

/// A plan whose filters can run: their counts of other pods are up to date.
pub(crate) struct Filtering<'p, 'a>(&'p mut Plan<'a>);

/// A plan whose filters and scores can run: all counts of other pods are up to date.
pub(crate) struct Scoring<'p, 'a>(Filtering<'p, 'a>);

impl<'a> Plan<'a> {
    /// Runs `ask` with the counts that filters read. `keeper` keeps counts between attempts and holds none meanwhile.
    ///
    /// Cost: a step for each row that changed since the counts were kept; nothing if no filter reads counts.
    pub(crate) fn filtering<K: AsMut<Census>, T>(
        &mut self,
        keeper: &mut K,
        ask: impl FnOnce(&mut Filtering<'_, 'a>, &mut K) -> T,
    ) -> T {
        debug_assert!(!self.census().is_taken(), "counts are taken by one scope at a time");
        if self.demand().filters() {
            self.prepared.count(keeper.as_mut());
        }
        let answer = ask(&mut Filtering(self), keeper);
        self.prepared.give_back(keeper.as_mut());
        debug_assert!(!self.census().is_taken(), "counts that were taken are given back");
        answer
    }

    /// Runs `ask` with the counts that filters and scores read.
    pub(crate) fn scoring<K: AsMut<Census>, T>(
        &mut self,
        keeper: &mut K,
        ask: impl FnOnce(&Scoring<'_, 'a>, &mut K) -> T,
    ) -> T {
        self.filtering(keeper, |plan, keeper| {
            let plan = plan.scoring(keeper);
            ask(&plan, keeper)
        })
    }
}

impl<'a> Filtering<'_, 'a> {
    /// Filters that can refuse something, in the policy's order.
    #[inline]
    pub(crate) fn filters(&self) -> &[&'static Filter] {
        &self.0.filters
    }

    /// This plan with the counts that scores read, too. The scope that created `self` gives them back.
    pub(crate) fn scoring<K: AsMut<Census>>(&mut self, keeper: &mut K) -> Scoring<'_, 'a> {
        self.0.prepared.count(keeper.as_mut());
        Scoring(Filtering(self.0))
    }
}

impl<'a> Deref for Filtering<'_, 'a> {
    type Target = Plan<'a>;

    #[inline]
    fn deref(&self) -> &Plan<'a> {
        self.0
    }
}

impl<'p, 'a> Deref for Scoring<'p, 'a> {
    type Target = Filtering<'p, 'a>;

    #[inline]
    fn deref(&self) -> &Filtering<'p, 'a> {
        &self.0
    }
}
