//! Claims for devices (group `claim`): which reservations have ended, and what that frees. The rules are those of
//! kube-controller-manager's controller for ResourceClaims.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::berth_v1::{
    ClaimRelease, EndedReservation, FreedDevice, ReleaseClaimsRequest, ReleaseClaimsResponse,
};
use berth_proto::core_v1::Pod;
use berth_proto::meta_v1::ObjectMeta;
use berth_proto::resource_v1::{
    ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus,
};

use super::listed::refuse_duplicates;
use super::reading::{self, given_text, in_list};
use super::word::words;
use crate::devices::pre_bind::DELETE_PROTECTION;
use crate::model::ModelError;

words! {
    /// Why a pod does not need a claim any more (L-CLAIM-1).
    enum EndReason {
        /// The pod does not exist any more.
        PodGone = "PodGone",
        /// Another pod has the name now.
        PodReplaced = "PodReplaced",
        /// The pod is in a terminal phase.
        PodEnded = "PodEnded",
        /// The pod is marked for deletion and was never bound.
        NeverBound = "NeverBound",
    }
}

/// What is known of a pod that has a reservation.
enum Standing {
    Needs,
    Ended(EndReason),
    /// Neither listed nor known to be absent (L-CLAIM-2).
    Unknown,
}

/// The listed pods by namespace and name, each with its reason to need no claim; and the UIDs of those that are absent.
struct Pods<'a> {
    by_name: BTreeMap<(&'a str, &'a str), (&'a str, Option<EndReason>)>,
    absent: BTreeSet<&'a str>,
}

/// `ReleaseClaims` (L-CLAIM-1 to L-CLAIM-7). The response does not depend on the order of the pods. Cost: a look-up for
/// each reservation.
///
/// # Errors
/// [`ModelError`] for a pod or claim without a name, a duplicate pod, an unknown phase, and a reservation without a UID.
pub fn release_claims(request: &ReleaseClaimsRequest) -> Result<ReleaseClaimsResponse, ModelError> {
    let pods = Pods::read(request)?;
    let mut claims = Vec::new();
    for (index, claim) in request.claims.iter().enumerate() {
        let release = in_list("claims", index, release(claim, &pods))?;
        claims.extend(release.filter(changes));
    }
    Ok(ReleaseClaimsResponse { claims })
}

/// Whether anything is written or has to be read.
fn changes(release: &ClaimRelease) -> bool {
    let ClaimRelease { ended, unknown_pods, deallocate, remove_finalizer, delete, .. } = release;
    !ended.is_empty() || !unknown_pods.is_empty() || *deallocate || *remove_finalizer || *delete
}

fn release(claim: &ResourceClaim, pods: &Pods<'_>) -> Result<Option<ClaimRelease>, ModelError> {
    let Some(meta) = &claim.metadata else {
        return Err(ModelError::new("metadata.name", "required"));
    };
    given_text(&meta.name, "metadata.name")?;
    let namespace = reading::namespace(&meta.namespace);
    let reserved = claim.status.as_ref().map_or(&[][..], |status| &status.reserved_for);
    let mut release = ClaimRelease {
        claim: meta.name.clone(),
        namespace: namespace.to_owned(),
        uid: meta.uid.clone(),
        ..ClaimRelease::default()
    };
    for (index, user) in reserved.iter().enumerate() {
        if !is_pod(user) {
            // What another consumer needs is not known: the claim stays as it is (L-CLAIM-3).
            return Ok(None);
        }
        let field = || format!("status.reservedFor[{index}].uid");
        if user.uid.is_empty() {
            return Err(ModelError::new(field(), "required"));
        }
        match pods.standing(namespace, user) {
            Standing::Needs => {}
            Standing::Unknown => release.unknown_pods.push(user.uid.clone()),
            Standing::Ended(reason) => release.ended.push(EndedReservation {
                pod: user.name.clone(),
                uid: user.uid.clone(),
                reason: reason.word().to_owned(),
            }),
        }
    }
    if release.ended.len() == reserved.len() {
        let is_marked = reading::optional(meta.deletion_timestamp.as_ref()).is_some();
        if is_marked || !release.ended.is_empty() {
            free(claim, meta, &mut release);
        }
        release.delete = !is_marked && pods.owner_is_done(namespace, meta);
    }
    Ok(Some(release))
}

/// Frees what a claim that has no users any more holds (L-CLAIM-4 to L-CLAIM-6).
fn free(claim: &ResourceClaim, meta: &ObjectMeta, release: &mut ClaimRelease) {
    let is_protected = meta.finalizers.iter().any(|finalizer| finalizer == DELETE_PROTECTION);
    release.remove_finalizer = is_protected;
    if let Some(status) = claim.status.as_ref().filter(|_| is_protected) {
        release.deallocate = status.allocation.is_some();
        release.devices = devices(status);
    }
}

/// The devices of an allocation, without those that it only looks at.
fn devices(status: &ResourceClaimStatus) -> Vec<FreedDevice> {
    let allocated = status.allocation.as_ref().and_then(|allocation| allocation.devices.as_ref());
    let results = allocated.map_or(&[][..], |devices| &devices.results).iter();
    let taken = results.filter(|result| result.admin_access != Some(true));
    let freed = taken.map(|result| FreedDevice {
        driver: result.driver.clone(),
        pool: result.pool.clone(),
        device: result.device.clone(),
        share_id: result.share_id.clone().unwrap_or_default(),
    });
    freed.collect()
}

fn is_pod(user: &ResourceClaimConsumerReference) -> bool {
    user.api_group.is_empty() && user.resource == "pods"
}

impl<'a> Pods<'a> {
    fn read(request: &'a ReleaseClaimsRequest) -> Result<Pods<'a>, ModelError> {
        let mut by_name = BTreeMap::new();
        for (index, pod) in request.pods.iter().enumerate() {
            let (name, facts) = in_list("pods", index, facts(pod))?;
            by_name.insert(name, facts);
        }
        refuse_duplicates(request.pods.iter(), "metadata.name")?;
        Ok(Pods { by_name, absent: request.absent_pods.iter().map(String::as_str).collect() })
    }

    fn standing(&self, namespace: &str, user: &ResourceClaimConsumerReference) -> Standing {
        if self.absent.contains(&*user.uid) {
            return Standing::Ended(EndReason::PodGone);
        }
        match self.by_name.get(&(namespace, &*user.name)) {
            None => Standing::Unknown,
            Some((uid, _)) if **uid != *user.uid => Standing::Ended(EndReason::PodReplaced),
            Some((_, Some(reason))) => Standing::Ended(*reason),
            Some((_, None)) => Standing::Needs,
        }
    }

    /// Whether the claim was made for a pod that is done or replaced (L-CLAIM-7). The claim of a pod that is gone is
    /// left to the garbage collector.
    fn owner_is_done(&self, namespace: &str, meta: &ObjectMeta) -> bool {
        let Some(owner) = meta.controller() else { return false };
        if (&*owner.kind, &*owner.api_version) != ("Pod", "v1") {
            return false;
        }
        let pod = self.by_name.get(&(namespace, &*owner.name));
        pod.is_some_and(|(uid, reason)| **uid != *owner.uid || reason.is_some())
    }
}

/// Namespace and name of a pod, its UID, and its reason to need no claim.
type Facts<'a> = ((&'a str, &'a str), (&'a str, Option<EndReason>));

fn facts(pod: &Pod) -> Result<Facts<'_>, ModelError> {
    let meta = reading::meta(pod);
    let name = given_text(&meta.name, "metadata.name")?;
    let reason = if reading::phase(pod)?.is_terminal() {
        Some(EndReason::PodEnded)
    } else if reading::is_marked(pod) && reading::node_name(pod).is_none() {
        Some(EndReason::NeverBound)
    } else {
        None
    };
    Ok(((reading::namespace(&meta.namespace), name), (meta.uid.as_str(), reason)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, phase: &str) -> Value {
        json!({"metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": {"nodeName": "n"},
            "status": {"phase": phase}})
    }

    /// An allocated claim that these pods use.
    fn claim(users: &[&str]) -> Value {
        let user =
            |name: &&str| json!({"resource": "pods", "name": name, "uid": format!("uid-{name}")});
        let device =
            |name: &str| json!({"request": "r", "driver": "d", "pool": "p", "device": name});
        let mut looked_at = device("b");
        looked_at["adminAccess"] = true.into();
        json!({"metadata": {"name": "c", "finalizers": ["other", DELETE_PROTECTION]},
            "status": {"reservedFor": users.iter().map(user).collect::<Vec<_>>(),
                "allocation": {"devices": {"results": [device("a"), looked_at]}}}})
    }

    fn ask(claim: &Value, pods: &Value, absent: &[&str]) -> ReleaseClaimsResponse {
        release_claims(&request(claim, pods, absent)).unwrap()
    }

    fn request(claim: &Value, pods: &Value, absent: &[&str]) -> ReleaseClaimsRequest {
        ReleaseClaimsRequest {
            claims: vec![serde_json::from_value(claim.clone()).unwrap()],
            pods: serde_json::from_value(pods.clone()).unwrap(),
            absent_pods: absent.iter().map(|uid| (*uid).to_owned()).collect(),
        }
    }

    /// The reservations that end, then `free`, `finalizer`, `delete` as far as they happen, then devices.
    fn told(response: &ReleaseClaimsResponse) -> Vec<String> {
        let [release] = &*response.claims else { return Vec::new() };
        let ended = release.ended.iter().map(|ended| format!("{} {}", ended.pod, ended.reason));
        let unknown = release.unknown_pods.iter().map(|uid| format!("{uid}?"));
        let acts = [
            (release.deallocate, "free"),
            (release.remove_finalizer, "finalizer"),
            (release.delete, "delete"),
        ];
        let acts = acts.into_iter().filter(|(acts, _)| *acts).map(|(_, word)| word.to_owned());
        let devices = release.devices.iter();
        let devices =
            devices.map(|device| format!("{}/{}/{}", device.driver, device.pool, device.device));
        ended.chain(unknown).chain(acts).chain(devices).collect()
    }

    /// L-CLAIM-1, L-CLAIM-4, L-CLAIM-6: the last user's end frees the claim, in each of four ways.
    #[test]
    fn the_last_user_frees_the_claim() {
        let freed = |reason: &str| {
            vec![format!("p {reason}"), "free".into(), "finalizer".into(), "d/p/a".into()]
        };
        let used = claim(&["p"]);
        for phase in ["Succeeded", "Failed"] {
            assert_eq!(told(&ask(&used, &json!([pod("p", phase)]), &[])), freed("PodEnded"));
        }
        assert_eq!(told(&ask(&used, &json!([]), &["uid-p"])), freed("PodGone"));
        let mut replaced = pod("p", "Running");
        replaced["metadata"]["uid"] = "other".into();
        assert_eq!(told(&ask(&used, &json!([replaced]), &[])), freed("PodReplaced"));
        let mut unbound = pod("p", "Pending");
        unbound["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(told(&ask(&used, &json!([unbound]), &[])), Vec::<String>::new());
        unbound["spec"] = json!({});
        assert_eq!(told(&ask(&used, &json!([unbound]), &[])), freed("NeverBound"));
    }

    /// L-CLAIM-1, L-CLAIM-2: a user that needs the claim, or of which nothing is known, keeps it allocated.
    #[test]
    fn another_user_keeps_the_claim() {
        let used = claim(&["p", "q"]);
        let pods = json!([pod("p", "Succeeded"), pod("q", "Running")]);
        assert_eq!(told(&ask(&used, &pods, &[])), ["p PodEnded"]);
        assert_eq!(told(&ask(&used, &json!([pod("p", "Failed")]), &[])), ["p PodEnded", "uid-q?"]);
        let running = json!([pod("p", "Running"), pod("q", "Unknown")]);
        assert_eq!(ask(&used, &running, &[]).claims, []);
    }

    /// L-CLAIM-3: what is not a pod is not judged, and nobody else's reservation is touched meanwhile.
    #[test]
    fn an_unknown_kind_of_user_keeps_everything() {
        let mut used = claim(&["p", "q"]);
        used["status"]["reservedFor"][1]["apiGroup"] = "example.com".into();
        assert_eq!(ask(&used, &json!([]), &["uid-p", "uid-q"]).claims, []);
    }

    /// L-CLAIM-5: without users an allocation stays, unless the claim is being deleted.
    #[test]
    fn an_allocation_that_nobody_used_yet_stays() {
        let mut unused = claim(&[]);
        assert_eq!(ask(&unused, &json!([]), &[]).claims, []);
        unused["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(told(&ask(&unused, &json!([]), &[])), ["free", "finalizer", "d/p/a"]);
        unused["status"] = json!({});
        assert_eq!(told(&ask(&unused, &json!([]), &[])), ["finalizer"]);
        unused = claim(&["p"]);
        unused["status"]["allocation"] = Value::Null;
        assert_eq!(told(&ask(&unused, &json!([]), &["uid-p"])), ["p PodGone", "finalizer"]);
    }

    /// L-CLAIM-4: whoever allocated the claim without the finalizer frees it.
    #[test]
    fn an_allocation_without_the_finalizer_stays() {
        let mut foreign = claim(&["p"]);
        foreign["metadata"]["finalizers"] = json!(["other"]);
        assert_eq!(told(&ask(&foreign, &json!([]), &["uid-p"])), ["p PodGone"]);
    }

    /// L-CLAIM-7: a claim made for a pod goes when the pod is done or another pod has its name.
    #[test]
    fn a_claim_made_for_a_pod_goes_with_it() {
        let mut made = claim(&["p"]);
        made["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": true}]);
        let ended = json!([pod("p", "Succeeded")]);
        let expected = ["p PodEnded", "free", "finalizer", "delete", "d/p/a"];
        assert_eq!(told(&ask(&made, &ended, &[])), expected);
        // Released before, and the pod still there.
        made["status"] = json!({});
        made["metadata"]["finalizers"] = json!([]);
        assert_eq!(told(&ask(&made, &ended, &[])), ["delete"]);
        assert_eq!(ask(&made, &json!([pod("p", "Running")]), &[]).claims, []);
        assert_eq!(ask(&made, &json!([]), &["uid-p"]).claims, [], "left to the garbage collector");
        made["metadata"]["ownerReferences"][0]["uid"] = "uid-older".into();
        assert_eq!(told(&ask(&made, &json!([pod("p", "Running")]), &[])), ["delete"]);
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(ask(&made, &ended, &[]).claims, [], "deleted once");
    }

    #[test]
    fn bad_input_is_refused_with_its_field() {
        let refused = |claim: &Value, pods: &Value| {
            release_claims(&request(claim, pods, &[])).unwrap_err().to_string()
        };
        assert_eq!(refused(&json!({}), &json!([])), "`claims[0].metadata.name`: required");
        let mut nameless = claim(&["p"]);
        nameless["status"]["reservedFor"][0]["uid"] = "".into();
        let expected = "`claims[0].status.reservedFor[0].uid`: required";
        assert_eq!(refused(&nameless, &json!([])), expected);
        let twice = json!([pod("p", "Running"), pod("p", "Running")]);
        let expected = "`pods[1].metadata.name`: `default/p` is a duplicate of `pods[0]`";
        assert_eq!(refused(&claim(&[]), &twice), expected);
        assert!(
            refused(&claim(&[]), &json!([pod("p", "Dead")])).starts_with("`pods[0].status.phase`")
        );
    }
}
