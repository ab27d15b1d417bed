//! The connection to the API server as the feed: flags `--kube…`, variables `BERTH_KUBE…`, the field `kube`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::read::{elapsed, path};
use super::settings::{Layer, Setting as _, settings};
use crate::apiserver::KubeOptions;
use crate::document::decode::{self, Cursor};
use crate::document::{ConfigError, duration};

/// Minimum of the silence timeout: a shorter one would cut healthy watches.
const MIN_SILENCE_TIMEOUT: Duration = Duration::from_secs(1);

settings! {
    /// The section `kube` as flags, variables or a file give it.
    #[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
    pub struct KubeOverrides for KubeOptions, in directory, read as kube;

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
    kube: Option<bool> {
        at: "kube",
        page: "the API server is the feed; `kube: {}` is enough.",
    }

    /// Kubeconfig for `--kube` [default: the service account in a cluster, else $KUBECONFIG or ~/.kube/config]
    #[arg(long, env = "BERTH_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf> {
        file: "kubeconfig" = |value| path(value, directory),
        option: kubeconfig,
        shown: "the service account in a cluster, else $KUBECONFIG or ~/.kube/config",
        page: "a kubeconfig file.",
    }

    /// Context of the kubeconfig [default: its current one]
    #[arg(long, env = "BERTH_KUBE_CONTEXT", value_name = "NAME")]
    kube_context: Option<String> {
        file: "context" = decode::text,
        over: context_over,
        option: context,
        shown: "its current one",
        page: "context of the kubeconfig.",
    }

    /// How long a watch may be silent before it counts as dead, for example `2m30s` [default: 2m30s]
    #[arg(long, env = "BERTH_KUBE_SILENCE_TIMEOUT", value_name = "DURATION", value_parser = duration::parse)]
    kube_silence_timeout: Option<Duration> {
        file: "silenceTimeout" = elapsed,
        check: check_silence => "--kube-silence-timeout",
        option: silence_timeout,
        shown: "`2m30s`",
        page: "how long a watch may be silent before it is replaced, at least 1 s.",
    }
}

/// The context belongs to its kubeconfig: the contexts of another file are others.
fn context_over(flags: &KubeOverrides, file: &KubeOverrides) -> Option<String> {
    let of_file = if flags.kubeconfig.is_some() { &None } else { &file.kube_context };
    flags.kube_context.over(of_file)
}

fn check_silence(timeout: &Duration) -> Result<(), String> {
    if *timeout < MIN_SILENCE_TIMEOUT {
        return Err(format!("must be at least {} s", MIN_SILENCE_TIMEOUT.as_secs()));
    }
    Ok(())
}

impl KubeOverrides {
    /// These settings, completed by those of `file`. `None` if the API server is not the feed.
    ///
    /// # Errors
    /// A flag or variable for the API server without `--kube`, and a silence timeout of less than a second.
    pub(super) fn over(&self, file: &KubeOverrides) -> Result<Option<KubeOptions>, ConfigError> {
        let given = Layer::over(self, file);
        if given.kube != Some(true) {
            return self.check_unused();
        }
        given.check()?;
        Ok(Some(given.or(KubeOptions::default())))
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
            Some((name, _)) if self.kube.is_none() => Err(ConfigError::Setting {
                name: name.to_owned(),
                reason: "only means something with `--kube`".to_owned(),
            }),
            _ => Ok(None),
        }
    }
}

/// Decodes the field `kube` of the file, whose presence makes the API server the feed. `directory` is where relative
/// paths start.
pub(super) fn of_file(value: Cursor<'_>, directory: &Path) -> Option<KubeOverrides> {
    value.object(|fields| KubeOverrides {
        kube: Some(true),
        ..KubeOverrides::read(fields, directory)
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
