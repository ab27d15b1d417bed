//! The section `tls`: with what the gRPC listener proves who it is.

use std::path::{Path, PathBuf};

use super::ConfigError;
use super::decode::{self, Cursor};

/// The files of the gRPC listener's identity, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those of intermediate authorities (`certFile`).
    pub cert_file: PathBuf,
    /// Its private key (`keyFile`).
    pub key_file: PathBuf,
}

/// The section as it stands in a file: certificate and key.
pub(super) type Section = (Option<PathBuf>, Option<PathBuf>);

/// Reads the section; `directory` is where relative paths start. What is missing is reported: a file names both or has no
/// such section.
pub(super) fn section(value: Cursor<'_>, directory: &Path) -> Option<Section> {
    value.object(|fields| {
        let path = |value: Cursor<'_>| decode::text(value).map(|text| directory.join(text));
        let (cert_file, key_file) = (fields.take("certFile", path), fields.take("keyFile", path));
        for (name, file) in [("certFile", &cert_file), ("keyFile", &key_file)] {
            if file.is_none() {
                fields.object().report(format!("`{name}` is missing"));
            }
        }
        (cert_file, key_file)
    })
}

impl TlsFiles {
    /// Both files or neither.
    ///
    /// # Errors
    /// [`ConfigError::Setting`] with the one that is missing.
    pub fn resolve(
        cert_file: Option<PathBuf>,
        key_file: Option<PathBuf>,
    ) -> Result<Option<TlsFiles>, ConfigError> {
        let missing = |name: &str, given: &str| {
            let reason = format!("is missing: `{given}` needs it");
            Err(ConfigError::Setting { name: name.to_owned(), reason })
        };
        match (cert_file, key_file) {
            (Some(cert_file), Some(key_file)) => Ok(Some(TlsFiles { cert_file, key_file })),
            (None, None) => Ok(None),
            (Some(_), None) => missing("--tls-private-key-file", "--tls-cert-file"),
            (None, Some(_)) => missing("--tls-cert-file", "--tls-private-key-file"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_alone_is_refused() {
        let file = || Some(PathBuf::from("x"));
        assert_eq!(TlsFiles::resolve(None, None).unwrap(), None);
        assert!(TlsFiles::resolve(file(), file()).unwrap().is_some());
        let error = TlsFiles::resolve(file(), None).unwrap_err().to_string();
        assert_eq!(error, "--tls-private-key-file: is missing: `--tls-cert-file` needs it");
        let error = TlsFiles::resolve(None, file()).unwrap_err().to_string();
        assert_eq!(error, "--tls-cert-file: is missing: `--tls-private-key-file` needs it");
    }
}
