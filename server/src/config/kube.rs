//! The connection to the API server as the feed: flags `--kube…`, variables `BERTH_KUBE…`, the field `kube`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::apiserver::KubeOptions;
use crate::document::decode::{self, Cursor};
use crate::document::{ConfigError, duration};

/// Minimum of the silence timeout: a shorter one would cut healthy watches.
const MIN_SILENCE_TIMEOUT: Duration = Duration::from_secs(1);

/// Settings of the API server from flags, variables or a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct KubeOverrides {
    /// Read the cluster from its API server: in the cluster as the pod's service account, elsewhere by kubeconfig
    #[arg(
        long,
        env = "BERTH_KUBE",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    pub kube: Option<bool>,
    /// Kubeconfig for `--kube` [default: the service account in a cluster, else $KUBECONFIG or ~/.kube/config]
    #[arg(long, env = "BERTH_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, env = "BERTH_KUBE_CONTEXT", value_name = "NAME")]
    pub kube_context: Option<String>,
    /// How long a watch may be silent before it counts as dead, for example `2m30s` [default: 2m30s]
    #[arg(long, env = "BERTH_KUBE_SILENCE_TIMEOUT", value_name = "DURATION", value_parser = duration::parse)]
    pub kube_silence_timeout: Option<Duration>,
}

impl KubeOverrides {
    /// These settings, completed by those of `file`. `None` if the API server is not the feed.
    ///
    /// # Errors
    /// A flag or variable for the API server without `--kube`, and a silence timeout of less than a second.
    pub(super) fn over(&self, file: &KubeOverrides) -> Result<Option<KubeOptions>, ConfigError> {
        if !self.kube.or(file.kube).unwrap_or(false) {
            return self.check_unused();
        }
        let default = KubeOptions::default();
        // The file's context belongs to the file's kubeconfig.
        let context = if self.kubeconfig.is_some() { &None } else { &file.kube_context };
        let options = KubeOptions {
            kubeconfig: self.kubeconfig.clone().or_else(|| file.kubeconfig.clone()),
            context: self.kube_context.clone().or_else(|| context.clone()),
            silence_timeout: self
                .kube_silence_timeout
                .or(file.kube_silence_timeout)
                .unwrap_or(default.silence_timeout),
        };
        if options.silence_timeout < MIN_SILENCE_TIMEOUT {
            return Err(setting("--kube-silence-timeout", at_least()));
        }
        Ok(Some(options))
    }

    /// Checks that no setting is unused: a kubeconfig without `--kube` is an error; `--kube=false` over a file that has
    /// one is not.
    fn check_unused(&self) -> Result<Option<KubeOptions>, ConfigError> {
        let given = [
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--kube-context", self.kube_context.is_some()),
            ("--kube-silence-timeout", self.kube_silence_timeout.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) if self.kube.is_none() => {
                Err(setting(name, "only means something with `--kube`".to_owned()))
            }
            _ => Ok(None),
        }
    }
}

fn setting(name: &str, reason: String) -> ConfigError {
    ConfigError::Setting { name: name.to_owned(), reason }
}

fn at_least() -> String {
    format!("must be at least {} s", MIN_SILENCE_TIMEOUT.as_secs())
}

/// Decodes the field `kube` of the file, whose presence makes the API server the feed. `directory` is where relative
/// paths start.
pub(super) fn of_file(value: Cursor<'_>, directory: &Path) -> Option<KubeOverrides> {
    value.object(|fields| KubeOverrides {
        kube: Some(true),
        kubeconfig: fields
            .take("kubeconfig", |path| decode::text(path).map(|text| directory.join(text))),
        kube_context: fields.take("context", decode::text),
        kube_silence_timeout: fields.take("silenceTimeout", |value| {
            let nanos = decode::nanoseconds(value)?;
            let timeout = u64::try_from(nanos).map(Duration::from_nanos).unwrap_or_default();
            if timeout < MIN_SILENCE_TIMEOUT {
                value.report(at_least());
                return None;
            }
            Some(timeout)
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on() -> KubeOverrides {
        KubeOverrides { kube: Some(true), ..KubeOverrides::default() }
    }

    #[test]
    fn the_api_server_is_asked_only_when_told_to() {
        let (none, file) = (KubeOverrides::default(), on());
        assert_eq!(none.over(&none).unwrap(), None);
        assert_eq!(on().over(&none).unwrap(), Some(KubeOptions::default()));
        assert_eq!(none.over(&file).unwrap(), Some(KubeOptions::default()));
        let off = KubeOverrides { kube: Some(false), ..none.clone() };
        assert_eq!(off.over(&file).unwrap(), None);
        let context = KubeOverrides { kube_context: Some("c".to_owned()), ..none.clone() };
        let error = context.over(&none).unwrap_err().to_string();
        assert_eq!(error, "--kube-context: only means something with `--kube`");
    }

    #[test]
    fn flags_win_and_a_context_belongs_to_its_file() {
        let file = KubeOverrides {
            kubeconfig: Some("a".into()),
            kube_context: Some("of-a".to_owned()),
            kube_silence_timeout: Some(Duration::from_secs(9)),
            ..on()
        };
        let flags = KubeOverrides { kubeconfig: Some("b".into()), ..KubeOverrides::default() };
        let options = flags.over(&file).unwrap().unwrap();
        assert_eq!((options.kubeconfig, options.context), (Some("b".into()), None));
        assert_eq!(options.silence_timeout, Duration::from_secs(9));
        let short = KubeOverrides { kube_silence_timeout: Some(Duration::from_millis(5)), ..on() };
        let error = short.over(&KubeOverrides::default()).unwrap_err().to_string();
        assert_eq!(error, "--kube-silence-timeout: must be at least 1 s");
    }
}
