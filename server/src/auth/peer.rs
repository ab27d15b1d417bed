//! Identity of a peer: the certificate that it proved to own, and the caller that the certificate identifies.

use std::sync::{Arc, OnceLock};

use ring::digest::{SHA256, digest};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::AttributeTypeAndValue;

use super::Caller;

/// Identity of the other end of a connection.
#[derive(Debug, Default)]
pub struct PeerIdentity {
    /// The certificate that the peer proved to own and that an authority of `tls.clientCaFile` issued; `None` without
    /// one.
    pub certificate: Option<PeerCertificate>,
    /// The caller that the certificate identifies, computed once: role bindings last as long as the server.
    pub(super) caller: OnceLock<Arc<Caller>>,
}

impl PeerIdentity {
    /// The identity of a peer that presented `certificate`.
    #[must_use]
    pub fn new(certificate: Option<PeerCertificate>) -> PeerIdentity {
        PeerIdentity { certificate, caller: OnceLock::new() }
    }
}

/// The parts of a client's certificate that identify its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The subject's common name.
    pub common_name: Option<Box<str>>,
    /// The subject's organizations, in the certificate's order.
    pub organizations: Vec<Box<str>>,
    /// DNS names among the subject's alternative names.
    pub dns_names: Vec<Box<str>>,
    /// URIs among the subject's alternative names, such as a SPIFFE id.
    pub uris: Vec<Box<str>>,
    /// SHA-256 of the whole certificate, 64 hexadecimal digits in lower case.
    pub fingerprint: Box<str>,
    /// End of the certificate's validity, in Unix time. A connection may live longer than that.
    pub not_after: i64,
}

/// Reason why a certificate, though issued by its authority, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerCertificateError {
    /// The bytes are not X.509 in DER.
    #[error("it is not a certificate: {0}")]
    Malformed(String),
    /// A name has an encoding that cannot be read.
    #[error("its {0} is not readable text")]
    Text(&'static str),
    /// The subject has several common names, so the user is ambiguous.
    #[error("its subject has more than one common name")]
    Ambiguous,
}

impl PeerCertificate {
    /// Reads a certificate in DER. Its issuer is not checked here.
    ///
    /// # Errors
    /// [`PeerCertificateError`], whose text repeats nothing of the certificate.
    pub fn parse(der: &[u8]) -> Result<PeerCertificate, PeerCertificateError> {
        let malformed =
            |error: &dyn std::fmt::Display| PeerCertificateError::Malformed(error.to_string());
        let (rest, certificate) =
            X509Certificate::from_der(der).map_err(|error| malformed(&error))?;
        if !rest.is_empty() {
            return Err(malformed(&"something follows it"));
        }
        let subject = certificate.subject();
        let mut common_names = subject.iter_common_name();
        let common_name = common_names.next().map(|name| text(name, "common name")).transpose()?;
        if common_names.next().is_some() {
            return Err(PeerCertificateError::Ambiguous);
        }
        let organizations = subject.iter_organization().map(|name| text(name, "organization"));
        let organizations = organizations.collect::<Result<_, _>>()?;
        let (mut dns_names, mut uris) = (Vec::new(), Vec::new());
        let alternatives =
            certificate.subject_alternative_name().map_err(|error| malformed(&error))?;
        for name in alternatives.iter().flat_map(|extension| &extension.value.general_names) {
            match name {
                GeneralName::DNSName(name) => dns_names.push((*name).into()),
                GeneralName::URI(uri) => uris.push((*uri).into()),
                _ => {}
            }
        }
        Ok(PeerCertificate {
            common_name,
            organizations,
            dns_names,
            uris,
            fingerprint: hexadecimal(digest(&SHA256, der).as_ref()),
            not_after: certificate.validity().not_after.timestamp(),
        })
    }
}

/// End of the validity of the certificate in `der`, in Unix time.
///
/// # Errors
/// The errors of [`PeerCertificate::parse`].
pub(crate) fn not_after(der: &[u8]) -> Result<i64, PeerCertificateError> {
    match X509Certificate::from_der(der) {
        Ok((_, certificate)) => Ok(certificate.validity().not_after.timestamp()),
        Err(error) => Err(PeerCertificateError::Malformed(error.to_string())),
    }
}

fn text(
    name: &AttributeTypeAndValue<'_>,
    what: &'static str,
) -> Result<Box<str>, PeerCertificateError> {
    name.as_str().map(Into::into).map_err(|_| PeerCertificateError::Text(what))
}

fn hexadecimal(bytes: &[u8]) -> Box<str> {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

    use super::*;

    fn der(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut parameters);
        let certificate = parameters.self_signed(&KeyPair::generate().unwrap()).unwrap();
        certificate.der().to_vec()
    }

    #[test]
    fn a_certificate_names_its_owner() {
        let der = der(|parameters| {
            parameters.distinguished_name.push(DnType::CommonName, "jane");
            parameters.distinguished_name.push(DnType::OrganizationName, "berth:scheduler");
            parameters.subject_alt_names = vec![
                SanType::DnsName("jane.example".try_into().unwrap()),
                SanType::URI("spiffe://example/jane".try_into().unwrap()),
            ];
            parameters.not_after = date_time_ymd(2030, 1, 1);
        });
        let certificate = PeerCertificate::parse(&der).unwrap();
        let fingerprint = certificate.fingerprint.clone();
        let expected = PeerCertificate {
            common_name: Some("jane".into()),
            organizations: vec!["berth:scheduler".into()],
            dns_names: vec!["jane.example".into()],
            uris: vec!["spiffe://example/jane".into()],
            fingerprint: fingerprint.clone(),
            not_after: 1_893_456_000,
        };
        assert_eq!(certificate, expected);
        assert_eq!(not_after(&der), Ok(1_893_456_000));
        assert!(
            fingerprint.len() == 64 && fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit())
        );
    }

    #[test]
    fn a_certificate_may_name_nobody() {
        let certificate = PeerCertificate::parse(&der(|_| {})).unwrap();
        assert_eq!((certificate.common_name, certificate.organizations.len()), (None, 0));
    }

    #[test]
    fn malformed_certificates_are_refused() {
        let whole = der(|_| {});
        let longer = [whole.as_slice(), b"x"].concat();
        for bad in [&b""[..], b"garbage", &whole[..whole.len() - 1], &longer] {
            let error = PeerCertificate::parse(bad).unwrap_err();
            assert!(matches!(error, PeerCertificateError::Malformed(_)), "{error}");
        }
    }

    /// rcgen writes no second common name, so another attribute of equal length is changed into one in place.
    #[test]
    fn two_common_names_are_one_too_many() {
        let mut der = der(|parameters| {
            parameters.distinguished_name.push(DnType::CommonName, "jane");
            parameters.distinguished_name.push(DnType::OrganizationName, "john");
        });
        // id-at-organizationName is 2.5.4.10, id-at-commonName 2.5.4.3.
        for at in 0..der.len() - 5 {
            if der[at..at + 5] == [6, 3, 0x55, 4, 10] {
                der[at + 4] = 3;
            }
        }
        assert_eq!(PeerCertificate::parse(&der), Err(PeerCertificateError::Ambiguous));
    }
}
