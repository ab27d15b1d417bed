//! Files of `deploy/extender` and of the documentation, read by Berth's own strict readers.

use std::path::{Path, PathBuf};

use berth_engine::KubernetesVersion;
use berth_server::config::{Config, Overrides};
use berth_server::policy::{Profiles, decode_text};

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/extender").join(name)
}

/// Each file has the mode of its name and Berth's names of the verbs.
#[test]
fn scheduler_configurations_are_read() {
    let check = |name: &str, is_capable: bool, binds: bool, manages: &[(&str, bool)]| {
        let path = deploy(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let configuration = decode_text(name, &text, KubernetesVersion::default())
            .unwrap_or_else(|error| panic!("{error}"));
        let [extender] = &configuration.extenders[..] else { panic!("{name}: one extender") };
        let manages: Vec<(String, bool)> =
            manages.iter().map(|(name, ignored)| ((*name).to_owned(), *ignored)).collect();
        assert!(extender.url_prefix.ends_with(":7421/extender"), "{name}");
        assert_eq!(extender.filter_verb, "filter", "{name}");
        assert_eq!(extender.prioritize_verb, "prioritize", "{name}");
        assert_eq!(extender.preempt_verb, "preempt", "{name}");
        assert_eq!(extender.bind_verb, if binds { "bind" } else { "" }, "{name}");
        assert_eq!(extender.node_cache_capable, is_capable, "{name}");
        assert_eq!(extender.ignorable, !manages.is_empty(), "{name}");
        assert_eq!(extender.managed_resources, manages, "{name}");
        assert!(extender.weight > 0 && extender.http_timeout_ns >= 1_000_000_000, "{name}");
        // The only part without effect is the extender itself, which Berth does not call.
        Profiles::load(&path, KubernetesVersion::default())
            .unwrap_or_else(|error| panic!("{error}"));
    };
    check("node-cache-capable.yaml", true, false, &[]);
    check("whole-nodes.yaml", false, false, &[]);
    check("bind.yaml", true, true, &[]);
    check("managed-resources.yaml", true, false, &[("example.com/slot", false)]);
    let n_files = std::fs::read_dir(deploy("")).unwrap().count();
    assert_eq!(n_files, 5, "each file here is checked");
}

#[test]
fn the_configuration_of_berth_is_read() {
    let config = Config::resolve(Some(&deploy("berth.yaml")), &Overrides::default());
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let extender = config.extender;
    assert_eq!(extender.max_body_bytes, 64 << 20);
    assert!(extender.filter_plugins.is_some_and(|plugins| !plugins.is_empty()));
    assert!(extender.score_plugins.is_some_and(|plugins| !plugins.is_empty()));
    assert_eq!(extender.profile.as_deref(), Some("default-scheduler"));
}
