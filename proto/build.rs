//! Compiles the `.proto` files without `protoc` and writes, into `OUT_DIR`: the message types, the tonic services, the
//! descriptor set for reflection, the table of RPCs (`build/access.rs`), the JSON form of every message
//! (`build/json.rs`), the schemas of that form (`build/openapi.rs`), the names of all fields of Kubernetes' objects
//! (`build/fields.rs`), and the layouts of requests in memory (`build/layout.rs`).

#[path = "build/access.rs"]
mod access;
#[path = "build/fields.rs"]
mod fields;
#[path = "build/json.rs"]
mod json;
#[path = "build/layout.rs"]
mod layout;
#[path = "build/openapi.rs"]
mod openapi;

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use protox::prost_reflect::prost_types::{DescriptorProto, FileDescriptorSet};

/// Folders in which `import` looks.
const INCLUDES: [&str; 2] = ["kubernetes", "."];

/// The files to compile; their imports follow.
const FILES: [&str; 16] = [
    "berth/v1/autoscaler.proto",
    "berth/v1/cluster.proto",
    "berth/v1/decisions.proto",
    "berth/v1/lifecycle.proto",
    "berth/v1/placement.proto",
    "berth/v1/preemption.proto",
    "berth/v1/session.proto",
    "grpcplugin/expander.proto",
    "kubernetes/k8s.io/api/apps/v1/generated.proto",
    "kubernetes/k8s.io/api/batch/v1/generated.proto",
    "kubernetes/k8s.io/api/node/v1/generated.proto",
    "kubernetes/k8s.io/api/policy/v1/generated.proto",
    "kubernetes/k8s.io/api/resource/v1/generated.proto",
    "kubernetes/k8s.io/api/scheduling/v1/generated.proto",
    "kubernetes/k8s.io/api/storage/v1/generated.proto",
    "kubernetes/k8s.io/apimachinery/pkg/runtime/generated.proto",
];

/// Files that declare options of methods only: no message of theirs is ever sent, so none becomes a Rust type.
const OPTIONS: [&str; 2] = ["berth/v1/access.proto", "google/protobuf/descriptor.proto"];

/// Messages that `src/` writes by hand, by their Rust path.
const BY_HAND: [(&str, &str); 4] = [
    (".k8s.io.apimachinery.pkg.api.resource.Quantity", "crate::Quantity"),
    (".k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime", "crate::MicroTime"),
    (".k8s.io.apimachinery.pkg.apis.meta.v1.Time", "crate::Time"),
    (".k8s.io.apimachinery.pkg.util.intstr.IntOrString", "crate::IntOrString"),
];

/// Messages whose pod is kept as it was sent (`src/encoded_pod.rs`): those of the most frequent requests.
const ENCODED_PODS: [&str; 2] = ["BatchEntry", "PlaceRequest"];
/// The type of a pod that is kept as it was sent: its name in the descriptors that prost compiles, which no `.proto` file has, and its path in
/// Rust.
const ENCODED_POD: (&str, &str) = (".berth.v1.EncodedPod", "crate::EncodedPod");

/// Fields kept behind a pointer: large, rarely set fields, so that a volume or a container stays small.
const BOXED: [&str; 13] = [
    ".berth.v1.Placement.devices",
    ".berth.v1.PlaceResponse.admission",
    ".k8s.io.api.core.v1.Container.lifecycle",
    ".k8s.io.api.core.v1.Container.livenessProbe",
    ".k8s.io.api.core.v1.Container.readinessProbe",
    ".k8s.io.api.core.v1.Container.startupProbe",
    ".k8s.io.api.core.v1.VolumeSource.azureDisk",
    ".k8s.io.api.core.v1.VolumeSource.csi",
    ".k8s.io.api.core.v1.VolumeSource.ephemeral",
    ".k8s.io.api.core.v1.VolumeSource.fc",
    ".k8s.io.api.core.v1.VolumeSource.iscsi",
    ".k8s.io.api.core.v1.VolumeSource.nfs",
    ".k8s.io.api.core.v1.VolumeSource.rbd",
];

fn main() -> Result<(), Box<dyn Error>> {
    for folder in ["berth", "build", "grpcplugin", "kubernetes"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new(INCLUDES)?;
    compiler.include_imports(true).include_source_info(true).open_files(FILES)?;
    fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    fs::write(out.join("access.rs"), access::table(&compiler.descriptor_pool())?)?;
    fs::write(out.join("openapi.rs"), openapi::tables(&compiler.descriptor_pool())?)?;

    let layouts = layout::tables(&compiler.descriptor_pool(), &BY_HAND)?;
    fs::write(out.join("layout.rs"), layouts)?;

    let mut descriptors = compiler.file_descriptor_set();
    // Options of methods: the table above has them.
    descriptors.file.retain(|file| !OPTIONS.contains(&file.name()));
    name_plurals(&mut descriptors);
    let fields = fields::Fields::read(&fs::read_to_string("kubernetes/fields.txt")?)?;
    fs::write(out.join("fields.rs"), fields.tables()?)?;
    fs::write(out.join("json.rs"), json::implementations(&descriptors, &fields)?)?;
    keep_encoded(&mut descriptors);

    let mut builder = tonic_prost_build::configure().btree_map(".").include_file("packages.rs");
    for (message, path) in BY_HAND.into_iter().chain([ENCODED_POD]) {
        builder = builder.extern_path(message, path);
    }
    for field in BOXED {
        builder = builder.boxed(field);
    }
    builder.compile_fds(descriptors)?;
    Ok(())
}

/// Gives the fields of [`ENCODED_PODS`] the type of a pod that is not decoded; the published descriptors keep the pod.
fn keep_encoded(descriptors: &mut FileDescriptorSet) {
    const POD: &str = ".k8s.io.api.core.v1.Pod";
    for file in descriptors.file.iter_mut().filter(|file| file.package() == "berth.v1") {
        let mut pods = Vec::new();
        for message in file.message_type.iter_mut().filter(|it| ENCODED_PODS.contains(&it.name())) {
            pods.extend(message.field.iter_mut().filter(|field| field.type_name() == POD));
        }
        let Some(pod) = pods.first().map(|field| (**field).clone()) else { continue };
        for field in pods {
            field.type_name = Some(ENCODED_POD.0.to_owned());
        }
        // prost looks at the fields of each message, of those with a path of their own too.
        let name = ENCODED_POD.0.rsplit('.').next().map(str::to_owned);
        file.message_type.push(DescriptorProto { name, field: vec![pod], ..Default::default() });
    }
}

/// Gives plural acronyms (`podIPs`, `podCIDRs`, `targetWWNs`) a readable Rust name; the JSON name and the published descriptors keep
/// upstream's. Without this they would become `pod_i_ps`.
fn name_plurals(descriptors: &mut FileDescriptorSet) {
    let messages = descriptors.file.iter_mut().flat_map(|file| &mut file.message_type);
    for field in messages.flat_map(|message| &mut message.field) {
        for (plural, readable) in [("IPs", "Ips"), ("CIDRs", "Cidrs"), ("WWNs", "Wwns")] {
            if let Some(stem) = field.name().strip_suffix(plural) {
                field.name = Some(format!("{stem}{readable}"));
            }
        }
    }
}
