//! Inter-pod affinity and anti-affinity terms. Rules: S-IPA-1, S-IPA-2, W-SEL-6, W-SEL-7.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use berth_proto::core_v1;
use smallvec::SmallVec;

use super::ModelError;
use super::intern::{Interner, Symbol};
use super::label::Labels;
use super::label_selector::LabelSelector;
use super::table::{Table, table_bytes};

/// Id of a term as long as anything refers to it; ids are never reused.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct TermId(pub(crate) u64);

/// An interned term. Two terms of one table are equal exactly if their ids are.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) id: TermId,
    pub(crate) facts: TermFacts,
}

/// Facts of one term, independent of its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TermFacts {
    pub(crate) kind: TermKind,
    pub(crate) topology_key: Symbol,
    /// Namespaces, sorted; the owner's own where the term neither names nor selects any (S-IPA-1).
    pub(crate) namespaces: SmallVec<[Symbol; 1]>,
    /// Selector of namespaces; `None` selects none, an empty one all.
    pub(crate) namespace_selector: Option<LabelSelector>,
    /// Selector of pods; `None` matches none, an empty one all.
    pub(crate) selector: Option<LabelSelector>,
}

/// Kind of a term.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum TermKind {
    RequiredAffinity,
    RequiredAntiAffinity,
    /// A preferred term with its weight, negative for anti-affinity.
    Preferred(i32),
}

/// The terms of a pod's `spec.affinity.podAffinity` and `podAntiAffinity`, in spec order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PodAffinity {
    pub(crate) required: SmallVec<[Arc<Term>; 1]>,
    pub(crate) anti_required: SmallVec<[Arc<Term>; 1]>,
    /// Preferred terms of affinity, then of anti-affinity.
    pub(crate) preferred: SmallVec<[Arc<Term>; 1]>,
    /// Why the pod itself is refused: a term that does not parse. Such a term empties its whole list (W-SEL-6).
    pub(crate) invalid: Option<String>,
}

/// Interned terms of all pods.
pub(crate) type TermTable = Table<TermFacts, Term>;

/// Terms compare by id, because equal terms of one table are one term.
impl PartialEq for Term {
    fn eq(&self, other: &Term) -> bool {
        self.id == other.id
    }
}

impl Eq for Term {}

impl Hash for Term {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl TermFacts {
    /// Whether the term matches a pod of this namespace, which has these labels, and with these pod labels (S-IPA-2,
    /// S-IPA-3).
    pub(crate) fn matches(
        &self,
        namespace: Symbol,
        namespace_labels: &Labels,
        labels: &Labels,
    ) -> bool {
        let selects = |selector: &LabelSelector| selector.matches(namespace_labels);
        (self.namespaces.contains(&namespace)
            || self.namespace_selector.as_ref().is_some_and(selects))
            && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

impl PodAffinity {
    /// Compiles the terms of a pod of `namespace`; `None` where the pod has none.
    pub(crate) fn compile(
        affinity: &core_v1::Affinity,
        namespace: Symbol,
        names: &Interner,
        terms: &TermTable,
    ) -> Option<PodAffinity> {
        let mut lists = Lists { namespace, names, terms, invalid: None };
        let (mut required, mut anti_required) = (SmallVec::new(), SmallVec::new());
        let mut preferred = SmallVec::new();
        if let Some(near) = &affinity.pod_affinity {
            let list = &near.required_during_scheduling_ignored_during_execution;
            required = lists.required("podAffinity", list, TermKind::RequiredAffinity);
            let list = &near.preferred_during_scheduling_ignored_during_execution;
            preferred.extend(lists.preferred("podAffinity", list, 1));
        }
        if let Some(far) = &affinity.pod_anti_affinity {
            let list = &far.required_during_scheduling_ignored_during_execution;
            anti_required = lists.required("podAntiAffinity", list, TermKind::RequiredAntiAffinity);
            let list = &far.preferred_during_scheduling_ignored_during_execution;
            preferred.extend(lists.preferred("podAntiAffinity", list, -1));
        }
        let invalid = lists.invalid;
        let compiled = PodAffinity { required, anti_required, preferred, invalid };
        (!compiled.is_empty()).then_some(compiled)
    }

    /// All terms, of every kind.
    pub(crate) fn terms(&self) -> impl Iterator<Item = &Arc<Term>> {
        self.required.iter().chain(&self.anti_required).chain(&self.preferred)
    }

    fn is_empty(&self) -> bool {
        self.terms().next().is_none() && self.invalid.is_none()
    }
}

/// Inputs shared by the lists of one pod.
struct Lists<'a> {
    namespace: Symbol,
    names: &'a Interner,
    terms: &'a TermTable,
    invalid: Option<String>,
}

impl Lists<'_> {
    fn required(
        &mut self,
        field: &str,
        list: &[core_v1::PodAffinityTerm],
        kind: TermKind,
    ) -> SmallVec<[Arc<Term>; 1]> {
        let list: Vec<_> = list.iter().map(|term| (kind, Some(term))).collect();
        self.compile(&format!("{field}.requiredDuringSchedulingIgnoredDuringExecution"), &list)
    }

    fn preferred(
        &mut self,
        field: &str,
        list: &[core_v1::WeightedPodAffinityTerm],
        sign: i32,
    ) -> SmallVec<[Arc<Term>; 1]> {
        let kind = |weight: i32| TermKind::Preferred(sign * weight.clamp(-MAX_WEIGHT, MAX_WEIGHT));
        let list: Vec<_> =
            list.iter().map(|term| (kind(term.weight), term.pod_affinity_term.as_ref())).collect();
        self.compile(&format!("{field}.preferredDuringSchedulingIgnoredDuringExecution"), &list)
    }

    /// Compiles a list; one term that does not parse empties it (W-SEL-6).
    fn compile(
        &mut self,
        field: &str,
        list: &[(TermKind, Option<&core_v1::PodAffinityTerm>)],
    ) -> SmallVec<[Arc<Term>; 1]> {
        let nothing = core_v1::PodAffinityTerm::default();
        let mut compiled = SmallVec::new();
        for (i, (kind, term)) in list.iter().enumerate() {
            match self.term(*kind, term.unwrap_or(&nothing)) {
                Ok(facts) => {
                    let n_bytes = || term.map_or(0, prost::Message::encoded_len);
                    let make = |id, facts| (Term { id: TermId(id), facts }, table_bytes(n_bytes()));
                    compiled.push(self.terms.intern(facts, self.names.lease(), make));
                }
                Err(error) => {
                    let error = error.under(&format!("spec.affinity.{field}[{i}]"));
                    self.invalid.get_or_insert(error.to_string());
                    return SmallVec::new();
                }
            }
        }
        compiled
    }

    fn term(
        &self,
        kind: TermKind,
        term: &core_v1::PodAffinityTerm,
    ) -> Result<TermFacts, ModelError> {
        let compile = |selector: &Option<_>, field: &str| {
            let selector = selector.as_ref();
            let compiled = selector.map(|selector| LabelSelector::compile(selector, self.names));
            compiled.transpose().map_err(|error| error.under(field))
        };
        let mut namespaces: SmallVec<[Symbol; 1]> =
            term.namespaces.iter().map(|name| self.names.intern(name)).collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(self.namespace);
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        Ok(TermFacts {
            kind,
            topology_key: self.names.intern(&term.topology_key),
            namespaces,
            namespace_selector: compile(&term.namespace_selector, "namespaceSelector")?,
            selector: compile(&term.label_selector, "labelSelector")?,
        })
    }
}

/// The largest weight, as in the API; larger weights could overflow a score.
const MAX_WEIGHT: i32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(json: &str) -> (Interner, PodAffinity) {
        let names = Interner::new();
        let affinity: core_v1::Affinity = serde_json::from_str(json).unwrap();
        let namespace = names.intern("mine");
        let compiled = PodAffinity::compile(&affinity, namespace, &names, &TermTable::default());
        (names, compiled.unwrap())
    }

    fn labels(names: &Interner, pairs: &[(&str, &str)]) -> Labels {
        let mut labels: Vec<_> =
            pairs.iter().map(|(k, v)| (names.intern(k), names.intern(v))).collect();
        labels.sort_unstable();
        labels.into()
    }

    /// Empty and absent selectors (W-SEL-7), and which namespace counts (S-IPA-1, S-IPA-3).
    #[test]
    fn empty_is_everything_and_absent_is_nothing() {
        for (term, mine, other, labelled) in [
            (r#"{"topologyKey": "k", "labelSelector": {}}"#, true, false, false),
            (r#"{"topologyKey": "k"}"#, false, false, false),
            (
                r#"{"topologyKey": "k", "labelSelector": {}, "namespaceSelector": {}}"#,
                true,
                true,
                true,
            ),
            (
                r#"{"topologyKey": "k", "labelSelector": {}, "namespaces": ["other"]}"#,
                false,
                true,
                false,
            ),
            (
                r#"{"topologyKey": "k", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "x"}}}"#,
                false,
                false,
                true,
            ),
        ] {
            let list = "requiredDuringSchedulingIgnoredDuringExecution";
            let (names, compiled) =
                compile(&format!(r#"{{"podAntiAffinity": {{"{list}": [{term}]}}}}"#));
            let term = &compiled.anti_required[0].facts;
            let team = labels(&names, &[("team", "x")]);
            for (namespace, of_namespace, expected) in [
                ("mine", Labels::default(), mine),
                ("other", Labels::default(), other),
                ("third", team, labelled),
            ] {
                let pod = labels(&names, &[("app", "a")]);
                let namespace = names.intern(namespace);
                assert_eq!(term.matches(namespace, &of_namespace, &pod), expected, "{term:?}");
            }
        }
    }

    /// A term that does not parse empties its list, but no other list (W-SEL-6).
    #[test]
    fn a_bad_term_empties_its_list() {
        let (_, compiled) = compile(
            r#"{"podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "k", "labelSelector": {}},
                    {"topologyKey": "k", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}],
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 7, "podAffinityTerm": {"topologyKey": "k", "labelSelector": {}}}]},
              "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1000, "podAffinityTerm": {"topologyKey": "k"}}]}}"#,
        );
        assert!(compiled.required.is_empty());
        let kinds: Vec<_> = compiled.preferred.iter().map(|term| term.facts.kind).collect();
        assert_eq!(kinds, [TermKind::Preferred(7), TermKind::Preferred(-100)]);
        let expected = "`spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].labelSelector.\
                        matchExpressions[0].operator`: `Gt` is not a label selector operator";
        assert_eq!(compiled.invalid.as_deref(), Some(expected));
    }
}
