//! The defaults of the API: what kube-apiserver fills in whenever it reads a pod. Rules: A-DEF-5 to A-DEF-8, A-DEF-12,
//! A-DEF-14.

use berth_proto::core_v1::{
    Container, ContainerPort, HttpGetAction, Lifecycle, Pod, PodSpec, Probe, Volume, VolumeSource,
};

use super::filling::{DEFAULT, Filling};
use super::requests;

/// The parts of a container, whose message boxes the larger ones (`as_deref_mut`) or not (`as_mut`).
macro_rules! parts {
    ($container:expr, $borrow:ident) => {{
        let container = $container;
        Parts {
            image: &container.image,
            image_pull_policy: &mut container.image_pull_policy,
            termination_message_path: &mut container.termination_message_path,
            termination_message_policy: &mut container.termination_message_policy,
            ports: &mut container.ports,
            probes: [
                ("livenessProbe", container.liveness_probe.$borrow()),
                ("readinessProbe", container.readiness_probe.$borrow()),
                ("startupProbe", container.startup_probe.$borrow()),
            ],
            lifecycle: container.lifecycle.$borrow(),
        }
    }};
}

pub(super) fn fill(pod: &mut Pod, filling: &mut Filling) {
    let spec = pod.spec.get_or_insert_default();
    of_spec(spec, filling);
    for (index, volume) in spec.volumes.iter_mut().enumerate() {
        of_volume(volume, &format!("spec.volumes[{index}]"), filling);
    }
    for (index, container) in spec.init_containers.iter_mut().enumerate() {
        parts!(container, as_deref_mut).fill(&format!("spec.initContainers[{index}]"), filling);
    }
    for (index, container) in spec.containers.iter_mut().enumerate() {
        parts!(container, as_deref_mut).fill(&format!("spec.containers[{index}]"), filling);
    }
    for (index, container) in spec.ephemeral_containers.iter_mut().enumerate() {
        if let Some(common) = &mut container.ephemeral_container_common {
            parts!(common, as_mut).fill(&format!("spec.ephemeralContainers[{index}]"), filling);
        }
    }
    requests::fill(spec, filling);
    if spec.host_network {
        host_ports(&mut spec.init_containers, "spec.initContainers", filling);
        host_ports(&mut spec.containers, "spec.containers", filling);
    }
}

/// The pod's own fields (A-DEF-5) and its spread constraints (A-DEF-12).
fn of_spec(spec: &mut PodSpec, filling: &mut Filling) {
    let at = "spec";
    filling.text(&mut spec.restart_policy, "Always", at, "restartPolicy");
    let grace = &mut spec.termination_grace_period_seconds;
    filling.optional(grace, 30, at, "terminationGracePeriodSeconds");
    filling.text(&mut spec.dns_policy, "ClusterFirst", at, "dnsPolicy");
    filling.text(&mut spec.scheduler_name, "default-scheduler", at, "schedulerName");
    filling.optional(&mut spec.enable_service_links, true, at, "enableServiceLinks");
    for (index, constraint) in spec.topology_spread_constraints.iter_mut().enumerate() {
        let at = format!("spec.topologySpreadConstraints[{index}]");
        let when = &mut constraint.when_unsatisfiable;
        filling.text(when, "DoNotSchedule", &at, "whenUnsatisfiable");
    }
}

/// Sets the host port of each port that has none to the container's port (A-DEF-7).
fn host_ports(containers: &mut [Container], field: &str, filling: &mut Filling) {
    for (index, container) in containers.iter_mut().enumerate() {
        for (at, port) in container.ports.iter_mut().enumerate() {
            if port.host_port == 0 && port.container_port != 0 {
                port.host_port = port.container_port;
                let path = format!("{field}[{index}].ports[{at}].hostPort");
                filling.note(path, port.host_port.to_string(), "hostNetwork");
            }
        }
    }
}

/// The parts of a container that have defaults; containers of all lists have them.
struct Parts<'a> {
    image: &'a str,
    image_pull_policy: &'a mut String,
    termination_message_path: &'a mut String,
    termination_message_policy: &'a mut String,
    ports: &'a mut [ContainerPort],
    probes: [(&'static str, Option<&'a mut Probe>); 3],
    lifecycle: Option<&'a mut Lifecycle>,
}

impl Parts<'_> {
    /// Fills in what a container lacks (A-DEF-6 to A-DEF-8).
    fn fill(self, at: &str, filling: &mut Filling) {
        filling.text(self.image_pull_policy, pull_policy(self.image), at, "imagePullPolicy");
        let path = self.termination_message_path;
        filling.text(path, "/dev/termination-log", at, "terminationMessagePath");
        filling.text(self.termination_message_policy, "File", at, "terminationMessagePolicy");
        for (index, port) in self.ports.iter_mut().enumerate() {
            filling.text(&mut port.protocol, "TCP", &format!("{at}.ports[{index}]"), "protocol");
        }
        for (name, probe) in self.probes {
            if let Some(probe) = probe {
                of_probe(probe, &format!("{at}.{name}"), filling);
            }
        }
        let Some(lifecycle) = self.lifecycle else { return };
        let hooks =
            [("postStart", &mut lifecycle.post_start), ("preStop", &mut lifecycle.pre_stop)];
        for (name, hook) in hooks {
            if let Some(request) = hook.as_mut().and_then(|hook| hook.http_get.as_mut()) {
                of_request(request, &format!("{at}.lifecycle.{name}.httpGet"), filling);
            }
        }
    }
}

/// The pull policy by the image's tag (A-DEF-6).
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        None if digest.is_empty() && !image.is_empty() => "Always",
        Some(_) | None => "IfNotPresent",
    }
}

/// The timing and the request of a probe (A-DEF-8).
fn of_probe(probe: &mut Probe, at: &str, filling: &mut Filling) {
    filling.number(&mut probe.timeout_seconds, 1, at, "timeoutSeconds");
    filling.number(&mut probe.period_seconds, 10, at, "periodSeconds");
    filling.number(&mut probe.success_threshold, 1, at, "successThreshold");
    filling.number(&mut probe.failure_threshold, 3, at, "failureThreshold");
    let Some(handler) = &mut probe.handler else { return };
    if let Some(request) = &mut handler.http_get {
        of_request(request, &format!("{at}.httpGet"), filling);
    }
    if let Some(grpc) = &mut handler.grpc {
        filling.optional(&mut grpc.service, String::new(), at, "grpc.service");
    }
}

fn of_request(request: &mut HttpGetAction, at: &str, filling: &mut Filling) {
    filling.text(&mut request.path, "/", at, "path");
    filling.text(&mut request.scheme, "HTTP", at, "scheme");
}

/// The options of a volume's source (A-DEF-14), and the pull policy of an image volume (A-DEF-6).
fn of_volume(volume: &mut Volume, at: &str, filling: &mut Filling) {
    let Some(source) = &mut volume.volume_source else { return };
    let VolumeSource { host_path, iscsi, rbd, azure_disk, ephemeral, image, .. } = source;
    if let Some(path) = host_path {
        filling.optional(&mut path.r#type, String::new(), at, "hostPath.type");
    }
    if let Some(disk) = iscsi {
        filling.text(&mut disk.iscsi_interface, "default", at, "iscsi.iscsiInterface");
    }
    if let Some(device) = rbd {
        filling.text(&mut device.pool, "rbd", at, "rbd.pool");
        filling.text(&mut device.user, "admin", at, "rbd.user");
        filling.text(&mut device.keyring, "/etc/ceph/keyring", at, "rbd.keyring");
    }
    if let Some(disk) = azure_disk {
        let at = format!("{at}.azureDisk");
        filling.optional(&mut disk.caching_mode, "ReadWrite".to_owned(), &at, "cachingMode");
        filling.optional(&mut disk.kind, "Shared".to_owned(), &at, "kind");
        filling.optional(&mut disk.fs_type, "ext4".to_owned(), &at, "fsType");
        filling.optional(&mut disk.read_only, false, &at, "readOnly");
    }
    let template = ephemeral.as_mut().and_then(|volume| volume.volume_claim_template.as_mut());
    if let Some(claim) = template.and_then(|template| template.spec.as_mut())
        && claim.volume_mode.is_none()
    {
        claim.volume_mode = Some("Filesystem".to_owned());
        let field = format!("{at}.ephemeral.volumeClaimTemplate.spec.volumeMode");
        filling.note(field, "Filesystem", DEFAULT);
    }
    if let Some(image) = image {
        let policy = pull_policy(&image.reference);
        filling.text(&mut image.pull_policy, policy, at, "image.pullPolicy");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(json: &str) -> (Pod, Vec<String>) {
        let mut pod: Pod = serde_json::from_str(json).unwrap();
        let mut filling = Filling::default();
        fill(&mut pod, &mut filling);
        let lines = filling.finish().filled;
        let lines =
            lines.into_iter().map(|it| format!("{} = {} ({})", it.field, it.value, it.source));
        let mut again = Filling::default();
        let before = pod.clone();
        fill(&mut pod, &mut again);
        assert_eq!(again.finish().filled, []);
        assert_eq!(before, pod);
        (pod, lines.collect())
    }

    /// A-DEF-5, A-DEF-6, A-DEF-7, A-DEF-8
    #[test]
    fn an_empty_pod_and_a_container() {
        let (_, lines) = filled(
            r#"{"spec": {"hostNetwork": true, "containers": [{"image": "web", "ports": [{"containerPort": 80}],
                 "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 3}}]}}"#,
        );
        let expected = [
            "spec.restartPolicy = Always (default)",
            "spec.terminationGracePeriodSeconds = 30 (default)",
            "spec.dnsPolicy = ClusterFirst (default)",
            "spec.schedulerName = default-scheduler (default)",
            "spec.enableServiceLinks = true (default)",
            "spec.containers[0].imagePullPolicy = Always (default)",
            "spec.containers[0].terminationMessagePath = /dev/termination-log (default)",
            "spec.containers[0].terminationMessagePolicy = File (default)",
            "spec.containers[0].ports[0].protocol = TCP (default)",
            "spec.containers[0].readinessProbe.timeoutSeconds = 1 (default)",
            "spec.containers[0].readinessProbe.successThreshold = 1 (default)",
            "spec.containers[0].readinessProbe.failureThreshold = 3 (default)",
            "spec.containers[0].readinessProbe.httpGet.path = / (default)",
            "spec.containers[0].readinessProbe.httpGet.scheme = HTTP (default)",
            "spec.containers[0].ports[0].hostPort = 80 (hostNetwork)",
        ];
        assert_eq!(lines, expected);
    }

    /// A-DEF-6
    #[test]
    fn pull_policies() {
        for (image, policy) in [
            ("web", "Always"),
            ("web:latest", "Always"),
            ("host:5000/web", "Always"),
            ("web:1", "IfNotPresent"),
            ("host:5000/web:1", "IfNotPresent"),
            ("web@sha256:00", "IfNotPresent"),
            ("web:latest@sha256:00", "Always"),
            ("", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    /// A-DEF-12: the action has a default here; the two policies stay absent.
    #[test]
    fn spread_constraints() {
        let (pod, lines) = filled(
            r#"{"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z"}]}}"#,
        );
        let constraint = &pod.spec.unwrap().topology_spread_constraints[0];
        assert_eq!(constraint.when_unsatisfiable, "DoNotSchedule");
        assert_eq!(
            (&constraint.node_affinity_policy, &constraint.node_taints_policy),
            (&None, &None)
        );
        let line = "spec.topologySpreadConstraints[0].whenUnsatisfiable = DoNotSchedule (default)";
        assert!(lines.contains(&line.to_owned()), "{lines:?}");
    }

    /// A-DEF-14
    #[test]
    fn volumes() {
        let (_, lines) = filled(
            r#"{"spec": {"volumes": [
                {"name": "a", "hostPath": {"path": "/a"}}, {"name": "b", "rbd": {"image": "i", "pool": "p"}},
                {"name": "c", "azureDisk": {"diskName": "d"}}, {"name": "d", "iscsi": {"iqn": "q"}},
                {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "f", "image": {"reference": "r:1"}}, {"name": "g"}]}}"#,
        );
        let of_volumes: Vec<&str> =
            lines.iter().filter_map(|line| line.strip_prefix("spec.volumes")).collect();
        let expected = [
            "[0].hostPath.type =  (default)",
            "[1].rbd.user = admin (default)",
            "[1].rbd.keyring = /etc/ceph/keyring (default)",
            "[2].azureDisk.cachingMode = ReadWrite (default)",
            "[2].azureDisk.kind = Shared (default)",
            "[2].azureDisk.fsType = ext4 (default)",
            "[2].azureDisk.readOnly = false (default)",
            "[3].iscsi.iscsiInterface = default (default)",
            "[4].ephemeral.volumeClaimTemplate.spec.volumeMode = Filesystem (default)",
            "[5].image.pullPolicy = IfNotPresent (default)",
        ];
        assert_eq!(of_volumes, expected);
    }
}
