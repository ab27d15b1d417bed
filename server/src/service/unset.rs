//! Refuses values of a caller's object that are present and empty: a quantity without its text, a number or string with
//! neither (W-PB-10). They read as zero, and Kubernetes never writes them, so they are what is left of a value that a
//! client could not express. Feeds take them as Kubernetes does.
//!
//! Times are refused only where Kubernetes writes no zero time: `metadata.creationTimestamp` is the empty message in
//! every object that was never stored.

use std::collections::BTreeMap;

use berth_engine::ModelError;
use berth_proto::core_v1::{
    self, Container, LifecycleHandler, Node, Pod, Probe, ResourceRequirements,
};
use berth_proto::{IntOrString, Quantity, Time};

type Checked = Result<(), ModelError>;

/// Checks a pod that a decision is asked for.
pub(crate) fn check_pod(pod: &Pod) -> Checked {
    if let Some(metadata) = &pod.metadata {
        time(metadata.deletion_timestamp.as_ref(), "metadata.deletionTimestamp")?;
    }
    if let Some(status) = &pod.status {
        time(status.start_time.as_ref(), "status.startTime")?;
    }
    let Some(spec) = &pod.spec else { return Ok(()) };
    check_spec(spec).map_err(|error| under("spec", error))
}

/// Checks a node that a decision is asked for.
pub(crate) fn check_node(node: &Node) -> Checked {
    let Some(status) = &node.status else { return Ok(()) };
    quantities(&status.capacity, "status.capacity")?;
    quantities(&status.allocatable, "status.allocatable")
}

fn check_spec(spec: &core_v1::PodSpec) -> Checked {
    let lists = [("containers", &spec.containers), ("initContainers", &spec.init_containers)];
    for (field, containers) in lists {
        for (i, container) in containers.iter().enumerate() {
            check_container(container).map_err(|error| under(&format!("{field}[{i}]"), error))?;
        }
    }
    resources(spec.resources.as_ref())?;
    quantities(&spec.overhead, "overhead")
}

fn check_container(container: &Container) -> Checked {
    resources(container.resources.as_ref())?;
    let probes = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    for (field, probe) in probes {
        if let Some(probe) = probe {
            check_probe(probe).map_err(|error| under(field, error))?;
        }
    }
    let Some(lifecycle) = &container.lifecycle else { return Ok(()) };
    for (field, handler) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)]
    {
        if let Some(handler) = handler {
            check_handler(handler).map_err(|error| under(&format!("lifecycle.{field}"), error))?;
        }
    }
    Ok(())
}

fn check_probe(probe: &Probe) -> Checked {
    let Some(handler) = &probe.handler else { return Ok(()) };
    port(handler.http_get.as_ref().and_then(|get| get.port.as_ref()), "httpGet.port")?;
    port(handler.tcp_socket.as_ref().and_then(|socket| socket.port.as_ref()), "tcpSocket.port")
}

fn check_handler(handler: &LifecycleHandler) -> Checked {
    port(handler.http_get.as_ref().and_then(|get| get.port.as_ref()), "httpGet.port")?;
    port(handler.tcp_socket.as_ref().and_then(|socket| socket.port.as_ref()), "tcpSocket.port")
}

fn resources(resources: Option<&ResourceRequirements>) -> Checked {
    let Some(resources) = resources else { return Ok(()) };
    quantities(&resources.requests, "resources.requests")?;
    quantities(&resources.limits, "resources.limits")
}

fn quantities(list: &BTreeMap<String, Quantity>, field: &str) -> Checked {
    match list.iter().find(|(_, quantity)| quantity.is_unset()) {
        None => Ok(()),
        Some((name, _)) => {
            let field = format!("{field}[{}]", crate::escape::clipped(name));
            Err(ModelError { field, reason: "the quantity has no `string`".to_owned() })
        }
    }
}

fn port(port: Option<&IntOrString>, field: &str) -> Checked {
    refuse(port.is_some_and(IntOrString::is_unset), field, "has neither a type nor a value")
}

fn time(time: Option<&Time>, field: &str) -> Checked {
    refuse(
        time.is_some_and(|time| time.unix_seconds().is_none()),
        field,
        "the time has no `seconds`",
    )
}

fn under(parent: &str, error: ModelError) -> ModelError {
    ModelError { field: format!("{parent}.{}", error.field), ..error }
}

fn refuse(is_unset: bool, field: &str, reason: &str) -> Checked {
    if is_unset {
        Err(ModelError { field: field.to_owned(), reason: reason.to_owned() })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn pod(json: &str) -> Pod {
        serde_json::from_str(json).unwrap()
    }

    /// W-PB-10.
    #[test]
    fn values_that_are_present_and_empty_are_named() {
        let mut pod = pod(r#"{"metadata": {"name": "p"}, "spec": {"containers": [{}, {"name": "c",
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
                "livenessProbe": {"httpGet": {"port": 80}}}]}}"#);
        let found = |pod: &Pod| check_pod(pod).map_err(|error| (error.field, error.reason));
        let expect = |pod: &Pod, field: &str| assert_eq!(found(pod).unwrap_err().0, field);
        assert_eq!(found(&pod), Ok(()));
        // A pod that was never stored, as Kubernetes' own types write it.
        pod.metadata.as_mut().unwrap().creation_timestamp = Some(Time::default());
        assert_eq!(found(&pod), Ok(()));

        let mut changed = pod.clone();
        let container = &mut changed.spec.as_mut().unwrap().containers[1];
        let requests = &mut container.resources.as_mut().unwrap().requests;
        requests.insert("memory".to_owned(), Quantity::decode(&b""[..]).unwrap());
        expect(&changed, "spec.containers[1].resources.requests[memory]");

        let mut changed = pod.clone();
        let container = &mut changed.spec.as_mut().unwrap().containers[1];
        let handler = container.liveness_probe.as_mut().unwrap().handler.as_mut().unwrap();
        handler.http_get.as_mut().unwrap().port = Some(IntOrString::default());
        expect(&changed, "spec.containers[1].livenessProbe.httpGet.port");

        let mut changed = pod.clone();
        changed.metadata.as_mut().unwrap().deletion_timestamp = Some(Time::default());
        expect(&changed, "metadata.deletionTimestamp");

        let mut changed = pod;
        changed.spec.as_mut().unwrap().overhead.insert("cpu".to_owned(), Quantity::default());
        assert_eq!(
            found(&changed).unwrap_err(),
            ("spec.overhead[cpu]".to_owned(), "the quantity has no `string`".to_owned())
        );
    }
}
