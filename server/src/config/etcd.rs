//! The section `etcd`: the ledger in etcd, in place of a file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::read::{at_least, elapsed, path};
use super::settings::{Layer, settings};
use crate::document::ConfigError;
use crate::document::decode::{self, Cursor};
use crate::ledger::{EtcdOptions, PeerFiles};

/// Minimum of the lease: etcd's own with its usual settings, so that the time that is asked for is the one that is given.
const MIN_LEASE: Duration = Duration::from_secs(2);
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

settings! {
    /// The section `etcd` as flags, variables or a file give it.
    #[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
    pub struct EtcdOverrides for (), in directory, read as etcd;

    /// Members of etcd that keep the ledger for all replicas, in place of a file
    #[arg(long = "etcd", env = "BERTH_ETCD", value_name = "URL", num_args = 1.., value_delimiter = ',')]
    etcd_endpoints: Vec<String> {
        file: "endpoints" = |list| list.list(decode::text),
        page: "URLs of the members of etcd, `http://` or `https://`; the flag takes several.",
    }

    /// Start of the ledger's keys in etcd, one for each cluster [default: /berth]
    #[arg(long = "etcd-prefix", env = "BERTH_ETCD_PREFIX", value_name = "PREFIX")]
    etcd_prefix: Option<String> {
        file: "prefix" = decode::text,
        check: |prefix: &String| check_prefix(prefix) => "--etcd-prefix",
        shown: "`/berth`",
        page: "start of all keys; each cluster needs another.",
    }

    /// Authority of etcd's certificates, in PEM; no flag, as for the rest
    #[arg(skip)]
    etcd_ca_file: Option<PathBuf> {
        file: "caFile" = |value| path(value, directory),
        page: "certificate in PEM of the authority that vouches for the members, for `https://`.",
    }

    /// Certificate to show to etcd, in PEM
    #[arg(skip)]
    etcd_cert_file: Option<PathBuf> {
        file: "certFile" = |value| path(value, directory),
        page: "certificate of this client in PEM.",
    }

    /// Private key of that certificate, in PEM
    #[arg(skip)]
    etcd_key_file: Option<PathBuf> {
        file: "keyFile" = |value| path(value, directory),
        page: "its private key in PEM.",
    }

    /// User of etcd
    #[arg(skip)]
    etcd_user: Option<String> {
        file: "user" = decode::text,
        page: "user of etcd, where its authentication is on and no certificate names the user.",
    }

    /// File whose first line is that user's password
    #[arg(skip)]
    etcd_password_file: Option<PathBuf> {
        file: "passwordFile" = |value| path(value, directory),
        page: "file whose first line is that user's password.",
    }

    /// How long after the silence of the committing replica another one commits
    #[arg(skip)]
    etcd_lease: Option<Duration> {
        file: "lease" = elapsed,
        check: check_lease => "etcd.lease",
        shown: "`3s`",
        page: "how long after the silence of the committing replica another one commits, in whole seconds, at least 2 s.",
    }

    /// Longest time to wait for an answer of a member of etcd
    #[arg(skip)]
    etcd_timeout: Option<Duration> {
        file: "timeout" = elapsed,
        check: at_least(MIN_TIMEOUT) => "etcd.timeout",
        shown: "`1s`",
        page: "longest time to wait for an answer of a member, at least 100 ms.",
    }

    /// Name of this replica [default: the name of the machine]
    #[arg(long = "replica-name", env = "BERTH_REPLICA_NAME", value_name = "NAME")]
    replica_name: Option<String> {
        file: "replicaName" = decode::text,
        check: |name: &String| check_name(name) => "--replica-name",
        shown: "the name of the machine",
        page: "name of this replica, which no other one has.",
    }

    /// URL at which other replicas reach this one's gRPC port
    #[arg(long = "replica-address", env = "BERTH_REPLICA_ADDRESS", value_name = "URL")]
    replica_address: Option<String> {
        file: "replicaAddress" = decode::text,
        check: |address: &String| check_address(address) => "--replica-address",
        shown: "none: other replicas cannot send on what this one commits",
        page: "URL at which other replicas reach this one's gRPC port, `http://` or `https://`.",
    }

    /// Authority of the other replicas' certificates, in PEM
    #[arg(skip)]
    replica_ca_file: Option<PathBuf> {
        file: "replicaCaFile" = |value| path(value, directory),
        page: "certificate in PEM of the authority that vouches for the other replicas, for `https://`.",
    }

    /// Certificate to show to the other replicas, in PEM
    #[arg(skip)]
    replica_cert_file: Option<PathBuf> {
        file: "replicaCertFile" = |value| path(value, directory),
        page: "certificate in PEM that this replica shows to the others; it needs the role `replica` there.",
    }

    /// Private key of that certificate, in PEM
    #[arg(skip)]
    replica_key_file: Option<PathBuf> {
        file: "replicaKeyFile" = |value| path(value, directory),
        page: "its private key in PEM.",
    }

    /// Name in the certificates of the other replicas
    #[arg(skip)]
    replica_server_name: Option<String> {
        file: "replicaServerName" = decode::text,
        shown: "the host of their addresses",
        page: "name in the certificates of the other replicas, for those whose addresses are in none.",
    }
}

/// Decodes the section; `directory` is where relative paths start.
pub(super) fn section(value: Cursor<'_>, directory: &Path) -> Option<EtcdOverrides> {
    value.object(|fields| EtcdOverrides::read(fields, directory))
}

impl EtcdOverrides {
    /// These settings, completed by those of `file`; `None` where no member is named.
    ///
    /// # Errors
    /// [`ConfigError::Setting`]: a setting without those that it needs, or beside a ledger's file.
    pub(super) fn over(
        &self,
        file: &EtcdOverrides,
        ledger: Option<&Path>,
    ) -> Result<Option<EtcdOptions>, ConfigError> {
        let given = Layer::over(self, file);
        given.check()?;
        let refuse = |name: &str, reason: &str| {
            Err(ConfigError::Setting { name: name.to_owned(), reason: reason.to_owned() })
        };
        let default = EtcdOverrides::default();
        if given.etcd_endpoints.is_empty() {
            return match given == default {
                true => Ok(None),
                false => refuse("--etcd", "is missing: the other settings of etcd need it"),
            };
        }
        if ledger.is_some() {
            return refuse("--etcd", "the ledger is in a file or in etcd, not in both");
        }
        let identity = match (given.etcd_cert_file, given.etcd_key_file) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => {
                return refuse("etcd.keyFile", "is missing: `etcd.certFile` needs it");
            }
            (None, Some(_)) => {
                return refuse("etcd.certFile", "is missing: `etcd.keyFile` needs it");
            }
        };
        if identity.is_some() && given.etcd_ca_file.is_none() {
            return refuse("etcd.caFile", "is missing: `etcd.certFile` needs it");
        }
        let password = match (given.etcd_user, given.etcd_password_file) {
            (Some(user), Some(file)) => Some((user, file)),
            (None, None) => None,
            (Some(_), None) => {
                return refuse("etcd.passwordFile", "is missing: `etcd.user` needs it");
            }
            (None, Some(_)) => {
                return refuse("etcd.user", "is missing: `etcd.passwordFile` needs it");
            }
        };
        let peers = match (given.replica_ca_file, given.replica_cert_file, given.replica_key_file) {
            (Some(ca_file), Some(cert_file), Some(key_file)) => {
                let server_name = given.replica_server_name;
                Some(PeerFiles { ca_file, cert_file, key_file, server_name })
            }
            (None, None, None) => None,
            (ca_file, cert_file, _) => {
                let missing = match (ca_file, cert_file) {
                    (None, _) => "etcd.replicaCaFile",
                    (_, None) => "etcd.replicaCertFile",
                    _ => "etcd.replicaKeyFile",
                };
                return refuse(
                    missing,
                    "is missing: the three files for other replicas go together",
                );
            }
        };
        let options = EtcdOptions::default();
        Ok(Some(EtcdOptions {
            endpoints: given.etcd_endpoints,
            prefix: given.etcd_prefix.unwrap_or(options.prefix),
            name: given.replica_name.unwrap_or_else(machine_name),
            address: given.replica_address.unwrap_or_default(),
            peers,
            lease: given.etcd_lease.unwrap_or(options.lease),
            timeout: given.etcd_timeout.unwrap_or(options.timeout),
            ca_file: given.etcd_ca_file,
            identity,
            password,
        }))
    }
}

fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn check_address(address: &str) -> Result<(), String> {
    let address = address.parse::<http::Uri>().ok();
    let scheme = address.as_ref().and_then(http::Uri::scheme_str);
    match matches!(scheme, Some("http" | "https")) {
        true => Ok(()),
        false => Err("must be a URL such as `https://10.0.0.7:7400`".to_owned()),
    }
}

fn check_prefix(prefix: &str) -> Result<(), String> {
    match prefix.strip_prefix('/').is_some_and(|rest| !rest.trim_matches('/').is_empty()) {
        true => Ok(()),
        false => Err("must begin with `/` and name something, such as `/berth/blue`".to_owned()),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match (1..=253).contains(&name.len()) && name.chars().all(is_label) {
        true => Ok(()),
        false => Err("must have 1 to 253 letters, digits, `-`, `.` and `_`".to_owned()),
    }
}

fn check_lease(lease: &Duration) -> Result<(), String> {
    at_least(MIN_LEASE)(lease)?;
    match lease.subsec_nanos() {
        0 => Ok(()),
        _ => Err("must be whole seconds".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> EtcdOverrides {
        crate::document::decode::read_text(text, |value| section(value, Path::new("/d"))).unwrap()
    }

    fn error(text: &str, ledger: Option<&Path>) -> String {
        EtcdOverrides::default().over(&of(text), ledger).unwrap_err().to_string()
    }

    #[test]
    fn etcd_is_asked_only_when_its_members_are_named() {
        let none = EtcdOverrides::default();
        assert_eq!(none.over(&none, None).unwrap(), None);
        let options = none.over(&of("{endpoints: ['http://a:2379']}"), None).unwrap().unwrap();
        assert_eq!(options.prefix, "/berth");
        assert!(!options.name.is_empty());
        let flags = EtcdOverrides { etcd_endpoints: vec!["http://b:1".to_owned()], ..none };
        let file =
            of("{endpoints: ['http://a:1', 'http://a:2'], prefix: /berth/x, replicaName: r}");
        let options = flags.over(&file, None).unwrap().unwrap();
        assert_eq!((options.endpoints, options.name), (flags.etcd_endpoints, "r".to_owned()));
    }

    #[test]
    fn what_does_not_fit_together_is_named() {
        let all = "endpoints: ['https://a:1']";
        for (text, expected) in [
            ("{prefix: /berth/x}", "--etcd: is missing"),
            (&format!("{{{all}, certFile: c, caFile: a}}"), "etcd.keyFile: is missing"),
            (&format!("{{{all}, keyFile: c, caFile: a}}"), "etcd.certFile: is missing"),
            (&format!("{{{all}, keyFile: k, certFile: c}}"), "etcd.caFile: is missing"),
            (&format!("{{{all}, user: u}}"), "etcd.passwordFile: is missing"),
            (&format!("{{{all}, passwordFile: p}}"), "etcd.user: is missing"),
        ] {
            let error = error(text, None);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let both = error(&format!("{{{all}}}"), Some(Path::new("ledger.redb")));
        assert_eq!(both, "--etcd: the ledger is in a file or in etcd, not in both");
        let flags = EtcdOverrides {
            etcd_endpoints: vec!["http://b:1".to_owned()],
            etcd_lease: Some(Duration::from_millis(2_500)),
            ..EtcdOverrides::default()
        };
        let error = flags.over(&EtcdOverrides::default(), None).unwrap_err().to_string();
        assert_eq!(error, "etcd.lease: must be whole seconds");
    }

    #[test]
    fn values_of_the_file_are_checked() {
        for text in [
            "{prefix: berth}",
            "{prefix: /}",
            "{lease: 1s}",
            "{timeout: 1ms}",
            "{replicaName: 'a b'}",
        ] {
            let read = |value: Cursor<'_>| section(value, Path::new("/d"));
            let errors = crate::document::decode::read_text(text, read).unwrap_err();
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        }
    }
}
