//! ServiceAccount: the account of a pod, under its name and its old one. Rule: A-SA-1.

use berth_proto::core_v1::Pod;

use super::filling::Filling;

/// Account of a pod that names none.
const DEFAULT_ACCOUNT: &str = "default";

pub(super) fn fill(pod: &mut Pod, filling: &mut Filling) {
    let Some(spec) = &mut pod.spec else { return };
    let (account, source) = match (&*spec.service_account_name, &*spec.service_account) {
        ("", "") => (DEFAULT_ACCOUNT, "ServiceAccount"),
        ("", old) => (old, "serviceAccount"),
        (name, _) => (name, "serviceAccountName"),
    };
    let account = account.to_owned();
    for (slot, field) in [
        (&mut spec.service_account_name, "spec.serviceAccountName"),
        (&mut spec.service_account, "spec.serviceAccount"),
    ] {
        if *slot != account {
            slot.clone_from(&account);
            filling.note(field, account.as_str(), source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A-SA-1
    #[test]
    fn both_names_are_equal() {
        for (name, old, expected, n_filled) in [
            ("", "", "default", 2),
            ("", "b", "b", 1),
            ("a", "", "a", 1),
            ("a", "b", "a", 1),
            ("a", "a", "a", 0),
        ] {
            let json = format!(
                r#"{{"spec": {{"serviceAccountName": "{name}", "serviceAccount": "{old}"}}}}"#
            );
            let mut pod: Pod = serde_json::from_str(&json).unwrap();
            let mut filling = Filling::default();
            fill(&mut pod, &mut filling);
            let spec = pod.spec.unwrap();
            assert_eq!((&*spec.service_account_name, &*spec.service_account), (expected, expected));
            assert_eq!(filling.finish().filled.len(), n_filled);
        }
    }
}
