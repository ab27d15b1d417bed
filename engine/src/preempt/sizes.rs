//! Sizes: what is left on a node where resources alone decide, in a few lanes, and what pods take of it, looked up once a shape.

use std::sync::Arc;

use crate::dry_run::room::Wanted;
use crate::model::shape::{Footprint, Shape};
use crate::snapshot::pod_table::PlacedPod;
use crate::snapshot::shard::Shard;

/// Resources that are added up together; a pod that requests more kinds is tried the long way.
const LANES: usize = 4;

/// An amount of each resource that is checked, then 0.
pub(super) type Lanes = [i64; LANES];

/// Sizes of a few shapes, each at the place that the shape's address gives it.
pub(super) struct Sizes([Size; PLACES]);

const PLACES: usize = 64;

/// What a pod of a shape takes.
#[derive(Copy, Clone, Default)]
pub(super) struct Size {
    /// The shape's address; 0, which none has, where nothing is known.
    shape: usize,
    pub(super) priority: i32,
    pub(super) taken: Lanes,
}

/// What is left on a node, and what has to be left.
pub(super) struct Summed<'s> {
    wanted: &'s Wanted,
    sizes: &'s mut Sizes,
    n_places: i64,
    free: Lanes,
    amounts: Lanes,
}

/// Whether there are lanes for all that is wanted.
pub(super) fn are_few(wanted: &Wanted) -> bool {
    wanted.amounts().len() <= LANES
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes([Size::default(); PLACES])
    }
}

impl<'s> Summed<'s> {
    /// A node as it is. `sizes` are of the same request, whose snapshot keeps the shapes where they are.
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

    /// What a pod on the node takes.
    pub(super) fn size(&mut self, placed: &PlacedPod) -> Size {
        let address = Arc::as_ptr(&placed.shape) as usize;
        let known = &mut self.sizes.0[(address >> 6) % PLACES];
        if known.shape != address {
            *known = size(address, &placed.shape, &placed.shape.facts.footprint, self.wanted);
        }
        if placed.is_resized() {
            return size(address, &placed.shape, placed.footprint(), self.wanted);
        }
        *known
    }

    /// A pod goes, or where `by` is -1 comes.
    pub(super) fn change(&mut self, placed: &PlacedPod, by: i64) {
        let taken = self.size(placed).taken;
        self.give(by, &taken);
    }

    /// `by` pods go that take these amounts together; fewer than none come.
    pub(super) fn give(&mut self, by: i64, taken: &Lanes) {
        self.n_places += by;
        add(&mut self.free, taken, by.signum());
    }

    pub(super) fn fits(&self) -> bool {
        let mut fits = self.n_places >= 1;
        for (amount, free) in self.amounts.iter().zip(&self.free) {
            // A lane without a resource is 0 and 0.
            fits &= amount <= free;
        }
        fits
    }
}

/// Adds amounts, or takes them away where `sign` is -1. Sums stay within 2⁶², as the node's do.
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
