//! A forwarded call: in whose name it is. Only a caller with the role `replica` may speak in another one's name.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use prost::Message;
use tonic::metadata::{BinaryMetadataValue, MetadataMap};

use crate::auth::{AuthError, Caller, Means, Role, Roles};

/// Header with the caller of a forwarded call.
pub(crate) const CALLER: HeaderName = HeaderName::from_static(CALLER_NAME);
const CALLER_NAME: &str = "berth-caller-bin";
/// Header with the name of the replica that has forwarded a call: no call is forwarded twice.
pub(crate) const FORWARDED_BY: HeaderName = HeaderName::from_static("berth-forwarded-by");

/// The caller as the first replica knows it.
#[derive(Clone, PartialEq, Eq, Message)]
struct Original {
    #[prost(string, tag = "1")]
    user: String,
    #[prost(string, repeated, tag = "2")]
    groups: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    roles: Vec<String>,
    #[prost(string, tag = "4")]
    means: String,
}

/// The value of the header [`CALLER`].
pub(crate) fn encode_caller(caller: &Caller) -> Option<HeaderValue> {
    let original = Original {
        user: caller.user.to_string(),
        groups: caller.groups.iter().map(ToString::to_string).collect(),
        roles: caller.roles.names().map(str::to_owned).collect(),
        means: caller.means.name().to_owned(),
    };
    // tonic writes the value as gRPC wants it, in base64.
    let mut metadata = MetadataMap::new();
    let value = BinaryMetadataValue::from_bytes(&original.encode_to_vec());
    metadata.insert_bin(CALLER_NAME, value);
    metadata.into_headers().remove(&CALLER)
}

/// The caller in whose name `sender` calls; `None` if it calls in its own.
///
/// # Errors
/// `PERMISSION_DENIED` without the role `replica`; `UNAUTHENTICATED` for a header that no replica writes.
pub(crate) fn read_caller(
    sender: &Caller,
    headers: &HeaderMap,
) -> Result<Option<Arc<Caller>>, AuthError> {
    if !headers.contains_key(&CALLER) {
        return Ok(None);
    }
    sender.check(Role::Replica)?;
    let malformed = || AuthError::Unauthenticated { reason: "`berth-caller-bin` is malformed" };
    let metadata = MetadataMap::from_headers(headers.clone());
    let value = metadata.get_bin(CALLER_NAME).ok_or_else(malformed)?;
    let bytes = value.to_bytes().map_err(|_| malformed())?;
    let Original { user, groups, roles, means } =
        Original::decode(bytes).map_err(|_| malformed())?;
    // A later version may know more roles; those allow nothing here.
    let roles = roles.iter().filter_map(|name| Role::named(name)).fold(Roles::NONE, Roles::with);
    let means = Means::ALL.into_iter().find(|it| it.name() == means).unwrap_or(Means::Nothing);
    let groups = groups.into_iter().map(Into::into).collect();
    Ok(Some(Arc::new(Caller { user: user.into(), groups, roles, means })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(user: &str, roles: Roles) -> Caller {
        let groups = Box::new(["sre".into()]);
        Caller { user: user.into(), groups, roles, means: Means::Token }
    }

    #[test]
    fn a_caller_is_the_same_at_the_other_replica() {
        let sender = caller("replica-1", Roles::NONE.with(Role::Replica));
        let original = caller("jos\u{e9}", Roles::NONE.with(Role::Scheduler).with(Role::Reader));
        let mut headers = HeaderMap::new();
        assert_eq!(read_caller(&sender, &headers), Ok(None));
        headers.insert(CALLER, encode_caller(&original).unwrap());
        assert_eq!(read_caller(&sender, &headers), Ok(Some(Arc::new(original))));
    }

    #[test]
    fn nobody_else_speaks_in_anothers_name() {
        let original = caller("root", Roles::ALL);
        let mut headers = HeaderMap::new();
        headers.insert(CALLER, encode_caller(&original).unwrap());
        for role in [Role::Reader, Role::Scheduler, Role::Feeder, Role::Lifecycle] {
            let refused = read_caller(&caller("mallory", Roles::NONE.with(role)), &headers);
            let denied = |it: &AuthError| matches!(it, AuthError::PermissionDenied { .. });
            assert!(refused.as_ref().is_err_and(denied), "{refused:?}");
        }
        let sender = caller("replica-1", Roles::NONE.with(Role::Replica));
        for garbage in ["%%%", "AAAA", ""] {
            headers.insert(CALLER, HeaderValue::from_static(garbage));
            let read = read_caller(&sender, &headers);
            // An empty message is a caller without a name and without rights.
            let has_nothing = |it: &Option<Arc<Caller>>| {
                it.as_ref().is_some_and(|it| it.user.is_empty() && it.roles == Roles::NONE)
            };
            assert!(read.is_err() || read.as_ref().is_ok_and(has_nothing), "{read:?}");
        }
    }
}
