//! Packing: pods that existing nodes take justify no scale-up. Rule: S-CAS-4.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::equivalence::Classes;
use super::request::ScaleUpRequest;
use super::ring::Ring;
use crate::error::EngineError;
use crate::model::{Pod, PodKey};
use crate::rows::NodeRow;
use crate::simulate::scene::Scene;

/// Number of pods between two checks for cancellation.
pub(super) const PATIENCE: usize = 64;

pub(super) struct Packing<'p, 's, 'a> {
    pods: &'p [Pod],
    classes: &'p Classes,
    scene: &'s mut Scene<'a>,
    ring: &'s mut Ring,
    cancelled: &'p dyn Fn() -> bool,
    hints: FxHashMap<&'p PodKey, &'p str>,
    /// For each class that every node refused: how many pods had been placed then, and whether the refusal is
    /// permanent.
    refused: Vec<Option<(usize, bool)>>,
    n_placed: usize,
}

impl<'p, 's, 'a> Packing<'p, 's, 'a> {
    pub(super) fn new(
        request: &ScaleUpRequest<'p>,
        classes: &'p Classes,
        scene: &'s mut Scene<'a>,
        ring: &'s mut Ring,
    ) -> Packing<'p, 's, 'a> {
        let ScaleUpRequest { pods, hints, cancelled, .. } = *request;
        let hints = hints.iter().map(|(pod, node)| (pod, &**node)).collect();
        let refused = vec![None; classes.len()];
        Packing { pods, classes, scene, ring, cancelled, hints, refused, n_placed: 0 }
    }

    /// Places pods by descending priority, each on its hinted node or on the next node that takes it; returns the pods
    /// that are left, in that order.
    pub(super) fn pack(
        &mut self,
        mut pending: Vec<usize>,
        placed: &mut Vec<(usize, Arc<str>)>,
    ) -> Result<Vec<usize>, EngineError> {
        pending.sort_by_key(|index| Reverse(self.pods[*index].priority()));
        let mut left = Vec::with_capacity(pending.len());
        for (turn, index) in pending.into_iter().enumerate() {
            if turn % PATIENCE == 0 && (self.cancelled)() {
                return Err(EngineError::Cancelled);
            }
            let found = self.place(index)?;
            match found.and_then(|row| self.scene.node(row)) {
                Some(node) => placed.push((index, node.facts().name.clone())),
                None => left.push(index),
            }
        }
        Ok(left)
    }

    fn place(&mut self, index: usize) -> Result<Option<NodeRow>, EngineError> {
        let (pod, class) = (&self.pods[index], self.classes.of_pod(index));
        if self.refused[class].is_some_and(|(then, for_good)| for_good || then == self.n_placed) {
            return Ok(None);
        }
        let found = match self.hinted(pod)? {
            Some(row) => Some(row),
            None => {
                let found = self.scene.first_fit(pod, self.ring.existing())?;
                found.into_iter().for_each(|row| self.ring.found(row));
                found
            }
        };
        match found {
            Some(row) => {
                self.scene.put(pod, row);
                self.n_placed += 1;
            }
            None => self.refused[class] = Some((self.n_placed, self.scene.only_loses(pod))),
        }
        Ok(found)
    }

    fn hinted(&mut self, pod: &Pod) -> Result<Option<NodeRow>, EngineError> {
        let hint = self.hints.get(pod.key());
        let Some(row) = hint.and_then(|node| self.scene.snapshot().row_named(node)) else {
            return Ok(None);
        };
        Ok(self.scene.fits(pod, row)?.then_some(row))
    }
}
