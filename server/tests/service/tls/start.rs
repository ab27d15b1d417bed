//! Addresses on which a server may listen, and the errors for others.

use std::fs;
use std::net::SocketAddr;

use berth_server::auth::AuthOptions;
use berth_server::auth::{Role, RoleBinding};
use berth_server::net::{ListenError, TlsFiles};
use berth_server::runtime::{Server, ServerOptions, StartError};

use crate::tls::authority::Authority;

#[tokio::test]
async fn beyond_loopback_tls_and_authentication_are_needed() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let (cert_file, key_file) = authority.server().write(directory.path(), "tls");
    let authority_file = directory.path().join("ca.crt");
    fs::write(&authority_file, authority.pem()).unwrap();
    let token_file = directory.path().join("tokens.csv");
    fs::write(&token_file, "a-token,jane,1,berth:reader\n").unwrap();
    let identity = TlsFiles { cert_file, key_file, client_ca_file: None };
    let asking = TlsFiles { client_ca_file: Some(authority_file), ..identity.clone() };
    let tokens = AuthOptions { token_file: Some(token_file), ..AuthOptions::default() };
    let anonymous = RoleBinding {
        role: Role::Reader,
        users: vec!["system:anonymous".to_owned()],
        groups: Vec::new(),
    };
    let readers = AuthOptions { role_bindings: vec![anonymous], ..AuthOptions::default() };
    let (none, nobody) = (None::<TlsFiles>, AuthOptions::default());

    let anywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
    for (grpc_address, http_address, protocol) in
        [(anywhere, loopback, "gRPC"), (loopback, anywhere, "HTTP")]
    {
        let options = |tls: &Option<TlsFiles>, auth: &AuthOptions| ServerOptions {
            grpc_address,
            http_address,
            tls: tls.clone(),
            auth: auth.clone(),
            ..ServerOptions::default()
        };
        for (tls, auth, expected) in [
            (&none, &nobody, ["`--tls-cert-file`", "`--token-file`"]),
            (&none, &tokens, ["`--tls-cert-file`", "tokens included"]),
            (&Some(identity.clone()), &nobody, ["`--tls-client-ca-file`", "`--token-file`"]),
        ] {
            let error = Server::start(options(tls, auth)).await.err().unwrap();
            assert!(matches!(error, StartError::Listen(ListenError::Insecure { .. })), "{error}");
            let error = error.to_string();
            let start = format!("refusing to listen for {protocol} on `0.0.0.0:0`: ");
            assert!(error.starts_with(&start), "{error}");
            assert!(expected.iter().all(|text| error.contains(text)), "{error}");
            let allowed = ServerOptions { insecure: true, ..options(tls, auth) };
            assert!(Server::start(allowed).await.is_ok());
        }
        for (tls, auth) in [
            (&Some(identity.clone()), &tokens),
            (&Some(asking.clone()), &nobody),
            (&Some(identity.clone()), &readers),
        ] {
            assert!(Server::start(options(tls, auth)).await.is_ok());
        }
    }
}
