// Objects for a what-if session: nodes made of their summaries, pods made of workloads, deltas of manifests.

import { YamlError } from "./whatif-yaml-flow.js";
import { parseDocuments } from "./whatif-yaml.js";

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const HOSTNAME = "kubernetes.io/hostname";
/** Kinds that a session takes as they are, by the name of their field in a delta. */
const PLAIN_KINDS = new Map([
  "Namespace", "Service", "ReplicationController", "ReplicaSet", "StatefulSet", "PersistentVolume",
  "PersistentVolumeClaim", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment",
  "PodDisruptionBudget", "PriorityClass", "LimitRange", "RuntimeClass", "ResourceQuota", "DeviceClass",
  "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate",
].map((kind) => [kind, `upsert${kind.replace("CSI", "Csi")}`]));
const WORKLOADS = new Set([
  "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController",
  "PodTemplate",
]);
/** Controllers that placements read: default spreading takes their selector. */
const KEPT_CONTROLLERS = new Set(["ReplicaSet", "StatefulSet", "ReplicationController"]);

const DAEMON_TOLERATIONS = [
  ["not-ready", "NoExecute"], ["unreachable", "NoExecute"], ["disk-pressure", "NoSchedule"],
  ["memory-pressure", "NoSchedule"], ["pid-pressure", "NoSchedule"], ["unschedulable", "NoSchedule"],
].map(([key, effect]) => ({ key: `node.kubernetes.io/${key}`, operator: "Exists", effect }));

/** A text of the reader's that has no objects. */
export class UnfitText extends Error {}

/** An amount of a summary as a quantity. */
const quantity = (resource, n) => (resource === "cpu" ? `${n}m` : String(n));

/** A taint of a summary, `key=value:Effect`, as an object. */
function taint(text) {
  const at = text.lastIndexOf(":");
  const [whole, effect] = [text.slice(0, at), text.slice(at + 1)];
  const equals = whole.indexOf("=");
  return equals < 0
    ? { key: whole, effect }
    : { key: whole.slice(0, equals), value: whole.slice(equals + 1), effect };
}

/**
 * A node made of its summary: labels, taints and allocatable amounts.
 * @param {Object} summary of `/v1/list-nodes`
 * @param {{name?: string, unschedulable?: boolean}} changes
 */
export function nodeOf(summary, { name = summary.name, unschedulable = summary.unschedulable } = {}) {
  const { labels = {}, taints = [], allocatable: amounts = {}, allowedPods = 0 } = summary;
  const mapped = (object, value) =>
    Object.fromEntries(Object.entries(object).map(([key, it]) => [key, value(key, it)]));
  const allocatable = { ...mapped(amounts, quantity), pods: String(allowedPods) };
  const isCopy = name !== summary.name;
  return {
    metadata: { name, labels: mapped(labels, (key, value) => (isCopy && key === HOSTNAME ? name : value)) },
    spec: { unschedulable, taints: taints.map(taint) },
    status: { allocatable, capacity: allocatable },
  };
}

/** Copies of a node, with names that the cluster does not have. */
export function copiesOf(summary, n, isTaken) {
  const copies = [];
  // A copy is a new node: it is ready, and nobody has cordoned it.
  const isPassing = (text) => /^node\.kubernetes\.io\/|^node\.cloudprovider\.kubernetes\.io\//.test(text);
  const fresh = { ...summary, taints: (summary.taints ?? []).filter((text) => !isPassing(text)) };
  const base = summary.name.slice(0, 230);
  for (let at = 1; copies.length < n; at += 1) {
    const name = `${base}-copy-${at}`;
    if (!isTaken(name)) {
      copies.push(nodeOf(fresh, { name, unschedulable: false }));
    }
  }
  return copies;
}

/** A pod like `pod`, pending and without what belongs to that one alone. */
export function pendingPod(pod, name = pod.metadata?.name, uid = pod.metadata?.uid) {
  const { namespace, labels, annotations, ownerReferences } = pod.metadata ?? {};
  const { nodeName, ...spec } = pod.spec ?? {};
  const metadata = { namespace: namespace || "default", name, uid, labels, annotations, ownerReferences };
  return { metadata, spec };
}

/** `n` pods more like `pod`. */
export function morePods(pod, n) {
  const base = `${(pod.metadata?.name ?? "pod").slice(0, 230)}-more`;
  return Array.from({ length: n }, (_, at) => {
    const name = `${base}-${at + 1}`;
    return pendingPod(pod, name, `what-if/${pod.metadata?.namespace || "default"}/${name}`);
  });
}

/**
 * The objects of a text, sorted by what becomes of them.
 * @returns {{nodes: Object[], others: Array<{field: string, object: Object}>, pods: Object[],
 *   workloads: Object[], ignored: Map<string, number>}}
 */
export function readObjects(text) {
  const found = { nodes: [], others: [], pods: [], workloads: [], ignored: new Map() };
  for (const object of objectsIn(text)) {
    const kind = object?.kind;
    if (typeof kind !== "string") {
      throw new UnfitText("each object has to have a `kind`, such as `kind: Pod`");
    }
    const isStored = Boolean(object.metadata?.uid);
    if (kind === "Node") {
      found.nodes.push(object);
    } else if (kind === "Pod") {
      found.pods.push(inNamespace(object));
    } else if (WORKLOADS.has(kind) && !isStored) {
      found.workloads.push(inNamespace(object));
    } else if (PLAIN_KINDS.has(kind)) {
      found.others.push({ field: PLAIN_KINDS.get(kind), object });
    } else {
      found.ignored.set(kind, (found.ignored.get(kind) ?? 0) + 1);
    }
  }
  return found;
}

function objectsIn(text) {
  try {
    return parseDocuments(text).flatMap(itemsOf);
  } catch (error) {
    throw error instanceof YamlError ? new UnfitText(error.message) : error;
  }
}

function itemsOf(document) {
  const { kind, items } = document ?? {};
  const isList = typeof kind === "string" && kind.endsWith("List") && Array.isArray(items);
  return isList ? items.flatMap(itemsOf) : [document];
}

const inNamespace = (object) =>
  ({ ...object, metadata: { ...object.metadata, namespace: object.metadata?.namespace || "default" } });

function templateOf({ kind, spec, template }) {
  const found = { CronJob: spec?.jobTemplate?.spec?.template, PodTemplate: template };
  return (kind in found ? found[kind] : spec?.template) ?? {};
}

/**
 * The pods that a workload's controller would create, with the names that the server gave them.
 * @param {Object} workload
 * @param {Array<{namespace: string, name: string, uid: string}>} keys
 */
export function podsOf(workload, keys) {
  const { metadata: { labels, annotations } = {}, spec = {} } = templateOf(workload);
  return keys.map(({ namespace, name, uid }) => {
    const ownerReferences = ownersOf(workload, name);
    return {
      metadata: { namespace, name, uid, labels, annotations, ownerReferences },
      spec: { ...spec, ...volumesOf(workload, name), ...boundByAffinity(workload, name, spec) },
    };
  });
}

function ownersOf({ kind, metadata }, podName) {
  if (kind === "PodTemplate") {
    return [];
  }
  const owner = kind === "Deployment" ? { kind: "ReplicaSet", name: podName.replace(/-[^-]*$/, "") }
    : { kind: kind.replace("Cron", ""), name: metadata.name };
  const apiVersion = kind === "ReplicationController" ? "v1" : kind.endsWith("Job") ? "batch/v1" : "apps/v1";
  return [{ apiVersion, ...owner, uid: `what-if/${metadata.namespace}/${owner.name}`, controller: true }];
}

const claimName = (template, podName) => `${template.metadata?.name}-${podName}`;

const claimTemplates = ({ kind, spec }) => (kind === "StatefulSet" ? spec?.volumeClaimTemplates ?? [] : []);

/** Volumes of a StatefulSet's pod: those of the template, and the claims of its own. */
function volumesOf(workload, podName) {
  const own = claimTemplates(workload).map((template) =>
    ({ name: template.metadata?.name, persistentVolumeClaim: { claimName: claimName(template, podName) } }));
  return own.length > 0 ? { volumes: [...(templateOf(workload).spec?.volumes ?? []), ...own] } : {};
}

/** A DaemonSet's pod is bound to its node, whose name its own ends with; its controller adds tolerations. */
function boundByAffinity(workload, podName, spec) {
  if (workload.kind !== "DaemonSet") {
    return {};
  }
  const node = podName.slice(workload.metadata.name.length + 1);
  const { affinity } = spec;
  const required = affinity?.nodeAffinity?.[REQUIRED]?.nodeSelectorTerms ?? [{}];
  const matchFields = [{ key: "metadata.name", operator: "In", values: [node] }];
  const nodeSelectorTerms = required.map((term) => ({ ...term, matchFields }));
  const nodeAffinity = { ...affinity?.nodeAffinity, [REQUIRED]: { nodeSelectorTerms } };
  const tolerations = [...(spec.tolerations ?? []), ...DAEMON_TOLERATIONS];
  return { affinity: { ...affinity, nodeAffinity }, tolerations };
}

/** What exists beside the pods of a workload, as deltas: its controller, and claims of its pods. */
export function besidePods(workload, pods) {
  const { metadata: { namespace }, spec, kind } = workload;
  const deltas = KEPT_CONTROLLERS.has(kind) ? [{ [PLAIN_KINDS.get(kind)]: workload }] : [];
  if (kind === "Deployment" && pods.length > 0) {
    const { name } = pods[0].metadata.ownerReferences[0];
    const made = { replicas: pods.length, selector: spec?.selector };
    deltas.push({ upsertReplicaSet: { metadata: { namespace, name }, spec: made } });
  }
  const claims = claimTemplates(workload).flatMap((template) => pods.map((pod) => {
    const name = claimName(template, pod.metadata.name);
    const metadata = { namespace, name, labels: template.metadata?.labels };
    return { upsertPersistentVolumeClaim: { metadata, spec: template.spec } };
  }));
  return deltas.concat(claims);
}
