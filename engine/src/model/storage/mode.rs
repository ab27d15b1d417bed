//! How volumes are used: access modes and volume modes (S-VLB-6, S-VLR-2).

use crate::model::ModelError;
use crate::model::label::clip;

/// A set of access modes.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct AccessModes(u8);

const ACCESS_MODES: [&str; 4] =
    ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];

impl AccessModes {
    /// Reads `spec.accessModes`.
    pub(crate) fn compile(modes: &[String]) -> Result<AccessModes, ModelError> {
        let mut set = AccessModes::default();
        for (i, mode) in modes.iter().enumerate() {
            let Some(bit) = ACCESS_MODES.iter().position(|known| known == mode) else {
                let reason = format!("`{}` is not an access mode", clip(mode));
                return Err(ModelError::new(format!("spec.accessModes[{i}]"), reason));
            };
            set.0 |= 1 << bit;
        }
        Ok(set)
    }

    /// Whether the set contains every mode of `others`.
    pub(crate) fn contains_all(self, others: AccessModes) -> bool {
        self.0 & others.0 == others.0
    }

    /// The names of the modes, in a fixed order.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let has = move |(bit, _): &(usize, &str)| self.0 & 1 << bit != 0;
        ACCESS_MODES.into_iter().enumerate().filter(has).map(|(_, name)| name)
    }

    /// Whether only one pod may use the volume.
    pub(crate) fn has_read_write_once_pod(self) -> bool {
        self.0 & 1 << 3 != 0
    }
}

/// How a pod uses the volume.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum VolumeMode {
    Filesystem,
    Block,
}

impl VolumeMode {
    /// Reads `spec.volumeMode`; absent means `Filesystem`.
    pub(crate) fn compile(mode: Option<&str>) -> Result<VolumeMode, ModelError> {
        match mode {
            None | Some("Filesystem") => Ok(VolumeMode::Filesystem),
            Some("Block") => Ok(VolumeMode::Block),
            Some(other) => {
                let reason = format!("`{}` is not a volume mode", clip(other));
                Err(ModelError::new("spec.volumeMode", reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_modes_are_a_set() {
        let modes = |list: &[&str]| {
            AccessModes::compile(&list.iter().map(|m| (*m).to_owned()).collect::<Vec<_>>())
        };
        let two = modes(&["ReadWriteOnce", "ReadWriteMany"]).unwrap();
        assert!(two.contains_all(modes(&["ReadWriteMany"]).unwrap()));
        assert!(!two.contains_all(modes(&["ReadOnlyMany"]).unwrap()));
        assert!(two.contains_all(modes(&[]).unwrap()) && !two.has_read_write_once_pod());
        assert!(modes(&["ReadWriteOncePod"]).unwrap().has_read_write_once_pod());
        assert_eq!(two.names().collect::<Vec<_>>(), ["ReadWriteOnce", "ReadWriteMany"]);
        let error = modes(&["ReadWriteOnce", "Mine"]).unwrap_err();
        assert_eq!(error.to_string(), "`spec.accessModes[1]`: `Mine` is not an access mode");
    }

    #[test]
    fn volume_modes() {
        assert_eq!(VolumeMode::compile(None), VolumeMode::compile(Some("Filesystem")));
        assert_eq!(VolumeMode::compile(Some("Block")), Ok(VolumeMode::Block));
        assert_eq!(VolumeMode::compile(Some("")).unwrap_err().field, "spec.volumeMode");
    }
}
