//! Ledger grants: acquires and releases a few names and volumes, and compares the ledger's records with its earlier
//! responses.

use berth_proto::berth_v1::{
    AcquireIdentityRequest, AttachVolumeRequest, CheckTokenRequest, DetachVolumeRequest,
    GetIdentityRequest, GetVolumeRequest, RecordIdentityEventRequest,
};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::Actor;
use crate::soak::names::{Names, random_stream};
use crate::soak::world::World;

const NAMESPACE: &str = "soak";
const ACTOR: &str = "berth-loadgen soak";
const NODE: &str = "soak-node";
const N_NAMES: usize = 8;

/// A name's lock and a volume of the same name.
#[derive(Debug, Clone, Default)]
struct Slot {
    identity: Grant,
    volume: Grant,
}

/// State of a grant according to the responses.
#[derive(Debug, Clone, Default)]
enum Grant {
    /// The initial state, and the state after a failed call: the ledger's record is read next.
    #[default]
    Unknown,
    Free,
    Held {
        uid: String,
        token: u64,
    },
}

/// The actor of ledger calls. No other caller may use its names.
pub(super) struct LedgerGrants {
    rng: ChaCha8Rng,
    names: Names,
    slots: Vec<Slot>,
    /// The highest token granted so far.
    highest_token: u64,
}

impl LedgerGrants {
    pub(super) fn new(seed: u64) -> LedgerGrants {
        let slots = vec![Slot::default(); N_NAMES];
        LedgerGrants {
            rng: random_stream(seed, 6),
            names: Names::new("ledger"),
            slots,
            highest_token: 0,
        }
    }

    /// Records a granted token, which must be higher than all earlier ones.
    fn granted(&mut self, world: &World, what: &str, uid: String, token: u64) -> Grant {
        if token <= self.highest_token {
            let highest = self.highest_token;
            world.differs(format!("{what} was granted token {token} after {highest}"));
        }
        self.highest_token = self.highest_token.max(token);
        Grant::Held { uid, token }
    }

    /// Reads the ledger's record of the name.
    async fn look_up_identity(&self, world: &World, name: &str) -> Grant {
        let request = GetIdentityRequest { namespace: NAMESPACE.into(), name: name.to_owned() };
        let mut lifecycle = world.client.lifecycle();
        match world.call("GetIdentity", lifecycle.get_identity(request)).await {
            Ok(answer) => match answer.record.unwrap_or_default() {
                record if record.holder_uid.is_empty() => Grant::Free,
                record => Grant::Held { uid: record.holder_uid, token: record.token },
            },
            Err(_) => Grant::Unknown,
        }
    }

    async fn acquire(&mut self, world: &World, name: &str) -> Grant {
        let uid = self.names.next();
        let request = AcquireIdentityRequest {
            namespace: NAMESPACE.into(),
            name: name.to_owned(),
            uid: uid.clone(),
            node_name: NODE.into(),
            actor: ACTOR.into(),
        };
        let mut lifecycle = world.client.lifecycle();
        match world.call("AcquireIdentity", lifecycle.acquire_identity(request)).await {
            Ok(answer) if answer.outcome == "Granted" => {
                self.granted(world, name, uid, answer.token)
            }
            Ok(answer) => {
                world.differs(format!("`{name}` was free and is {}", answer.outcome));
                Grant::Unknown
            }
            Err(_) => Grant::Unknown,
        }
    }

    async fn release(&self, world: &World, name: &str, uid: String, token: u64) -> Grant {
        let request = RecordIdentityEventRequest {
            namespace: NAMESPACE.into(),
            name: name.to_owned(),
            uid,
            r#type: "RemovedByNodeAgent".into(),
            token,
            actor: ACTOR.into(),
            ..RecordIdentityEventRequest::default()
        };
        let mut lifecycle = world.client.lifecycle();
        match world.call("RecordIdentityEvent", lifecycle.record_identity_event(request)).await {
            Ok(answer) if answer.outcome == "Released" => Grant::Free,
            Ok(answer) => {
                world.differs(format!("`{name}` was not released: {}", answer.outcome));
                Grant::Unknown
            }
            Err(_) => Grant::Unknown,
        }
    }

    /// Checks that another pod cannot acquire a held name, and that its token is current.
    async fn verify(&mut self, world: &World, name: &str, uid: &str, token: u64) {
        let mut lifecycle = world.client.lifecycle();
        let other = AcquireIdentityRequest {
            namespace: NAMESPACE.into(),
            name: name.to_owned(),
            uid: self.names.next(),
            node_name: NODE.into(),
            actor: ACTOR.into(),
        };
        if let Ok(answer) = world.call("AcquireIdentity", lifecycle.acquire_identity(other)).await
            && answer.outcome != "HeldByOther"
        {
            world.differs(format!(
                "`{name}` is held by {uid}, but another pod was {}",
                answer.outcome
            ));
        }
        let request = CheckTokenRequest {
            kind: "identity".into(),
            namespace: NAMESPACE.into(),
            name: name.to_owned(),
            token,
        };
        if let Ok(answer) = world.call("CheckToken", lifecycle.check_token(request)).await
            && (!answer.current || answer.pod_uid != uid)
        {
            world.differs(format!("token {token} of `{name}` is not current: {answer:?}"));
        }
    }

    async fn step_identity(&mut self, world: &World, name: &str, grant: Grant) -> Grant {
        match grant {
            Grant::Unknown => self.look_up_identity(world, name).await,
            Grant::Free => self.acquire(world, name).await,
            Grant::Held { uid, token } if self.rng.random_bool(0.5) => {
                self.verify(world, name, &uid, token).await;
                Grant::Held { uid, token }
            }
            Grant::Held { uid, token } => self.release(world, name, uid, token).await,
        }
    }

    async fn step_volume(&mut self, world: &World, volume: &str, grant: Grant) -> Grant {
        let mut lifecycle = world.client.lifecycle();
        match grant {
            Grant::Unknown => {
                let request = GetVolumeRequest { volume: volume.to_owned() };
                match world.call("GetVolume", lifecycle.get_volume(request)).await {
                    Ok(answer) => match answer.record.unwrap_or_default().holders.pop() {
                        None => Grant::Free,
                        Some(held) => Grant::Held { uid: held.pod_uid, token: held.token },
                    },
                    Err(_) => Grant::Unknown,
                }
            }
            Grant::Free => {
                let uid = self.names.next();
                let request = AttachVolumeRequest {
                    volume: volume.to_owned(),
                    access_modes: vec!["ReadWriteOncePod".into()],
                    node: NODE.into(),
                    pod_uid: uid.clone(),
                    expected_version: None,
                    actor: ACTOR.into(),
                };
                match world.call("AttachVolume", lifecycle.attach_volume(request)).await {
                    Ok(answer) if answer.ok => self.granted(world, volume, uid, answer.token),
                    Ok(answer) => {
                        world.differs(format!("`{volume}` was free: {}", answer.reason));
                        Grant::Unknown
                    }
                    Err(_) => Grant::Unknown,
                }
            }
            Grant::Held { uid, token } => {
                let request = DetachVolumeRequest {
                    volume: volume.to_owned(),
                    node: NODE.into(),
                    pod_uid: uid,
                    expected_version: None,
                    pod_gone: true,
                    mounted: Some(false),
                    token,
                    actor: ACTOR.into(),
                };
                match world.call("DetachVolume", lifecycle.detach_volume(request)).await {
                    Ok(answer) if answer.ok => Grant::Free,
                    Ok(answer) => {
                        world.differs(format!("`{volume}` was not detached: {}", answer.reason));
                        Grant::Unknown
                    }
                    Err(_) => Grant::Unknown,
                }
            }
        }
    }
}

impl Actor for LedgerGrants {
    fn name(&self) -> &'static str {
        "ledger"
    }

    async fn step(&mut self, world: &World) {
        let n = self.rng.random_range(0..self.slots.len());
        let Slot { identity, volume } = self.slots[n].clone();
        let slot = if self.rng.random_bool(0.5) {
            Slot {
                identity: self.step_identity(world, &format!("soak-{n}"), identity).await,
                volume,
            }
        } else {
            Slot { identity, volume: self.step_volume(world, &format!("soak-{n}"), volume).await }
        };
        self.slots[n] = slot;
    }
}
