//! [`Credentials`]: the authority that authenticates the server, and the token or certificate that authenticates the
//! caller. One set of flags for every command that calls a server.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tonic::codegen::http::HeaderValue;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Limit of a credential file; a longer one is some other file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Credentials of a caller: the authority that it trusts, and the token or certificate that it presents. Without any,
/// calls are anonymous and in plain text.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Credentials {
    /// Certificate of the authority that vouches for the server, in PEM; for `https://`
    #[arg(long, value_name = "FILE", requires = "server")]
    pub ca_file: Option<PathBuf>,
    /// File whose first line is the bearer token to call with
    #[arg(long, value_name = "FILE", requires = "server")]
    pub token_file: Option<PathBuf>,
    /// Certificate to call with, in PEM, with intermediate ones behind it; for `https://`
    #[arg(long, value_name = "FILE", requires_all = ["server", "client_key_file"])]
    pub client_cert_file: Option<PathBuf>,
    /// Private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["server", "client_cert_file"])]
    pub client_key_file: Option<PathBuf>,
}

impl Credentials {
    /// Credentials of an anonymous caller that trusts the authority in `ca_file`.
    #[must_use]
    pub fn trusting(ca_file: impl Into<PathBuf>) -> Credentials {
        Credentials { ca_file: Some(ca_file.into()), ..Credentials::default() }
    }

    /// The TLS configuration for a server at an `https://` URL.
    ///
    /// Errors: the missing flag, or the file that cannot be used.
    pub(crate) fn tls(&self) -> Result<ClientTlsConfig, String> {
        let Some(ca_file) = &self.ca_file else {
            return Err("`https://` needs the authority's certificate, `--ca-file`".to_owned());
        };
        let authority = Certificate::from_pem(pem(ca_file, CERTIFICATE)?);
        let tls = ClientTlsConfig::new().ca_certificate(authority);
        match (&self.client_cert_file, &self.client_key_file) {
            (Some(cert_file), Some(key_file)) => Ok(tls.identity(Identity::from_pem(
                pem(cert_file, CERTIFICATE)?,
                pem(key_file, PRIVATE_KEY)?,
            ))),
            (None, None) => Ok(tls),
            (Some(_), None) => Err("`--client-cert-file` needs `--client-key-file`".to_owned()),
            (None, Some(_)) => Err("`--client-key-file` needs `--client-cert-file`".to_owned()),
        }
    }

    /// Names of the TLS files, for an error message.
    pub(crate) fn tls_files(&self) -> String {
        let files = [&self.ca_file, &self.client_cert_file, &self.client_key_file];
        let shown = files.into_iter().flatten().map(|file| format!("`{}`", file.display()));
        shown.collect::<Vec<_>>().join(", ")
    }

    /// Refuses, for plain `http://`, files that only TLS can use, and a token that would leave this machine
    /// unencrypted.
    pub(crate) fn check_plain(&self, is_loopback: bool) -> Result<(), String> {
        for (flag, is_given) in [
            ("--ca-file", self.ca_file.is_some()),
            ("--client-cert-file", self.client_cert_file.is_some()),
            ("--client-key-file", self.client_key_file.is_some()),
        ] {
            if is_given {
                return Err(format!("`{flag}` is for `https://`"));
            }
        }
        if self.token_file.is_some() && !is_loopback {
            return Err(
                "a token is not sent over plain `http://` beyond loopback, where others can read it: use `https://`"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// The `authorization` header of each call.
    ///
    /// Errors: the file that cannot be used; the message never quotes its contents.
    pub fn authorization(&self) -> Result<Option<HeaderValue>, String> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let shown = path.display();
        let contents = bytes(path)?;
        let line = contents.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let token = line.trim_ascii();
        if token.is_empty() {
            return Err(format!("`{shown}` holds no token in its first line"));
        }
        // A token of RFC 6750 consists of visible ASCII characters; a line of several words is not a token.
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(format!(
                "the first line of `{shown}` is not a token: only visible ASCII characters, and no space between them"
            ));
        }
        let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat())
            .map_err(|_| format!("the first line of `{shown}` is not a token"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

const CERTIFICATE: (&str, &str) = ("certificate", "-----BEGIN CERTIFICATE-----");
const PRIVATE_KEY: (&str, &str) = ("unencrypted private key", "PRIVATE KEY-----");

/// Reads a PEM file and checks that it contains `marker`: tonic ignores a file without it and blames the server later.
fn pem(path: &Path, (what, marker): (&str, &str)) -> Result<Vec<u8>, String> {
    let contents = bytes(path)?;
    if !String::from_utf8_lossy(&contents).contains(marker) {
        return Err(format!("`{}` holds no {what} in PEM", path.display()));
    }
    Ok(contents)
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let mut contents = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut contents))
        .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    if read as u64 > MAX_FILE_BYTES {
        return Err(format!("`{}` is longer than {MAX_FILE_BYTES} bytes", path.display()));
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_token(text: &[u8]) -> (tempfile::TempDir, Credentials) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, text).unwrap();
        (directory, Credentials { token_file: Some(path), ..Credentials::default() })
    }

    #[test]
    fn a_token_is_the_first_line_and_is_never_shown() {
        assert_eq!(Credentials::default().authorization(), Ok(None));
        for text in [&b"s3cret"[..], b"  s3cret \r\nmore", b"s3cret\n\xff"] {
            let (_directory, credentials) = with_token(text);
            let header = credentials.authorization().unwrap().unwrap();
            assert_eq!(header.as_bytes(), b"Bearer s3cret");
            assert!(!format!("{header:?} {credentials:?}").contains("s3cret"));
        }
        for (text, expected) in [
            (&b""[..], "holds no token"),
            (b"\ns3cret", "holds no token"),
            (b"s3cret s3cret", "is not a token"),
            (b"s3cret\xc3\xa4", "is not a token"),
        ] {
            let (_directory, credentials) = with_token(text);
            let error = credentials.authorization().unwrap_err();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
        }
        let missing = Credentials { token_file: Some("no-such".into()), ..Credentials::default() };
        assert!(missing.authorization().unwrap_err().starts_with("cannot read `no-such`"));
    }

    #[test]
    fn without_tls_a_token_stays_on_this_machine() {
        let (_directory, credentials) = with_token(b"s3cret");
        assert_eq!(credentials.check_plain(true), Ok(()));
        let error = credentials.check_plain(false).unwrap_err();
        assert!(error.contains("use `https://`"), "{error}");
    }
}
