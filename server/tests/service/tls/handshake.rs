//! Handshakes: without a client certificate if the server wants none, with a valid one if it is presented, and never
//! without TLS.

use std::io;

use berth_client::{Client, ClientError, Credentials};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tonic::Code;

use crate::tls::authority::{Authority, Identity, Validity};
use crate::tls::world::{Port, World, closed, eventually, get, read_all};

const PORTS: [Port; 2] = [Port::Grpc, Port::Http];

#[tokio::test]
async fn both_ports_speak_tls_and_ask_for_nothing() {
    let world = World::open().await;
    assert_eq!(world.client(None).await.get_cluster().await.unwrap().n_nodes, 0);
    let answer = world.get("/livez", None).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // A certificate that the server did not request is ignored.
    let stranger = Authority::new().reader(Validity::Past);
    let answer = world.get("/metrics", Some(&stranger)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let expiry = world.metric("berth_tls_certificate_expiry_timestamp_seconds", None).await;
    assert!(expiry > 1_700_000_000.0, "{expiry}");
}

/// The name in the certificate is the user whose roles are checked, on both ports.
#[tokio::test]
async fn a_certificate_says_who_calls() {
    let world = World::with_client_certificates().await;
    let jane = world.authority.reader(Validity::Now);
    assert_eq!(world.client(Some(&jane)).await.get_cluster().await.unwrap().n_nodes, 0);
    let answer = world.get("/metrics", Some(&jane)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // A certificate is optional at the handshake, because probes have none.
    let answer = world.get("/livez", None).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = world.get("/metrics", None).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    let error = world.client(None).await.get_cluster().await.unwrap_err();
    let ClientError::Rpc { status, .. } = error else { panic!("{error}") };
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
}

#[tokio::test]
async fn a_certificate_that_is_shown_has_to_be_good() {
    let world = World::with_client_certificates().await;
    let not_for_clients = world.authority.server();
    let mut n_refused = 0.0;
    for (what, identity, alert) in [
        ("expired", world.authority.reader(Validity::Past), "CertificateExpired"),
        ("not yet valid", world.authority.reader(Validity::Future), "CertificateExpired"),
        ("of nobody known", Authority::named("another").reader(Validity::Now), "UnknownCA"),
        // The name is the authority's, but the key is not.
        ("of an impostor", Authority::new().reader(Validity::Now), "DecryptError"),
        ("of a server", not_for_clients, ""),
    ] {
        for port in PORTS {
            let error = refusal(&world, port, &identity).await;
            assert!(error.contains(alert), "{what}: {error}");
        }
        n_refused += 1.0;
        let jane = world.authority.reader(Validity::Now);
        for protocol in ["grpc", "http"] {
            let name = format!(
                "berth_connections_refused_total{{protocol=\"{protocol}\",reason=\"handshake\"}}"
            );
            // Counted once the peer has closed its side too.
            eventually(what, || async { world.metric(&name, Some(&jane)).await == n_refused })
                .await;
        }
    }
}

/// The server's refusal of a client with this certificate. With TLS 1.3 the client has finished its side of the
/// handshake by then, so that only the first read fails.
async fn refusal(world: &World, port: Port, identity: &Identity) -> String {
    let outcome: io::Result<Vec<u8>> = async {
        let mut stream = world.secure(port, Some(identity)).await?;
        read_all(&mut stream).await
    }
    .await;
    match outcome {
        Ok(answer) => panic!("{port:?} let it in: {answer:?}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_client_refuses_another_name() {
    let world = World::open().await;
    for port in PORTS {
        let error = world.secure_as("berth.example", port, None).await.unwrap_err().to_string();
        assert!(error.contains("not valid for name"), "{error}");
    }
    assert!(world.get("/livez", None).await.is_ok());
}

#[tokio::test]
async fn what_is_not_tls_is_turned_away() {
    let world = World::open().await;
    let zeros = [0; 4_096];
    let hello_of_a_giant = [22, 3, 1, 255, 255, 1, 0, 255, 255];
    for port in PORTS {
        for bytes in [
            &b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            &zeros,
            &hello_of_a_giant,
        ] {
            let mut stream = TcpStream::connect(("127.0.0.1", world.port(port))).await.unwrap();
            // The server may close before everything is written.
            drop(stream.write_all(bytes).await);
            drop(stream.shutdown().await);
            let answer = closed(&mut stream).await;
            // An alert at most.
            assert!(answer.len() <= 7, "{port:?}: {answer:?}");
        }
    }
    assert_eq!(world.client(None).await.get_cluster().await.unwrap().n_nodes, 0);
    assert!(world.get("/livez", None).await.is_ok());
}

/// Mixed up files are named before anything is sent.
#[tokio::test]
async fn a_client_names_the_file_that_is_wrong() {
    let world = World::with_client_certificates().await;
    let jane = world.authority.reader(Validity::Now);
    let path = |name: &str| world.directory.path().join(name);
    let (cert_file, key_file) = jane.write(world.directory.path(), "jane");
    let torn = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    std::fs::write(path("torn.key"), torn).unwrap();
    let url = format!("https://localhost:{}", world.port(Port::Grpc));
    for (certificate, key, expected) in [
        (&key_file, &key_file, "jane.key` holds no certificate in PEM"),
        (&cert_file, &cert_file, "jane.crt` holds no unencrypted private key in PEM"),
        (&cert_file, &path("torn.key"), "torn.key`"),
        (&cert_file, &path("none"), "cannot read `"),
    ] {
        let credentials = Credentials {
            client_cert_file: Some(certificate.clone()),
            client_key_file: Some(key.clone()),
            ..Credentials::trusting(path("ca.crt"))
        };
        let error = Client::connect_with(&url, 1, &credentials).await.unwrap_err();
        assert!(matches!(error, ClientError::Url { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains(expected) && !error.contains("AAAA"), "{error}");
    }
}

/// HTTP over gRPC's port: no protocol in common, so there is no connection in the first place.
#[tokio::test]
async fn ports_say_what_they_speak() {
    let world = World::open().await;
    let mut stream = world.secure(Port::Http, None).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(get(&mut stream, "/livez").await.unwrap().starts_with("HTTP/1.1 200 "));
    let stream = world.secure(Port::Grpc, None).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
}
