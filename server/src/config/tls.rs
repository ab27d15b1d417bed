//! The section `tls`: the identity of the listeners, and the authorities of client certificates.

use std::path::{Path, PathBuf};

use super::read::path;
use super::settings::{Layer, settings};
use crate::document::ConfigError;
use crate::document::decode::Cursor;
use crate::net::TlsFiles;

settings! {
    /// The section `tls` as flags, variables or a file give it.
    #[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
    pub struct TlsOverrides for (), in directory, read as tls;

    /// Certificate of both listeners in PEM, followed by intermediate ones; plain text without it
    #[arg(long = "tls-cert-file", env = "BERTH_TLS_CERT_FILE", value_name = "FILE")]
    cert_file: Option<PathBuf> {
        file: "certFile" = |value| path(value, directory),
        shown: "plain text",
        page: "certificate of both ports in PEM, followed by intermediate ones.",
    }

    /// Private key of that certificate, in PEM
    #[arg(long = "tls-private-key-file", env = "BERTH_TLS_PRIVATE_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf> {
        file: "keyFile" = |value| path(value, directory),
        page: "its private key in PEM.",
    }

    /// Authorities of client certificates in PEM; clients are not asked for a certificate without it
    #[arg(long = "tls-client-ca-file", env = "BERTH_TLS_CLIENT_CA_FILE", value_name = "FILE")]
    client_ca_file: Option<PathBuf> {
        file: "clientCaFile" = |value| path(value, directory),
        shown: "no client certificates",
        page: "authorities in PEM that authenticate callers.",
    }
}

/// Decodes the section; `directory` is where relative paths start. Missing fields are reported: a file has certificate
/// and key, or no such section.
pub(super) fn section(value: Cursor<'_>, directory: &Path) -> Option<TlsOverrides> {
    value.object(|fields| {
        let written = TlsOverrides::read(fields, directory);
        for (name, file) in [("certFile", &written.cert_file), ("keyFile", &written.key_file)] {
            if file.is_none() {
                fields.object().report(format!("`{name}` is missing"));
            }
        }
        written
    })
}

impl TlsOverrides {
    /// These settings, completed by those of `file`: certificate and key, or nothing.
    ///
    /// # Errors
    /// [`ConfigError::Setting`] for the missing one.
    pub(super) fn over(&self, file: &TlsOverrides) -> Result<Option<TlsFiles>, ConfigError> {
        let TlsOverrides { cert_file, key_file, client_ca_file } = Layer::over(self, file);
        let missing = |name: &str, given: &str| {
            let reason = format!("is missing: `{given}` needs it");
            Err(ConfigError::Setting { name: name.to_owned(), reason })
        };
        match (cert_file, key_file) {
            (Some(cert_file), Some(key_file)) => {
                Ok(Some(TlsFiles { cert_file, key_file, client_ca_file }))
            }
            (Some(_), None) => missing("--tls-private-key-file", "--tls-cert-file"),
            (None, Some(_)) => missing("--tls-cert-file", "--tls-private-key-file"),
            (None, None) if client_ca_file.is_some() => {
                missing("--tls-cert-file", "--tls-client-ca-file")
            }
            (None, None) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_alone_is_refused() {
        let none = TlsOverrides::default();
        let cert = TlsOverrides { cert_file: Some("c".into()), ..none.clone() };
        let key = TlsOverrides { key_file: Some("k".into()), ..none.clone() };
        let authority = TlsOverrides { client_ca_file: Some("a".into()), ..none.clone() };
        assert_eq!(none.over(&none).unwrap(), None);
        for (flags, expected) in [
            (&cert, "--tls-private-key-file: is missing: `--tls-cert-file` needs it"),
            (&key, "--tls-cert-file: is missing: `--tls-private-key-file` needs it"),
            (&authority, "--tls-cert-file: is missing: `--tls-client-ca-file` needs it"),
        ] {
            assert_eq!(flags.over(&none).unwrap_err().to_string(), expected);
            assert_eq!(none.over(flags).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn flags_win_over_the_file_one_by_one() {
        let file = TlsOverrides {
            cert_file: Some("c".into()),
            key_file: Some("k".into()),
            client_ca_file: Some("a".into()),
        };
        let flags = TlsOverrides { key_file: Some("other".into()), ..TlsOverrides::default() };
        let expected = TlsFiles {
            cert_file: "c".into(),
            key_file: "other".into(),
            client_ca_file: Some("a".into()),
        };
        assert_eq!(flags.over(&file).unwrap(), Some(expected));
    }
}
