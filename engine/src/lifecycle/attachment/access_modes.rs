//! Access modes of a volume, and whether several nodes may hold it.

use berth_proto::berth_v1::{MultiAttachAllowedRequest, MultiAttachAllowedResponse};

use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// One of Kubernetes' access modes.
    enum AccessMode {
        /// Reads and writes on one node.
        ReadWriteOnce = "ReadWriteOnce",
        /// Reads on many nodes.
        ReadOnlyMany = "ReadOnlyMany",
        /// Reads and writes on many nodes.
        ReadWriteMany = "ReadWriteMany",
        /// Reads and writes by one pod.
        ReadWriteOncePod = "ReadWriteOncePod",
    }
}

/// A set of access modes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessModes {
    bits: u8,
}

impl AccessModes {
    /// Parses the wire's names of access modes, in any order.
    ///
    /// # Errors
    /// [`ModelError`] at `accessModes[i]` for an unknown access mode.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<AccessModes, ModelError> {
        let mut bits = 0;
        for (index, word) in words.iter().enumerate() {
            let mode = AccessMode::parse(word.as_ref(), &format!("accessModes[{index}]"))?;
            bits |= bit(mode);
        }
        Ok(AccessModes { bits })
    }

    /// The wire's names of the modes, in a fixed order.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        let modes = [
            AccessMode::ReadWriteOnce,
            AccessMode::ReadOnlyMany,
            AccessMode::ReadWriteMany,
            AccessMode::ReadWriteOncePod,
        ];
        modes.into_iter().filter(|mode| self.contains(*mode)).map(AccessMode::word).collect()
    }

    /// Whether several nodes may hold the volume at once (L-VOL-5). Without any mode the backend decides, so this is
    /// true.
    #[must_use]
    pub const fn allows_multi_attach(self) -> bool {
        self.bits == 0
            || self.contains(AccessMode::ReadWriteMany)
            || self.contains(AccessMode::ReadOnlyMany)
    }

    /// Whether at most one pod may hold the volume (L-VOL-4).
    #[must_use]
    pub const fn is_one_pod_only(self) -> bool {
        self.contains(AccessMode::ReadWriteOncePod)
    }

    const fn contains(self, mode: AccessMode) -> bool {
        self.bits & bit(mode) != 0
    }
}

const fn bit(mode: AccessMode) -> u8 {
    1 << mode as u8
}

/// `MultiAttachAllowed`: whether access modes allow several nodes to hold a volume (L-VOL-5).
///
/// # Errors
/// [`ModelError`] at `accessModes[i]` for an unknown access mode.
pub fn multi_attach_allowed(
    request: &MultiAttachAllowedRequest,
) -> Result<MultiAttachAllowedResponse, ModelError> {
    let modes = AccessModes::parse(&request.access_modes)?;
    Ok(MultiAttachAllowedResponse { allowed: modes.allows_multi_attach() })
}

#[cfg(test)]
mod tests {
    use super::{AccessModes, multi_attach_allowed};
    use berth_proto::berth_v1::MultiAttachAllowedRequest;

    #[test]
    fn modes_are_a_set() {
        // L-VOL-5
        let modes = AccessModes::parse(&["ReadWriteMany", "ReadWriteOnce", "ReadWriteMany"]);
        let modes = modes.unwrap();
        assert_eq!(modes.words(), ["ReadWriteOnce", "ReadWriteMany"]);
        assert!(modes.allows_multi_attach() && !modes.is_one_pod_only());
        assert!(AccessModes::default().allows_multi_attach());
        assert!(AccessModes::parse(&["ReadWriteOncePod"]).unwrap().is_one_pod_only());
    }

    #[test]
    fn errors_name_the_field() {
        let access_modes = vec!["ReadWriteOnce".to_owned(), "RWX".to_owned()];
        let request = MultiAttachAllowedRequest { access_modes };
        assert_eq!(
            multi_attach_allowed(&request).unwrap_err().to_string(),
            "`accessModes[1]`: unknown value `RWX`: not one of `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany`, \
             `ReadWriteOncePod`"
        );
    }
}
