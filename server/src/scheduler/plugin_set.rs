//! Plugin set: plugins as bits.

use berth_engine::Plugin;

/// A set of plugins.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSet(u32);

impl PluginSet {
    /// The empty set.
    pub const NONE: PluginSet = PluginSet(0);

    /// The set of these plugins.
    #[must_use]
    pub fn of(plugins: impl IntoIterator<Item = Plugin>) -> PluginSet {
        PluginSet(plugins.into_iter().fold(0, |bits, plugin| bits | 1 << plugin as u32))
    }

    /// Whether the set holds the plugin.
    #[must_use]
    pub fn contains(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u32) != 0
    }
}

const _: () = assert!(Plugin::ALL.len() <= 32, "a plugin is a bit");
