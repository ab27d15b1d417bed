//! Checks whether a fencing token belongs to a current grant.

use berth_engine::ModelError;
use berth_engine::lifecycle::fence::FenceState;
use berth_proto::berth_v1::{
    CheckTokenRequest, CheckTokenResponse, FenceRecord, IdentityRecord, VolumeRecord,
};

use super::Key;
use super::grants::{Call, GrantError, Grants, name};
use super::reason::STALE_TOKEN;

const CURRENT: &str = "Current";
const KINDS: [&str; 3] = ["identity", "volume", "fence"];

impl Grants {
    /// The method `CheckToken`.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn check_token(
        &self,
        request: &CheckTokenRequest,
        _call: &Call<'_>,
    ) -> Result<CheckTokenResponse, GrantError> {
        let CheckTokenRequest { kind, namespace, name: subject, token } = request;
        if !KINDS.contains(&&**kind) {
            let words = KINDS.join("`, `");
            let reason = match kind.is_empty() {
                true => format!("required: one of `{words}`"),
                false => format!("unknown value `{kind}`: not one of `{words}`"),
            };
            return Err(ModelError::new("kind", reason).into());
        }
        let is_identity = kind == KINDS[0];
        if is_identity {
            name(namespace, "namespace")?;
        } else if !namespace.is_empty() {
            return Err(ModelError::new("namespace", format!("a {kind} has none")).into());
        }
        name(subject, "name")?;
        if *token == 0 {
            return Err(ModelError::new("token", "required").into());
        }
        let holder = if is_identity {
            self.identity_holder(namespace, subject, *token)?
        } else if kind == KINDS[1] {
            self.volume_holder(subject, *token)?
        } else {
            self.fence_holder(subject, *token)?
        };
        let reason = if holder.is_some() { CURRENT } else { STALE_TOKEN };
        let (current, reason) = (holder.is_some(), reason.to_owned());
        let (pod_uid, node_name) = holder.unwrap_or_default();
        Ok(CheckTokenResponse { current, reason, pod_uid, node_name })
    }

    /// Uid and node of the pod that holds a name with this token.
    fn identity_holder(
        &self,
        namespace: &str,
        pod: &str,
        token: u64,
    ) -> Result<Option<(String, String)>, GrantError> {
        let record: IdentityRecord = self.get(&Key::identity(namespace, pod))?;
        let holds = !record.holder_uid.is_empty() && record.token == token;
        Ok(holds.then_some((record.holder_uid, record.node_name)))
    }

    /// Uid and node of the pod that holds a volume with this token.
    fn volume_holder(
        &self,
        volume: &str,
        token: u64,
    ) -> Result<Option<(String, String)>, GrantError> {
        let record: VolumeRecord = self.get(&Key::volume(volume))?;
        let mut holders = record.holders.into_iter();
        let holder = holders.find(|holder| holder.token == token);
        Ok(holder.map(|holder| (holder.pod_uid, holder.node)))
    }

    /// The node that is fenced, or about to be, with this token.
    fn fence_holder(&self, node: &str, token: u64) -> Result<Option<(String, String)>, GrantError> {
        let record: FenceRecord = self.get(&Key::fence(node))?;
        let is_over = [FenceState::Detected.word(), FenceState::Recovered.word(), ""];
        let is_renewal = record.renewal.is_some_and(|renewal| renewal.token == token);
        let holds = is_renewal || record.token == token && !is_over.contains(&&*record.state);
        Ok(holds.then(|| (String::new(), node.to_owned())))
    }
}
