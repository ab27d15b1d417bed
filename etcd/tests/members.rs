//! The client on a real etcd; skipped where there is none.
#![cfg(test)]

use std::time::Duration;

use berth_etcd::mvcc::event::EventType;
use berth_etcd::rpc::{TxnRequest, WatchCreateRequest};
use berth_etcd::{Client, ClientOptions, EtcdError, Password, Tls, range, transaction};
use berth_testing::etcd::Etcd;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

fn options(etcd: &Etcd) -> ClientOptions {
    ClientOptions {
        endpoints: etcd.endpoints(),
        tls: None,
        password: None,
        timeout: Duration::from_secs(5),
    }
}

fn put(key: &str, value: &str, lease: i64) -> TxnRequest {
    TxnRequest { success: vec![transaction::put(key, value, lease)], ..TxnRequest::default() }
}

async fn value(client: &Client, key: &str) -> Option<String> {
    let answer = client.range(range::key(key)).await.unwrap();
    answer.kvs.first().map(|stored| String::from_utf8(stored.value.clone()).unwrap())
}

/// Asks until a member answers.
async fn until_answered<T, F>(ask: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, EtcdError>>,
{
    const N_ATTEMPTS: usize = 60;
    for _ in 1..N_ATTEMPTS {
        match ask().await {
            Err(EtcdError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
            answer => return answer.unwrap(),
        }
    }
    ask().await.unwrap()
}

#[tokio::test]
async fn a_transaction_compares() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let client = Client::new(&options(&etcd)).unwrap();
    let create = |value: &str| TxnRequest {
        compare: vec![transaction::created_at("k", 0)],
        failure: vec![transaction::read(range::key("k"))],
        ..put("k", value, 0)
    };
    let first = client.transact(create("a")).await.unwrap();
    assert!(first.succeeded);
    assert!(!client.transact(create("b")).await.unwrap().succeeded);
    let revision = first.header.unwrap().revision;
    for (compare, holds) in [
        (transaction::created_at("k", revision), true),
        (transaction::changed_at("k", revision), true),
        (transaction::changed_at("k", revision - 1), false),
        (transaction::has_value("k", "a"), true),
        (transaction::has_value("k", "b"), false),
    ] {
        let request = TxnRequest { compare: vec![compare.clone()], ..TxnRequest::default() };
        assert_eq!(client.transact(request).await.unwrap().succeeded, holds, "{compare:?}");
    }
    let many = (0..200).map(|n| transaction::put(format!("{n}"), "x", 0)).collect();
    let too_many = TxnRequest { success: many, ..TxnRequest::default() };
    let refused = client.transact(too_many).await.unwrap_err();
    assert!(matches!(&refused, EtcdError::Invalid(_)), "{refused}");
    let gone = [transaction::delete("k"), transaction::delete_range("0", "9")];
    let delete = TxnRequest { success: gone.into(), ..TxnRequest::default() };
    assert!(client.transact(delete).await.unwrap().succeeded);
    assert_eq!(value(&client, "k").await, None);
}

#[tokio::test]
async fn reads_go_to_another_member() {
    let Some(mut etcd) = Etcd::start(3, &[]) else { return };
    let client = Client::new(&options(&etcd)).unwrap();
    client.transact(put("k", "a", 0)).await.unwrap();
    for member in 0..3 {
        etcd.kill(member);
        // While the others elect a leader, no read is answered; the client gives each no more than its time.
        let read = until_answered(|| client.range(range::key("k"))).await;
        assert_eq!(read.kvs.first().map(|stored| &stored.value[..]), Some(&b"a"[..]));
        etcd.restart(member);
    }
    assert!(until_answered(|| client.status()).await.leader != 0);
    assert_eq!(until_answered(|| client.alarms()).await, []);
}

#[tokio::test]
async fn a_watch_tells_changes_and_what_it_missed() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let client = Client::new(&options(&etcd)).unwrap();
    let (key, range_end) = (b"a/".to_vec(), range::end_of_prefix(b"a/"));
    let request = WatchCreateRequest { key, range_end, ..WatchCreateRequest::default() };
    let mut watch = client.watch(request.clone()).await.unwrap();
    assert!(watch.next().await.unwrap().created);
    client.transact(put("a/1", "x", 0)).await.unwrap();
    client.transact(put("b/1", "x", 0)).await.unwrap();
    let delete = TxnRequest { success: vec![transaction::delete("a/1")], ..TxnRequest::default() };
    let deleted = client.transact(delete).await.unwrap().header.unwrap().revision;
    let mut events = Vec::new();
    while events.len() < 2 {
        events.extend(watch.next().await.unwrap().events);
    }
    let types: Vec<_> = events.iter().map(|event| event.r#type()).collect();
    assert_eq!(types, [EventType::Put, EventType::Delete]);
    client.compact(deleted).await.unwrap();
    let old = WatchCreateRequest { start_revision: 1, ..request };
    let mut watch = client.watch(old).await.unwrap();
    let error = loop {
        if let Err(error) = watch.next().await {
            break error;
        }
    };
    assert!(matches!(&error, EtcdError::Compacted(_)), "{error}");
}

#[tokio::test]
async fn a_lease_ends_with_its_keys() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let client = Client::new(&options(&etcd)).unwrap();
    let (lease, ttl) = client.grant_lease(Duration::from_secs(60)).await.unwrap();
    assert_eq!(ttl, Duration::from_secs(60));
    client.transact(put("k", "a", lease)).await.unwrap();
    assert_eq!(client.renew_lease(lease).await.unwrap(), ttl);
    client.revoke_lease(lease).await.unwrap();
    assert_eq!(value(&client, "k").await, None);
    assert_eq!(client.renew_lease(lease).await.unwrap(), Duration::ZERO);
}

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), certificate }
    }

    /// A certificate for this machine, and its key.
    fn sign(&self) -> (String, String) {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let key = KeyPair::generate().unwrap();
        let signed = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer);
        (signed.unwrap().pem(), key.serialize_pem())
    }
}

#[tokio::test]
async fn certificates_name_both_sides() {
    let directory = tempfile::tempdir().unwrap();
    let [ca, other] = [Authority::new(), Authority::new()];
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (certificate, key) = ca.sign();
    let [certificate, key, authority] = [
        file("server.crt", &certificate),
        file("server.key", &key),
        file("ca.crt", &ca.certificate),
    ];
    let of_server = ["--cert-file", &certificate, "--key-file", &key];
    let of_clients = ["--trusted-ca-file", &authority, "--client-cert-auth"];
    let Some(etcd) = Etcd::start(1, &[&of_server[..], &of_clients[..]].concat()) else { return };
    let with = |trusted: &Authority, signer: Option<&Authority>| {
        let identity = signer.map(|signer| {
            let (certificate, key) = signer.sign();
            (certificate.into_bytes(), key.into_bytes())
        });
        let tls = Some(Tls { ca: trusted.certificate.clone().into_bytes(), identity });
        ClientOptions { tls, ..options(&etcd) }
    };
    let client = Client::new(&with(&ca, Some(&ca))).unwrap();
    client.transact(put("k", "a", 0)).await.unwrap();
    for refused in [with(&ca, None), with(&ca, Some(&other)), with(&other, Some(&ca))] {
        let stranger = Client::new(&refused).unwrap();
        let error = stranger.range(range::key("k")).await.unwrap_err();
        assert!(matches!(&error, EtcdError::Unavailable(_)), "{error}");
        // A certificate that was renewed is used from now on.
        stranger.renew(&with(&ca, Some(&ca))).unwrap();
        assert_eq!(value(&stranger, "k").await.as_deref(), Some("a"));
    }
}

#[tokio::test]
async fn a_user_has_a_password() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let user = ["user", "add", "root:secret"];
    if !etcd.control(&user) {
        return;
    }
    assert!(etcd.control(&["user", "grant-role", "root", "root"]));
    assert!(etcd.control(&["auth", "enable"]));
    let with = |password: &str| {
        let password = Password { user: "root".to_owned(), password: password.to_owned() };
        ClientOptions { password: Some(password), ..options(&etcd) }
    };
    let client = Client::new(&with("secret")).unwrap();
    client.transact(put("k", "a", 0)).await.unwrap();
    assert_eq!(value(&client, "k").await.as_deref(), Some("a"));
    for refused in [with("guess"), options(&etcd)] {
        let error = Client::new(&refused).unwrap().range(range::key("k")).await.unwrap_err();
        assert!(matches!(&error, EtcdError::Denied(_)), "{error}");
    }
}
