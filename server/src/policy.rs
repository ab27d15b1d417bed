//! KubeSchedulerConfiguration → [`Policy`]: reads the operator's own scheduler file as kube-scheduler does.
//!
//! Rules: section 10 of the scheduling specification. The order is that of S-CFG-4: decode (strictly), default,
//! validate, build; every problem of a stage is reported, and a stage with problems is the last one. An older version
//! is converted to the current one between decoding and validation (S-CFG-9).

use crate::document::decode::Reader;
use crate::document::{ConfigError, Document, Problem};

use berth_engine::{KubernetesVersion, Policy};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub mod args;
mod build;
pub mod configuration;
pub mod extender;
mod node_affinity;
mod older;
pub mod plugins;
pub(crate) mod syntax;
mod validate;
pub mod version;

use configuration::SchedulerConfiguration;

/// The policies of a server by the scheduler name that pods have in their spec (S-Q-2). There is at least one.
#[derive(Clone, Debug)]
pub struct Profiles {
    by_name: BTreeMap<String, Policy>,
    warnings: Vec<String>,
    /// The text that they were read from; empty for default profiles.
    text: Arc<str>,
}

impl Profiles {
    /// Loads the profiles of a file; errors as in [`load`]. Fields without effect are logged as warnings, and kept for
    /// callers that do not log.
    pub fn load(path: &Path, kubernetes: KubernetesVersion) -> Result<Profiles, ConfigError> {
        let origin = path.display().to_string();
        let text = crate::document::read(path)?;
        Profiles::read(&origin, &text, kubernetes)
    }

    /// Reads the profiles of a text like [`Profiles::load`]; `origin` names it in errors and warnings.
    ///
    /// # Errors
    /// Those of [`from_text`].
    pub fn read(
        origin: &str,
        text: &str,
        kubernetes: KubernetesVersion,
    ) -> Result<Profiles, ConfigError> {
        let (policies, vain) = read(origin, text, kubernetes)?;
        let warnings: Vec<String> =
            vain.iter().map(|problem| format!("`{origin}` {problem}")).collect();
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        Ok(Profiles { warnings, text: text.into(), ..Profiles::from(policies) })
    }

    /// The text that the profiles were read from; empty where none was.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The version of Kubernetes whose kube-scheduler all profiles follow.
    pub fn kubernetes(&self) -> KubernetesVersion {
        let first = self.by_name.values().next();
        first.map(|policy| policy.spec().kubernetes_version).unwrap_or_default()
    }

    /// Fields that were accepted and have no effect in Berth, each as a sentence with file, line and field.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Looks up a policy like [`Profiles::get`].
    ///
    /// Errors: the reason why pods of that scheduler are not decided here, with the names of the known profiles.
    pub fn of_scheduler(&self, scheduler_name: &str) -> Result<&Policy, String> {
        self.get(scheduler_name).ok_or_else(|| {
            let is_unnamed = scheduler_name.is_empty();
            let scheduler_name = if is_unnamed { self.usual_name() } else { scheduler_name };
            let known: Vec<String> = self.names().map(|name| format!("`{name}`")).collect();
            format!("no profile is called `{scheduler_name}`; there is {}", known.join(", "))
        })
    }

    /// The policy for pods whose `spec.schedulerName` is `scheduler_name`; empty means [`Profiles::usual_name`].
    pub fn get(&self, scheduler_name: &str) -> Option<&Policy> {
        let is_unnamed = scheduler_name.is_empty();
        self.by_name.get(if is_unnamed { self.usual_name() } else { scheduler_name })
    }

    /// The scheduler of a pod that names none: `default-scheduler`, or the only profile if that has another name.
    pub fn usual_name(&self) -> &str {
        match self.by_name.keys().next() {
            Some(only) if self.by_name.len() == 1 => only,
            Some(_) | None => configuration::DEFAULT_SCHEDULER_NAME,
        }
    }

    /// kube-scheduler's default profile of a version alone, for pods of `scheduler_name`.
    pub fn of_version(scheduler_name: &str, kubernetes: KubernetesVersion) -> Profiles {
        Profiles::from(vec![Policy::of_version(scheduler_name, kubernetes)])
    }

    /// All policies, in the order of their names.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.by_name.values()
    }

    /// All scheduler names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}

impl Default for Profiles {
    /// Profiles with kube-scheduler's default profile alone.
    fn default() -> Profiles {
        Profiles::from(vec![Policy::default()])
    }
}

impl From<Vec<Policy>> for Profiles {
    fn from(policies: Vec<Policy>) -> Profiles {
        let by_name = policies
            .into_iter()
            .map(|policy| (policy.spec().scheduler_name.clone(), policy))
            .collect();
        Profiles { by_name, warnings: Vec::new(), text: Arc::default() }
    }
}

/// One policy per profile, in the file's order, under a version of Kubernetes.
///
/// Errors: an unreadable file, a text that is neither YAML nor JSON, and every problem of the first stage that has any
/// (S-CFG-1 to S-CFG-8), each with line and field path.
pub fn load(path: &Path, kubernetes: KubernetesVersion) -> Result<Vec<Policy>, ConfigError> {
    from_text(&path.display().to_string(), &crate::document::read(path)?, kubernetes)
}

/// Compiles a text like [`load`]; `origin` names it in errors.
pub fn from_text(
    origin: &str,
    text: &str,
    kubernetes: KubernetesVersion,
) -> Result<Vec<Policy>, ConfigError> {
    read(origin, text, kubernetes).map(|(policies, _)| policies)
}

/// Reads the policies, and the fields that have no effect in Berth.
fn read(
    origin: &str,
    text: &str,
    kubernetes: KubernetesVersion,
) -> Result<(Vec<Policy>, Vec<Problem>), ConfigError> {
    let document = crate::document::parse(origin, text)?;
    let configuration = check(origin, &document, kubernetes)?;
    let (policies, problems) = build::build(&configuration, kubernetes);
    crate::document::located(origin, &document, problems)?;
    let vain = crate::document::with_lines(&document, validate::without_effect(&configuration));
    Ok((policies, vain))
}

/// Decodes, defaults and validates without building, for callers that need extenders or the arguments of plugins that
/// no [`Policy`] holds; the first stages of [`from_text`].
pub fn decode_text(
    origin: &str,
    text: &str,
    kubernetes: KubernetesVersion,
) -> Result<SchedulerConfiguration, ConfigError> {
    check(origin, &crate::document::parse(origin, text)?, kubernetes)
}

/// Decodes a file like [`decode_text`].
pub fn read_configuration(
    path: &Path,
    kubernetes: KubernetesVersion,
) -> Result<SchedulerConfiguration, ConfigError> {
    decode_text(&path.display().to_string(), &crate::document::read(path)?, kubernetes)
}

fn check(
    origin: &str,
    document: &Document,
    kubernetes: KubernetesVersion,
) -> Result<SchedulerConfiguration, ConfigError> {
    let reader = Reader::default();
    let mut configuration = configuration::decode(reader.root(document));
    crate::document::located(origin, document, reader.into_problems())?;
    crate::document::located(origin, document, older::convert(&mut configuration))?;
    crate::document::located(origin, document, validate::validate(&configuration, kubernetes))?;
    Ok(configuration)
}

#[cfg(test)]
mod tests;
