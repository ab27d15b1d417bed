//! VolumeBinding: each claim with its volume, or with those that it could get. Rules: S-VLB-4 to S-VLB-7.

use std::sync::Arc;

use super::at::{At, Judged};
use super::comparison::{ClaimStanding, Compared};
use super::wording::requirement;
use crate::model::intern::Interner;
use crate::model::selector::{FieldRequirement, NodeSelector, Term};
use crate::plan::counted::Filtering;
use crate::prepared::volumes::binding::{ClaimOnRow, Standing};

pub(super) fn compare(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let Some(found) = plan.volumes().found() else {
        return Vec::new();
    };
    let names = plan.names();
    let judged = found.binding.claims_on(at.shard, at.row).into_iter().map(|on_row| {
        let (claim, class) = (on_row.claim.key.name.clone(), names.name(on_row.claim.class));
        let is_met = on_row.standing.is_met();
        (is_met, Compared::Claim { claim, class, standing: standing(&on_row, names) })
    });
    judged.collect()
}

fn standing(on_row: &ClaimOnRow<'_>, names: &Interner) -> ClaimStanding {
    match &on_row.standing {
        Standing::Reachable(volume) => ClaimStanding::Reachable { volume: volume.name.clone() },
        Standing::OutOfReach(volume) => ClaimStanding::OutOfReach {
            volume: volume.name.clone(),
            needs: volume.node_affinity.as_ref().map_or_else(|| "".into(), |it| words(it, names)),
        },
        Standing::MissingVolume => {
            let volume = on_row.claim.volume.clone().unwrap_or_else(|| "".into());
            ClaimStanding::MissingVolume { volume }
        }
        Standing::SelectedElsewhere(node) => {
            ClaimStanding::SelectedElsewhere { node: names.name(*node) }
        }
        Standing::WouldBind(volume) => ClaimStanding::WouldBind { volume: volume.name.clone() },
        Standing::WouldProvision => ClaimStanding::WouldProvision,
        Standing::NoVolume => ClaimStanding::NoVolume,
        Standing::NotAllowed(topologies) => {
            ClaimStanding::NotAllowed { needs: words(topologies, names) }
        }
        Standing::NoCapacity(asked) => ClaimStanding::NoCapacity { asked: *asked },
    }
}

/// A selector of nodes in words: requirements joined by `,` and terms by ` or `.
pub(super) fn words(selector: &NodeSelector, names: &Interner) -> Arc<str> {
    let terms: Vec<String> = selector.terms.iter().map(|term| term_words(term, names)).collect();
    if terms.is_empty() { "no label at all".into() } else { terms.join(" or ").into() }
}

fn term_words(term: &Term, names: &Interner) -> String {
    let labels = term.labels.iter().map(|it| requirement(it, names));
    let fields = term.fields.iter().map(|field| match field {
        FieldRequirement::NameIs(name) => format!("metadata.name={}", names.name(*name)),
        FieldRequirement::NameIsNot(name) => format!("metadata.name!={}", names.name(*name)),
        FieldRequirement::Known(_) => "a field that nodes do not have".to_owned(),
    });
    labels.chain(fields).collect::<Vec<_>>().join(",")
}
