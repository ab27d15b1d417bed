//! Limiter: whether an option may have one more node. Rule: S-BIN-3.

use super::request::{ScaleUpLimit, ScaleUpLimits};

/// Limits of an option, checked before each node is added; once one is reached, no more nodes are added.
pub(super) struct Limiter<'a> {
    limits: ScaleUpLimits,
    /// Number of nodes that the group, together with similar groups where balanced, may still add.
    quota: Option<usize>,
    /// Nodes of the cluster, including added ones, and their capacity.
    pub(super) total: Total,
    /// Capacity of one more node.
    of_node: Total,
    n_added: usize,
    elapsed_ms: &'a dyn Fn() -> u64,
    began_ms: u64,
    refused: Option<ScaleUpLimit>,
}

/// Number of nodes, milli-CPU and bytes of memory.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) n_nodes: usize,
    pub(super) milli_cpu: i64,
    pub(super) memory: i64,
}

impl Total {
    /// The total with one more node.
    pub(super) fn with(self, capacity: (i64, i64)) -> Total {
        Total {
            n_nodes: self.n_nodes + 1,
            milli_cpu: self.milli_cpu.saturating_add(capacity.0),
            memory: self.memory.saturating_add(capacity.1),
        }
    }
}

impl<'a> Limiter<'a> {
    /// A limiter for an option whose nodes have this capacity, in milli-CPU and bytes.
    pub(super) fn new(
        limits: ScaleUpLimits,
        quota: Option<usize>,
        total: Total,
        capacity: (i64, i64),
        elapsed_ms: &'a dyn Fn() -> u64,
    ) -> Limiter<'a> {
        let of_node = Total::default().with(capacity);
        let (began_ms, n_added, refused) = (elapsed_ms(), 0, None);
        Limiter { limits, quota, total, of_node, n_added, elapsed_ms, began_ms, refused }
    }

    /// Counts one more node, or returns the limit that forbids it.
    pub(super) fn admit(&mut self) -> Result<(), ScaleUpLimit> {
        if self.refused.is_none() {
            self.refused = self.refusal();
        }
        match self.refused {
            Some(limit) => Err(limit),
            None => {
                self.total = self.total.with((self.of_node.milli_cpu, self.of_node.memory));
                self.n_added += 1;
                Ok(())
            }
        }
    }

    /// The limit that refused a node, if any.
    pub(super) fn refused(&self) -> Option<ScaleUpLimit> {
        self.refused
    }

    fn refusal(&self) -> Option<ScaleUpLimit> {
        let ScaleUpLimits { nodes, total_nodes, milli_cpu, memory, duration_ms } = self.limits;
        let then = self.total.with((self.of_node.milli_cpu, self.of_node.memory));
        let is_late = |duration| (self.elapsed_ms)().saturating_sub(self.began_ms) >= duration;
        let limits = [
            (ScaleUpLimit::Nodes, nodes.is_some_and(|most| self.n_added >= most)),
            (ScaleUpLimit::Duration, duration_ms.is_some_and(is_late)),
            (ScaleUpLimit::TotalNodes, total_nodes.is_some_and(|most| then.n_nodes > most)),
            (ScaleUpLimit::Cpu, milli_cpu.is_some_and(|most| then.milli_cpu > most)),
            (ScaleUpLimit::Memory, memory.is_some_and(|most| then.memory > most)),
            (ScaleUpLimit::GroupSize, self.quota.is_some_and(|most| self.n_added >= most)),
        ];
        limits.into_iter().find(|(_, is_reached)| *is_reached).map(|(limit, _)| limit)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn n_granted(limits: ScaleUpLimits, quota: Option<usize>) -> (usize, Option<ScaleUpLimit>) {
        let now = Cell::new(1000);
        let elapsed_ms = || {
            now.set(now.get() + 10);
            now.get()
        };
        let total = Total { n_nodes: 3, milli_cpu: 12_000, memory: 96 };
        let mut limiter = Limiter::new(limits, quota, total, (4_000, 32), &elapsed_ms);
        let n_granted = (0..50).take_while(|_| limiter.admit().is_ok()).count();
        assert_eq!(limiter.admit().err(), limiter.refused(), "once refused, always refused");
        (n_granted, limiter.refused())
    }

    /// S-BIN-3
    #[test]
    fn the_first_limit_that_is_reached_refuses() {
        let none = ScaleUpLimits::default();
        assert_eq!(n_granted(none, None), (50, None));
        let nodes = ScaleUpLimits { nodes: Some(7), ..none };
        assert_eq!(n_granted(nodes, None), (7, Some(ScaleUpLimit::Nodes)));
        let total = ScaleUpLimits { total_nodes: Some(5), ..nodes };
        assert_eq!(n_granted(total, None), (2, Some(ScaleUpLimit::TotalNodes)));
        assert_eq!(n_granted(ScaleUpLimits { total_nodes: Some(1), ..none }, None).0, 0);
        let cpu = ScaleUpLimits { milli_cpu: Some(27_999), ..total };
        assert_eq!(n_granted(cpu, None), (2, Some(ScaleUpLimit::TotalNodes)));
        let cpu = ScaleUpLimits { milli_cpu: Some(27_999), ..none };
        assert_eq!(n_granted(cpu, None), (3, Some(ScaleUpLimit::Cpu)));
        let memory = ScaleUpLimits { memory: Some(128), ..none };
        assert_eq!(n_granted(memory, None), (1, Some(ScaleUpLimit::Memory)));
        assert_eq!(n_granted(none, Some(4)), (4, Some(ScaleUpLimit::GroupSize)));
        let time = ScaleUpLimits { duration_ms: Some(60), ..none };
        assert_eq!(n_granted(time, None), (5, Some(ScaleUpLimit::Duration)));
    }
}
