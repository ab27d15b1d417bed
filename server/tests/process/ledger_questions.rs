//! `berth ledger` against a server: the journal, who holds what, and that both agree.

use berth_client::Client;
use berth_proto::berth_v1::{
    AcquireIdentityRequest, AdvanceFenceRequest, AttachVolumeRequest, BreakAttachmentRequest,
};

use crate::served::{Served, berth, serve};

/// What a question prints, and whether it ends well.
fn ask(served: &Served, question: &str) -> (String, bool) {
    let mut command = berth();
    command.args(question.split(' ')).args(["--server", &served.url]);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.success())
}

/// Six changes: a name is granted and two volumes, a node is fenced, and one of the volumes is taken from it.
async fn change(client: &Client) {
    let mut ledger = client.lifecycle();
    let actor = || "test".to_owned();
    let identity = AcquireIdentityRequest {
        namespace: "shop".to_owned(),
        name: "db-0".to_owned(),
        uid: "u1".to_owned(),
        node_name: "n1".to_owned(),
        actor: actor(),
    };
    ledger.acquire_identity(identity).await.unwrap();
    for (volume, pod_uid) in [("v", "u1"), ("w", "u2")] {
        let attach = AttachVolumeRequest {
            volume: volume.to_owned(),
            node: "n1".to_owned(),
            pod_uid: pod_uid.to_owned(),
            actor: actor(),
            ..AttachVolumeRequest::default()
        };
        assert!(ledger.attach_volume(attach).await.unwrap().into_inner().ok);
    }
    let fence = async |r#type: &str, token| {
        let request = AdvanceFenceRequest {
            node_name: "n1".to_owned(),
            r#type: r#type.to_owned(),
            scope: "compute".to_owned(),
            token,
            actor: actor(),
            ..AdvanceFenceRequest::default()
        };
        client.lifecycle().advance_fence(request).await.unwrap().into_inner().record.unwrap().token
    };
    let token = fence("Decide", 0).await;
    fence("FenceConfirmed", token).await;
    let request = BreakAttachmentRequest {
        volume: "v".to_owned(),
        node: "n1".to_owned(),
        actor: actor(),
        ..BreakAttachmentRequest::default()
    };
    assert!(ledger.break_attachment(request).await.unwrap().into_inner().ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_is_listed_asked_and_verified() {
    let served = Served::start(&mut serve());
    assert_eq!(ask(&served, "ledger list"), ("no change is recorded\n".to_owned(), true));
    change(&Client::connect(&served.url, 1).await.unwrap()).await;
    let (journal, _) = ask(&served, "ledger list");
    assert_eq!(journal.lines().count(), 7, "{journal}");
    for part in ["identity/shop/db-0", "Granted", "FenceConfirmed", "on the caller's word"] {
        assert!(journal.contains(part), "{part} is not in\n{journal}");
    }
    let (last, _) = ask(&served, "ledger list --last 1");
    assert!(last.lines().count() == 2 && last.contains("BreakAttachment"), "{last}");
    let (history, _) = ask(&served, "ledger history volume/v");
    assert!(history.lines().count() == 3 && history.contains("Attached"), "{history}");
    for (subject, expected) in [
        ("identity/shop/db-0", "shop/db-0 is held by uid u1 on n1"),
        ("identity/shop/db-1", "shop/db-1 is free"),
        ("volume/v", "nobody holds it"),
        ("volume/w", "u2"),
        ("fence/n1", "n1: AttachmentsBroken, scope compute"),
        ("fence/n2", "n2 was never fenced"),
    ] {
        let (text, _) = ask(&served, &format!("ledger holder {subject}"));
        assert!(text.contains(expected), "{subject}: {text}");
    }
    let (verified, is_sound) = ask(&served, "ledger verify");
    assert!(is_sound, "{verified}");
    assert_eq!(
        verified,
        "6 changes of 4 subjects: the journal has no gap, and every record agrees with it\n"
    );
    let (error, is_sound) = ask(&served, "ledger holder n1");
    assert!(!is_sound && error.contains("neither identity/NAMESPACE/POD"), "{error}");
    served.stop();
}
