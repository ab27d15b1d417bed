//! A certificate authority for clients, and the certificates that it issues.

use std::path::PathBuf;

use berth_server::net::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, date_time_ymd,
};
use tempfile::TempDir;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// Certificate authority of a server at `localhost` and of its clients.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: String,
    directory: TempDir,
}

/// Certificate and key of a client, in PEM.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let directory = tempfile::tempdir().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let server_key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(names).unwrap().signed_by(&server_key, &issuer);
        let write = |name: &str, text: String| {
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        write("ca.crt", certificate.clone());
        write("tls.crt", server.unwrap().pem());
        write("tls.key", server_key.serialize_pem());
        Authority { issuer, certificate, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// TLS files of a server that identifies its clients by this authority.
    pub(crate) fn files(&self) -> TlsFiles {
        TlsFiles {
            cert_file: self.path("tls.crt"),
            key_file: self.path("tls.key"),
            client_ca_file: Some(self.path("ca.crt")),
        }
    }

    /// Issues a certificate for a client with this name and these organizations.
    pub(crate) fn client(&self, common_name: &str, organizations: &[&str]) -> Client {
        self.give(common_name, organizations, false)
    }

    /// Issues a certificate that has expired.
    pub(crate) fn expired(&self, common_name: &str, organizations: &[&str]) -> Client {
        self.give(common_name, organizations, true)
    }

    fn give(&self, common_name: &str, organizations: &[&str], is_expired: bool) -> Client {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let mut name = DistinguishedName::new();
        if !common_name.is_empty() {
            name.push(DnType::CommonName, common_name);
        }
        // rcgen keeps one attribute of each type, so a certificate can have only one organization here.
        assert!(organizations.len() <= 1);
        for organization in organizations {
            name.push(DnType::OrganizationName, *organization);
        }
        params.distinguished_name = name;
        if is_expired {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Client { certificate, key: key.serialize_pem() }
    }

    /// Connects to a server of this authority, with or without a client certificate.
    pub(crate) async fn connect(
        &self,
        port: u16,
        client: Option<&Client>,
    ) -> Result<Channel, tonic::transport::Error> {
        let mut tls =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.certificate));
        if let Some(Client { certificate, key }) = client {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        let endpoint = Endpoint::from_shared(format!("https://localhost:{port}")).unwrap();
        endpoint.tls_config(tls).unwrap().connect().await
    }
}
