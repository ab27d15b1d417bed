//! Tested: whether a node of a group takes the pods, with one test for each class. Rule: S-CAS-7.

use rustc_hash::FxHashMap;

use crate::simulate::one_pass::Misfit;

/// Which classes a node of one group takes, and why it refuses the others.
#[derive(Debug)]
pub(super) struct Tested {
    /// Result by class; `None` for a class that has no pending pod.
    verdicts: Vec<Option<Verdict>>,
    /// Distinct misfits: there may be as many classes as pods, but few reasons.
    misfits: Vec<Misfit>,
    positions: FxHashMap<Misfit, u32>,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Verdict {
    Takes,
    /// Position in `misfits`.
    Refuses(u32),
}

impl Tested {
    /// No results yet, for this number of classes.
    pub(super) fn new(n_classes: usize) -> Tested {
        let (misfits, positions) = (Vec::new(), FxHashMap::default());
        Tested { verdicts: vec![None; n_classes], misfits, positions }
    }

    /// Records whether the node takes a class.
    pub(super) fn note(&mut self, class: usize, misfit: Option<Misfit>) {
        let verdict = match misfit {
            None => Verdict::Takes,
            Some(misfit) => {
                let next = self.misfits.len() as u32;
                let at = *self.positions.entry(misfit.clone()).or_insert(next);
                if at == next {
                    self.misfits.push(misfit);
                }
                Verdict::Refuses(at)
            }
        };
        self.verdicts[class] = Some(verdict);
    }

    /// The result for a class; `None` where it was not tested.
    pub(super) fn of(&self, class: usize) -> Option<Result<(), &Misfit>> {
        Some(match self.verdicts[class]? {
            Verdict::Takes => Ok(()),
            Verdict::Refuses(at) => Err(&self.misfits[at as usize]),
        })
    }

    /// For each class, whether the node takes it.
    fn taken(&self) -> Vec<bool> {
        self.verdicts.iter().map(|verdict| *verdict == Some(Verdict::Takes)).collect()
    }
}

/// For each group, the position of the first group that takes the same classes.
pub(super) fn first_alike(tested: &[Tested]) -> Vec<usize> {
    let mut known: FxHashMap<Vec<bool>, usize> = FxHashMap::default();
    let groups = tested.iter().enumerate();
    groups.map(|(position, tested)| *known.entry(tested.taken()).or_insert(position)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::{Plugin, StatusCode};

    #[test]
    fn groups_are_alike_if_they_take_the_same_classes() {
        let misfit = |reason: &str| Misfit {
            plugin: Plugin::NodeResourcesFit,
            code: StatusCode::Unschedulable,
            reasons: [reason.to_owned()].into(),
        };
        let of = |reasons: [Option<Option<&str>>; 3]| {
            let mut tested = Tested::new(3);
            for (class, reason) in reasons.into_iter().enumerate() {
                if let Some(reason) = reason {
                    tested.note(class, reason.map(misfit));
                }
            }
            tested
        };
        let (takes, no) = (Some(None), |reason| Some(Some(reason)));
        let tested = [
            of([takes, no("a"), no("a")]),
            of([takes, takes, None]),
            of([takes, no("b"), None]),
            of([takes, takes, no("b")]),
        ];
        assert_eq!(first_alike(&tested), [0, 1, 0, 1]);
        assert_eq!(tested[0].misfits, [misfit("a")], "recorded once");
        assert_eq!(tested[0].of(2), Some(Err(&misfit("a"))));
        assert_eq!((tested[1].of(1), tested[1].of(2)), (Some(Ok(())), None));
    }
}
