//! Resource: every kind that the feed watches, with its path. A test compares the RBAC rules with these.

use berth_engine::ObjectKind;

/// A kind that is listed and watched, across all namespaces.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Resource {
    /// Nodes.
    Nodes,
    /// Pods.
    Pods,
    /// Any other kind that placement reads.
    Objects(ObjectKind),
}

impl Resource {
    /// Number of kinds.
    pub const N: usize = 2 + ObjectKind::ALL.len();

    /// All kinds, by [`Resource::index`].
    pub const ALL: [Resource; Resource::N] = {
        let mut all = [Resource::Nodes; Resource::N];
        all[1] = Resource::Pods;
        let mut i = 0;
        while i < ObjectKind::ALL.len() {
            all[2 + i] = Resource::Objects(ObjectKind::ALL[i]);
            i += 1;
        }
        all
    };

    /// Index in [`Resource::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Resource::Nodes => 0,
            Resource::Pods => 1,
            Resource::Objects(kind) => 2 + kind as usize,
        }
    }

    /// Kubernetes' name of the kind, for example `CSINode`.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Resource::Nodes => "Node",
            Resource::Pods => "Pod",
            Resource::Objects(kind) => kind.name(),
        }
    }

    /// The API group; empty for the core group.
    #[must_use]
    pub fn group(self) -> &'static str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// Name in paths and RBAC rules, for example `csinodes`.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Resource::Nodes => "nodes",
            Resource::Pods => "pods",
            Resource::Objects(kind) => kind.plural(),
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Resource::Nodes | Resource::Pods => "v1",
            Resource::Objects(kind) => kind.api_version(),
        }
    }

    /// The path of the collection, over all namespaces.
    fn path(self) -> String {
        let root = if self.group().is_empty() { "api" } else { "apis" };
        format!("/{root}/{}/{}", self.api_version(), self.plural())
    }

    /// Target of a page of a list at the newest version: `limit` items at most, from `token` on if there is one.
    pub(super) fn page(self, limit: u32, token: &str) -> String {
        let path = self.path();
        if token.is_empty() {
            format!("{path}?limit={limit}")
        } else {
            format!("{path}?limit={limit}&continue={}", percent_encoded(token))
        }
    }

    /// Target of a list at the newest version as a stream of events, which then continues as a watch (recording 05).
    pub(super) fn streaming_list(self, timeout_seconds: u64) -> String {
        format!(
            "{}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds={timeout_seconds}",
            self.path()
        )
    }

    /// Target of a watch of the changes after `version`.
    pub(super) fn watch(self, version: u64, timeout_seconds: u64) -> String {
        format!(
            "{}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={timeout_seconds}",
            self.path()
        )
    }
}

/// Percent-encodes a text. Continue tokens are base64 today, but nothing guarantees that.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_stands_at_its_index() {
        for (index, resource) in Resource::ALL.into_iter().enumerate() {
            assert_eq!(resource.index(), index, "{}", resource.kind());
        }
    }

    #[test]
    fn targets_are_those_of_the_api() {
        assert_eq!(Resource::Pods.page(500, ""), "/api/v1/pods?limit=500");
        assert_eq!(Resource::Pods.page(5, "a=+/b"), "/api/v1/pods?limit=5&continue=a%3D%2B%2Fb");
        let budgets = Resource::Objects(ObjectKind::PodDisruptionBudget);
        assert_eq!(
            budgets.watch(7, 300),
            "/apis/policy/v1/poddisruptionbudgets?watch=1&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300"
        );
        let classes = Resource::Objects(ObjectKind::StorageClass).streaming_list(9);
        assert!(
            classes.starts_with("/apis/storage.k8s.io/v1/storageclasses?watch=1&"),
            "{classes}"
        );
    }
}
