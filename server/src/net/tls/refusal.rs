//! Refusal: the reason why a TLS handshake failed, in words for the operator's log. Nothing that the peer sent is
//! repeated.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

use crate::escape::printable;

/// The reason why the handshake failed.
pub(crate) fn reason(error: &io::Error) -> String {
    let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<Error>()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "the peer closed the connection".to_owned(),
            _ => printable(&error.to_string()).into_owned(),
        };
    };
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::InvalidMessage(_) => "what it sent is not TLS".to_owned(),
        Error::NoApplicationProtocol => {
            "it offers by ALPN none of the protocols of this port".to_owned()
        }
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired,
        ) => "it does not trust this server's certificate".to_owned(),
        other => printable(&other.to_string()).into_owned(),
    }
}

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no authority of `tls.clientCaFile` vouches for its certificate".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not one for clients (extended key usage)".to_owned()
        }
        other => format!("its certificate is refused: {}", printable(&format!("{other}"))),
    }
}
