//! Sizes: free resources of a node where only resources decide, in a few lanes, and the amounts of its pods, cached by
//! shape.

use std::sync::Arc;

use crate::dry_run::room::Wanted;
use crate::model::shape::{Footprint, Shape};
use crate::snapshot::by_importance::Kind;
use crate::snapshot::placed_pod::PlacedPod;
use crate::snapshot::shard::Shard;

/// Number of resources that are summed together; a request for more kinds takes the slow path.
const LANES: usize = 4;

/// Amounts of the checked resources; remaining lanes are 0.
pub(super) type Lanes = [i64; LANES];

/// Cached sizes of a few shapes, at positions given by the shapes' addresses.
pub(super) struct Sizes([Size; PLACES]);

const PLACES: usize = 64;

/// Priority and amounts of a pod of a shape.
#[derive(Copy, Clone, Default)]
pub(super) struct Size {
    /// The shape's address; 0 where the entry is empty.
    shape: usize,
    pub(super) priority: i32,
    pub(super) taken: Lanes,
}

/// Free resources of a node, and the amounts that have to be free.
pub(super) struct Summed<'s> {
    wanted: &'s Wanted,
    sizes: &'s mut Sizes,
    n_places: i64,
    free: Lanes,
    amounts: Lanes,
}

/// Whether the lanes suffice for all wanted resources.
pub(super) fn are_few(wanted: &Wanted) -> bool {
    wanted.amounts().len() <= LANES
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes([Size::default(); PLACES])
    }
}

impl<'s> Summed<'s> {
    /// A node as it is. `sizes` belong to the same request, whose snapshot keeps the shapes at their addresses.
    pub(super) fn of(
        wanted: &'s Wanted,
        shard: &Shard,
        row: usize,
        sizes: &'s mut Sizes,
    ) -> Summed<'s> {
        let room = wanted.room(shard, row);
        let (mut free, mut amounts) = (Lanes::default(), Lanes::default());
        for (lane, (left, amount)) in room.free.iter().zip(wanted.amounts()).enumerate() {
            (free[lane], amounts[lane]) = (*left, amount);
        }
        Summed { wanted, sizes, n_places: room.n_places, free, amounts }
    }

    /// Priority and amounts of a pod on the node.
    pub(super) fn size(&mut self, placed: &PlacedPod) -> Size {
        if placed.is_resized() {
            let address = Arc::as_ptr(&placed.shape) as usize;
            return size(address, &placed.shape, placed.footprint(), self.wanted);
        }
        self.size_of_shape(&placed.shape)
    }

    /// Amounts of each pod of a kind.
    pub(super) fn taken_by_each(&mut self, kind: &Kind, pods: &[PlacedPod]) -> Lanes {
        match &kind.shape {
            Some(shape) => self.size_of_shape(shape).taken,
            None => self.size(&pods[kind.at as usize]).taken,
        }
    }

    /// Priority and amounts of a pod of a shape.
    fn size_of_shape(&mut self, shape: &Arc<Shape>) -> Size {
        let address = Arc::as_ptr(shape) as usize;
        let known = &mut self.sizes.0[(address >> 6) % PLACES];
        if known.shape != address {
            *known = size(address, shape, &shape.facts.footprint, self.wanted);
        }
        *known
    }

    /// Removes a pod, or adds it where `by` is -1.
    pub(super) fn change(&mut self, placed: &PlacedPod, by: i64) {
        let taken = self.size(placed).taken;
        self.give(by, &taken);
    }

    /// Removes `by` pods with these total amounts; adds them where `by` is negative.
    pub(super) fn give(&mut self, by: i64, taken: &Lanes) {
        self.n_places += by;
        add(&mut self.free, taken, by.signum());
    }

    /// How many of `n` pods of these amounts can be added while the preemptor fits, as it does now.
    pub(super) fn n_fitting(&self, n: usize, taken: &Lanes) -> i64 {
        debug_assert!(self.fits(), "the preemptor fits before pods are added");
        let mut n_fitting = (n as i64).min(self.n_places - 1);
        for ((free, amount), taken) in self.free.iter().zip(&self.amounts).zip(taken) {
            let left = free - amount;
            if *taken > 0 && left / *taken < n_fitting {
                n_fitting = left / *taken;
            }
        }
        n_fitting
    }

    pub(super) fn fits(&self) -> bool {
        let mut fits = self.n_places >= 1;
        for (amount, free) in self.amounts.iter().zip(&self.free) {
            // A lane without a resource has amount 0 and 0 free.
            fits &= amount <= free;
        }
        fits
    }
}

/// Adds amounts, or subtracts them where `sign` is -1. Sums stay within 2⁶², as the node's do.
pub(super) fn add(amounts: &mut Lanes, others: &Lanes, sign: i64) {
    for (amount, other) in amounts.iter_mut().zip(others) {
        *amount = amount.wrapping_add(sign.wrapping_mul(*other));
    }
}

fn size(address: usize, shape: &Shape, footprint: &Footprint, wanted: &Wanted) -> Size {
    let mut taken = Lanes::default();
    for (lane, amount) in taken.iter_mut().zip(wanted.taken_by(footprint)) {
        *lane = amount;
    }
    Size { shape: address, priority: shape.facts.priority, taken }
}
