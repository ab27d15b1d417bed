//! Restrictions: disks and claims that other pods use exclusively. Rules: S-VLR-1 to S-VLR-3.

use crate::model::key::ClaimKey;
use crate::model::volume::PodVolumes;
use crate::prepared::volumes::lookup::{CLAIMS, not_found};
use crate::rows::NodeRow;
use crate::snapshot::storage::Storage;

/// Facts that VolumeRestrictions needs.
pub(crate) struct Restrictions {
    /// Why the pod as a whole is refused (S-VLR-1).
    pub(crate) refusal: Option<String>,
    /// Rows with a pod that uses one of the pod's disks, sorted (S-VLR-4).
    pub(crate) occupied: Vec<NodeRow>,
    /// Number of the pod's exclusive claims that another pod uses (S-VLR-2).
    pub(crate) n_claims_in_use: i64,
    /// The pod's claims that only one pod may use.
    pub(crate) exclusive: Vec<ClaimKey>,
}

impl Restrictions {
    /// Looks up the uses. Cost: one lookup for each claim, and one step for each row that uses one of the disks.
    pub(super) fn find(storage: &Storage, volumes: &PodVolumes) -> Restrictions {
        let mut occupied: Vec<NodeRow> =
            volumes.disks.iter().flat_map(|disk| storage.disks.conflicts(disk)).collect();
        occupied.sort_unstable();
        occupied.dedup();
        let direct = volumes.claims.iter().filter(|claim| !claim.is_ephemeral());
        let mut refusal = None;
        let mut exclusive: Vec<ClaimKey> = Vec::new();
        for claim in direct {
            match storage.claims.get(&claim.key) {
                None => {
                    refusal = Some(not_found(CLAIMS, &claim.key.name));
                    break;
                }
                Some(known) if known.access_modes.has_read_write_once_pod() => {
                    if !exclusive.contains(&claim.key) {
                        exclusive.push(claim.key.clone());
                    }
                }
                Some(_) => {}
            }
        }
        Restrictions {
            refusal,
            occupied,
            n_claims_in_use: exclusive.iter().filter(|key| storage.claims.is_used(key)).count()
                as i64,
            exclusive,
        }
    }
}
