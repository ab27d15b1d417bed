use super::*;
use crate::telemetry::Metrics;
use ::http::HeaderValue;
use ::http::header::AUTHORIZATION;

struct World {
    auth: Auth,
    metrics: Metrics,
    _directory: tempfile::TempDir,
}

const NEVER: i64 = i64::MAX;

/// World with one token, `abc` of `jane`, and with client certificates if `takes_certificates`.
fn world(takes_tokens: bool, takes_certificates: bool) -> World {
    world_with(takes_tokens, takes_certificates, Vec::new())
}

/// World in which also anonymous callers are bound to a role.
fn world_with_anonymous(takes_tokens: bool, takes_certificates: bool) -> World {
    let users = vec!["system:anonymous".to_owned()];
    let bound = RoleBinding { role: Role::Reader, users, groups: vec![] };
    world_with(takes_tokens, takes_certificates, vec![bound])
}

fn world_with(takes_tokens: bool, takes_certificates: bool, more: Vec<RoleBinding>) -> World {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tokens.csv");
    std::fs::write(&path, "abc,jane,1,berth:feeder\n").unwrap();
    let tokens = takes_tokens.then(|| TokenFile::read(&path).unwrap());
    let mut bindings = more;
    bindings.push(RoleBinding {
        role: Role::Scheduler,
        users: vec!["joe".to_owned()],
        groups: vec!["planners".to_owned()],
    });
    let metrics = Metrics::new();
    let counts = metrics.auth().clone();
    let auth = Auth::new(tokens.as_ref(), &bindings, takes_certificates, counts).unwrap();
    World { auth, metrics, _directory: directory }
}

fn headers(authorization: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !authorization.is_empty() {
        headers.insert(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap());
    }
    headers
}

fn peer(common_name: Option<&str>, organizations: &[&str], not_after: i64) -> PeerIdentity {
    let certificate = PeerCertificate {
        common_name: common_name.map(Into::into),
        organizations: organizations.iter().map(|name| (*name).into()).collect(),
        not_after,
        ..PeerCertificate::default()
    };
    PeerIdentity::new(Some(certificate))
}

impl World {
    fn ask(&self, peer: Option<&PeerIdentity>, authorization: &str) -> Result<Arc<Caller>, String> {
        let answer = self.auth.authenticate(peer, &headers(authorization));
        answer.map_err(|error| {
            assert!(matches!(error, AuthError::Unauthenticated { .. }), "{error:?}");
            error.to_string()
        })
    }

    fn check_refused(&self, peer: Option<&PeerIdentity>, authorization: &str, expected: &str) {
        let error = self.ask(peer, authorization).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn callers_are_not_authenticated_without_credentials_to_check() {
    let world = world(false, false);
    assert!(world.auth.is_open());
    for authorization in ["", "Bearer wrong", "Basic x"] {
        let caller = world.ask(None, authorization).unwrap();
        assert_eq!((&*caller.user, caller.roles), ("anonymous", Roles::ALL));
    }
}

#[test]
fn a_certificate_names_its_caller_once_a_connection() {
    let world = world(true, true);
    let joe = peer(Some("joe"), &["berth:lifecycle", "people"], NEVER);
    let caller = world.ask(Some(&joe), "").unwrap();
    assert_eq!((&*caller.user, caller.means), ("joe", Means::Certificate));
    assert_eq!(*caller.groups, ["berth:lifecycle".into(), "people".into()]);
    assert_eq!(caller.roles, Roles::NONE.with(Role::Lifecycle).with(Role::Scheduler));
    assert!(Arc::ptr_eq(&caller, &world.ask(Some(&joe), "").unwrap()));
    let jane = world.ask(Some(&peer(Some("jane"), &["planners"], NEVER)), "").unwrap();
    assert_eq!(jane.roles, Roles::NONE.with(Role::Scheduler));
    let nobody = world.ask(Some(&peer(Some("other"), &["o"], NEVER)), "").unwrap();
    assert_eq!(nobody.roles, Roles::NONE);
}

#[test]
fn a_token_counts_before_a_certificate() {
    let world = world(true, true);
    let joe = peer(Some("joe"), &["berth:admin"], NEVER);
    let caller = world.ask(Some(&joe), "Bearer abc").unwrap();
    assert_eq!((&*caller.user, caller.roles), ("jane", Roles::NONE.with(Role::Feeder)));
    world.check_refused(Some(&joe), "Bearer abd", "the bearer token is not known");
    world.check_refused(Some(&joe), "Basic abc", "no other scheme");
    let text = world.metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
    for line in [
        "berth_authentications_total{means=\"token\",outcome=\"success\"} 1",
        "berth_authentications_total{means=\"token\",outcome=\"failure\"} 2",
        "berth_authentications_total{means=\"certificate\",outcome=\"success\"} 0",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn an_unknown_caller_learns_which_credential_to_send() {
    let (both, tokens, certificates) = (world(true, true), world(true, false), world(false, true));
    both.check_refused(None, "", "`authorization: Bearer TOKEN`) or a client certificate");
    tokens.check_refused(Some(&PeerIdentity::new(None)), "", "send a bearer token");
    certificates.check_refused(None, "", "send a client certificate");
    certificates.check_refused(None, "Bearer abc", "knows nobody by a bearer token");
    both.check_refused(Some(&peer(None, &["berth:admin"], NEVER)), "", "no common name (CN)");
    both.check_refused(Some(&peer(Some(""), &["berth:admin"], NEVER)), "", "no common name (CN)");
    let late = peer(Some("joe"), &[], 1_000_000_000);
    both.check_refused(Some(&late), "", "has expired since the connection was made");
}

#[test]
fn a_caller_without_credentials_reads_if_a_binding_allows_it() {
    let reader = Roles::NONE.with(Role::Reader);
    for (takes_tokens, takes_certificates) in
        [(true, true), (true, false), (false, true), (false, false)]
    {
        let world = world_with_anonymous(takes_tokens, takes_certificates);
        assert!(!world.auth.is_open());
        for peer in [None, Some(&PeerIdentity::new(None))] {
            let caller = world.ask(peer, "").unwrap();
            assert_eq!((&*caller.user, caller.roles), ("system:anonymous", reader));
            assert_eq!(caller.means, Means::Nothing);
        }
        // An invalid credential is never ignored.
        let unknown = if takes_tokens { "is not known" } else { "knows nobody by a bearer token" };
        world.check_refused(None, "Bearer abd", unknown);
        world.check_refused(None, "Basic abc", "no other scheme");
        world.check_refused(None, "Bearer", "no token");
        world.check_refused(Some(&peer(None, &["berth:admin"], NEVER)), "", "no common name (CN)");
        let late = peer(Some("joe"), &[], 1_000_000_000);
        world.check_refused(Some(&late), "", "has expired since the connection was made");
        // An authenticated caller does not have the anonymous one's roles besides.
        let stranger = world.ask(Some(&peer(Some("other"), &[], NEVER)), "").unwrap();
        assert_eq!((&*stranger.user, stranger.roles), ("other", Roles::NONE));
        let text = world.metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
        for line in [
            "berth_authentications_total{means=\"nothing\",outcome=\"success\"} 2",
            "berth_authentications_total{means=\"nothing\",outcome=\"failure\"} 0",
            "berth_authentications_total{means=\"token\",outcome=\"failure\"} 3",
            "berth_authentications_total{means=\"certificate\",outcome=\"failure\"} 2",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
    let world = world_with_anonymous(false, false);
    world.check_refused(None, "Bearer abc", "knows nobody by a bearer token: send none");
}

#[test]
fn a_bad_new_file_keeps_the_old_tokens() {
    let world = world(true, false);
    let path = Path::new("tokens.csv");
    world.auth.reload_tokens(path, b"def,joe,1\n").unwrap();
    world.check_refused(None, "Bearer abc", "is not known");
    assert_eq!(&*world.ask(None, "Bearer def").unwrap().user, "joe");
    let error = world.auth.reload_tokens(path, b"ghi,joe\n").unwrap_err().to_string();
    assert!(error.starts_with("`tokens.csv` line 1: has 2 of the columns"), "{error}");
    world.check_refused(None, "Bearer ghi", "is not known");
    assert_eq!(&*world.ask(None, "Bearer def").unwrap().user, "joe");
    let text = world.metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
    for line in [
        "berth_auth_reloads_total{outcome=\"success\"} 1",
        "berth_auth_reloads_total{outcome=\"failure\"} 1",
    ] {
        assert!(text.contains(line), "{text}");
    }
}
