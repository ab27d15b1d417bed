//! NodeAffinity: each pair of the node selector, and the requirements of node affinity. Rules: S-NAF-3 to
//! S-NAF-7.

use super::at::{At, Judged};
use super::comparison::{Compared, LabelSource};
use super::wording::parts;
use crate::model::intern::{Interner, Symbol};
use crate::model::label_selector::value_of;
use crate::model::node::NodeFacts;
use crate::model::selector::{FieldRequirement, NodeSelector, Requirement, Term};
use crate::plan::counted::Filtering;
use crate::snapshot::matching::matching_term;

pub(super) fn compare(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let Some(node) = at.shard.nodes.node(at.row) else {
        return Vec::new();
    };
    let look = Look { names: plan.names(), at, node: node.facts() };
    let mut judged = Vec::new();
    if let Some(added) = plan.added_required() {
        judged.extend(look.nearest(added, |_, _| LabelSource::AddedAffinity));
    }
    let pairs = plan.shape().node_selector.as_deref().unwrap_or(&[]);
    judged.extend(pairs.iter().map(|(key, value)| look.pair(*key, *value)));
    if let Some(required) = &plan.shape().required_affinity {
        let of_term = |term, n_terms| LabelSource::NodeAffinity { term, n_terms };
        judged.extend(look.nearest(required, of_term));
    }
    judged
}

struct Look<'p> {
    names: &'p Interner,
    at: At<'p>,
    node: &'p NodeFacts,
}

impl Look<'_> {
    fn pair(&self, key: Symbol, value: Symbol) -> Judged {
        let found = value_of(&self.node.labels, key);
        let compared = Compared::Label {
            source: LabelSource::NodeSelector,
            key: self.names.name(key),
            operator: "In",
            values: vec![self.names.name(value)],
            found: found.map(|found| self.names.name(found)),
        };
        (found == Some(value), compared)
    }

    /// The requirements of the term that the node meets, or else of the first of those that it nearly meets: with the
    /// fewest unmet requirements.
    fn nearest(
        &self,
        selector: &NodeSelector,
        source: impl Fn(usize, usize) -> LabelSource,
    ) -> Vec<Judged> {
        let n_terms = selector.terms.len();
        if n_terms == 0 {
            return vec![(false, Compared::NoTerm { source: source(0, 0) })];
        }
        let terms = selector.terms.iter().enumerate();
        let judged = terms.map(|(i, term)| self.term(term, source(i, n_terms)));
        judged
            .min_by_key(|judged| judged.iter().filter(|(is_met, _)| !is_met).count())
            .unwrap_or_default()
    }

    fn term(&self, term: &Term, source: LabelSource) -> Vec<Judged> {
        let labels = term.labels.iter().map(|requirement| {
            let alone =
                Term { labels: [requirement.clone()].into_iter().collect(), ..Term::default() };
            (self.meets(&alone), self.label(requirement, source))
        });
        let fields = term.fields.iter().map(|requirement| {
            let alone =
                Term { fields: [requirement.clone()].into_iter().collect(), ..Term::default() };
            (self.meets(&alone), self.field(requirement, source))
        });
        labels.chain(fields).collect()
    }

    fn meets(&self, term: &Term) -> bool {
        !matching_term(term, &self.at.shard.nodes, self.at.rows(), self.names).is_empty()
    }

    fn label(&self, requirement: &Requirement, source: LabelSource) -> Compared {
        let (key, operator, values) = parts(requirement, self.names);
        let found =
            value_of(&self.node.labels, requirement.key).map(|found| self.names.name(found));
        Compared::Label { source, key, operator, values, found }
    }

    fn field(&self, requirement: &FieldRequirement, source: LabelSource) -> Compared {
        let (operator, value) = match requirement {
            FieldRequirement::NameIs(name) => ("In", Some(self.names.name(*name))),
            FieldRequirement::NameIsNot(name) => ("NotIn", Some(self.names.name(*name))),
            FieldRequirement::Known(_) => ("In", None),
        };
        Compared::Field { source, operator, value }
    }
}
