//! A certificate authority for each test, and the certificates that it issues.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub(crate) struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Validity of a certificate.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    Now,
    Past,
    Future,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        Authority::named("an authority")
    }

    pub(crate) fn named(name: &str) -> Authority {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap().pem();
        Authority { certificate, issuer: Issuer::new(parameters, key) }
    }

    pub(crate) fn pem(&self) -> &str {
        &self.certificate
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }

    /// Issues a certificate for the server on this machine.
    pub(crate) fn server(&self) -> Identity {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut parameters = CertificateParams::new(names).unwrap();
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&parameters)
    }

    /// Issues a certificate for a client of the group `berth:reader`.
    pub(crate) fn reader(&self, validity: Validity) -> Identity {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, "jane");
        parameters.distinguished_name.push(DnType::OrganizationName, "berth:reader");
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let (not_before, not_after) = match validity {
            Validity::Now => (2020, 2090),
            Validity::Past => (2019, 2020),
            Validity::Future => (2089, 2090),
        };
        parameters.not_before = date_time_ymd(not_before, 1, 1);
        parameters.not_after = date_time_ymd(not_after, 1, 1);
        self.sign(&parameters)
    }

    fn sign(&self, parameters: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

impl Identity {
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }

    pub(crate) fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }

    /// Writes certificate and key as two files of `directory`.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) =
            (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
        std::fs::write(&certificate, &self.certificate).unwrap();
        std::fs::write(&key, &self.key).unwrap();
        (certificate, key)
    }
}
