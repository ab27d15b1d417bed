//! Tested: what a node of a group is to the pods, each class asked once. Rule: S-CAS-7.

use rustc_hash::FxHashMap;

use crate::simulate::one_pass::Misfit;

/// Which classes a node of one group takes, and why not the others.
#[derive(Debug)]
pub(super) struct Tested {
    /// By class; `None` for one that has no pod left.
    answers: Vec<Option<Answer>>,
    /// Each once: classes may be as many as pods, and reasons are few.
    misfits: Vec<Misfit>,
    positions: FxHashMap<Misfit, u32>,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Answer {
    Takes,
    /// A position in the misfits.
    Refuses(u32),
}

impl Tested {
    /// Nothing is known of so many classes.
    pub(super) fn new(n_classes: usize) -> Tested {
        let (misfits, positions) = (Vec::new(), FxHashMap::default());
        Tested { answers: vec![None; n_classes], misfits, positions }
    }

    /// Notes what the node is to a class.
    pub(super) fn note(&mut self, class: usize, misfit: Option<Misfit>) {
        let answer = match misfit {
            None => Answer::Takes,
            Some(misfit) => {
                let next = self.misfits.len() as u32;
                let at = *self.positions.entry(misfit.clone()).or_insert(next);
                if at == next {
                    self.misfits.push(misfit);
                }
                Answer::Refuses(at)
            }
        };
        self.answers[class] = Some(answer);
    }

    /// What it is; `None` where that was not asked.
    pub(super) fn of(&self, class: usize) -> Option<Result<(), &Misfit>> {
        Some(match self.answers[class]? {
            Answer::Takes => Ok(()),
            Answer::Refuses(at) => Err(&self.misfits[at as usize]),
        })
    }

    /// Whether it takes each class.
    fn taken(&self) -> Vec<bool> {
        self.answers.iter().map(|answer| *answer == Some(Answer::Takes)).collect()
    }
}

/// For each group the first that takes the same classes, by position.
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
    fn groups_are_alike_by_what_they_take_and_not_by_why_they_refuse() {
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
        assert_eq!(tested[0].misfits, [misfit("a")], "told once");
        assert_eq!(tested[0].of(2), Some(Err(&misfit("a"))));
        assert_eq!((tested[1].of(1), tested[1].of(2)), (Some(Ok(())), None));
    }
}
