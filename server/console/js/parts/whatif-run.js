// Answers a basket in a session. Changes are made in one order whatever theirs in the basket: nodes and other
// objects, then nodes that go, then all pods that need a place are placed, the most urgent first.

import { call } from "../api.js";
import { plural } from "../format.js";
import { podName } from "./podwords.js";
import { measure } from "./whatif-measure.js";
import { besidePods, copiesOf, morePods, nodeOf, pendingPod, podsOf, readObjects } from "./whatif-objects.js";
import { Refused, inSession } from "./whatif-session.js";

/** Pods that wait in the cluster and are tried again after the changes; more of them stay as they are. */
const MAX_TRIED = 5000;
const DAEMON_ANNOTATION = "cluster-autoscaler.kubernetes.io/daemonset-pod";
const MIRROR_ANNOTATION = "kubernetes.io/config.mirror";
/** What becomes of a pod of a node that goes, where the drain says so. */
const ENDS = new Map([
  ["DRAIN_VERDICT_DAEMON", "ends with its node (DaemonSet)"],
  ["DRAIN_VERDICT_MIRROR", "ends with its node (static pod)"],
  ["DRAIN_VERDICT_LONG_TERMINATING", "should be gone already"],
  ["DRAIN_VERDICT_ON_COMPLETION", "is waited for until it has completed"],
]);

/**
 * @param {import("./whatif-basket.js").Basket} basket
 * @param {{signal: AbortSignal, say: function(string)}} options `say` is told what is being done
 * @returns {Promise<Object>} `before` and `after` as of `measure`, what became of each pod, and remarks
 */
export function answer(basket, { signal, say }) {
  const objects = readObjects(basket.manifest);
  return inSession(signal, async (session) => {
    say("Reading the cluster as it is");
    const before = await measure(session);
    const run = new Run(session, basket, objects, before);
    run.check();
    say("Making the changes on the copy");
    const grown = await run.grown();
    const waiting = await run.waiting();
    await run.addObjects();
    const moved = await run.removeNodes();
    const made = await run.made();
    say("Placing pods on the copy");
    const pods = await run.place([...waiting, ...moved, ...made, ...grown]);
    say("Reading the copy");
    const after = await measure(session);
    return { before, after, pods, gone: run.gone, drained: run.drained, notes: run.notes };
  });
}

class Run {
  constructor(session, basket, objects, before) {
    Object.assign(this, { session, basket, objects, before });
    this.notes = [];
    /** Pods that end with their node: `{key, node, why}`. */
    this.gone = [];
    this.drained = null;
  }

  /** Fails for names that the cluster does not have. */
  check() {
    const { basket: { add, remove, cordon }, objects, before: { nodes } } = this;
    const problems = [];
    const expect = (names, what) => {
      for (const name of names.filter((one) => !nodes.has(one))) {
        problems.push({ what: `${what} ${name}`, reason: "the cluster has no node of this name" });
      }
    };
    expect(add.map(({ name }) => name), "Copies of");
    expect(remove, "Remove");
    expect(cordon, "Cordon");
    const known = new Set([...nodes.keys(), ...objects.nodes.map((node) => node.metadata?.name)]);
    for (const { metadata, spec } of objects.pods) {
      if (spec?.nodeName && !known.has(spec.nodeName)) {
        const reason = `the cluster has no node ${spec.nodeName}`;
        problems.push({ what: `Pod ${podName(metadata)}`, field: "spec.nodeName", reason });
      }
    }
    if (problems.length > 0) {
      throw new Refused(problems);
    }
    for (const [kind, n] of objects.ignored) {
      this.notes.push(`${plural(n, "object")} of kind ${kind} left out: placements do not depend on such.`);
    }
  }

  /** Nodes and other objects that exist as well, and nodes that are cordoned. */
  async addObjects() {
    const { basket, objects, before: { nodes } } = this;
    const names = new Set([...nodes.keys(), ...objects.nodes.map((node) => node.metadata?.name)]);
    const isTaken = (name) => names.has(name);
    const deltas = objects.nodes.map((node) => ({ upsertNode: node }));
    for (const { name, n } of basket.add) {
      for (const copy of copiesOf(nodes.get(name), n, isTaken)) {
        names.add(copy.metadata.name);
        deltas.push({ upsertNode: copy });
      }
    }
    for (const name of basket.cordon.filter((one) => !basket.remove.includes(one))) {
      deltas.push({ upsertNode: nodeOf(nodes.get(name), { unschedulable: true }) });
    }
    const others = objects.others.map(({ field, object }) => ({ [field]: object }));
    await this.session.apply(deltas.concat(others), { admit: others.length > 0 });
    const bound = objects.pods.filter((pod) => pod.spec?.nodeName);
    await this.session.apply(bound.map((pod) => ({ upsertPod: pod })), { admit: true });
  }

  /** Removes nodes with their pods. Returns the pods that are made anew elsewhere. */
  async removeNodes() {
    const names = this.basket.remove;
    if (names.length === 0) {
      return [];
    }
    const nodeRules = { ignoreScaleDownDisabled: true };
    this.drained = await this.session.call("/v1/drain",
      { nodeNames: names, mode: "DRAIN_MODE_TOGETHER", nodeRules });
    const verdicts = new Map();
    for (const { pod, verdict } of (this.drained.nodes ?? []).flatMap((node) => node.pods ?? [])) {
      verdicts.set(podName(pod), verdict);
    }
    const [moved, deltas] = [[], []];
    for (const nodeName of names) {
      const { items } = await this.session.list("/v1/list-pods", "pods", { nodeName, withObjects: true });
      for (const pod of items) {
        deltas.push({ deletePod: pod.key });
        const why = endOf(pod, verdicts.get(podName(pod.key)));
        if (why) {
          this.gone.push({ key: pod.key, node: nodeName, why });
        } else {
          moved.push({ key: pod.key, from: nodeName, source: "moved", pod: pendingPod(pod.object) });
        }
      }
      deltas.push({ deleteNode: nodeName });
    }
    await this.session.apply(deltas);
    return moved;
  }

  /** Pods of the cluster that wait, the oldest first. */
  async waiting() {
    const body = { waits: true, withObjects: true };
    const { items, isWhole } = await this.session.list("/v1/list-pods", "pods", body, MAX_TRIED);
    if (!isWhole) {
      this.notes.push(`Only ${plural(MAX_TRIED, "waiting pod")} are tried again; the others wait on.`);
    }
    const replaced = new Set(this.objects.pods.map((pod) => podName(pod.metadata)));
    const isTried = ({ key, object }) =>
      object && !object.metadata?.deletionTimestamp && !replaced.has(podName(key));
    return items.filter(isTried)
      .sort((a, b) => (Date.parse(a.created) || 0) - (Date.parse(b.created) || 0))
      .map(({ key, object }) => ({ key, source: "waiting", isKnown: true, pod: object }));
  }

  /** More pods like some of the cluster. */
  async grown() {
    const problems = [];
    let entries = [];
    for (const { namespace, name, n } of this.basket.grow) {
      const key = { namespace, name };
      try {
        const { pod } = await this.session.call("/v1/get-pod", { key });
        entries = entries.concat(morePods(pod ?? {}, n).map((one) => ({ source: "new", pod: one })));
      } catch (error) {
        if (error.code !== "NOT_FOUND") {
          throw error;
        }
        problems.push({ what: `More pods like ${podName(key)}`, reason: error.message });
      }
    }
    if (problems.length > 0) {
      throw new Refused(problems);
    }
    return entries;
  }

  /** Pods of the text that need a place: those given, and those that its workloads' controllers create. */
  async made() {
    let pods = this.objects.pods.filter((pod) => !pod.spec?.nodeName);
    for (const workload of this.objects.workloads) {
      const made = await this.expanded(workload);
      await this.session.apply(besidePods(workload, made), { admit: true });
      pods = pods.concat(made);
    }
    return pods.map((pod) => ({ source: "new", admit: true, pod }));
  }

  /** The pods of a workload. The server expands it, and tells their names. */
  async expanded(workload) {
    const path = `/v1/place?sessionId=${encodeURIComponent(this.session.id)}`;
    const what = `${workload.kind} ${podName(workload.metadata)}`;
    const answered = await call(path, workload, { signal: this.session.signal }).catch((error) => {
      // The place in the body is not one of the reader's text.
      const reason = error.message.replace(/^`[^`]*`: body:\d+ \(document \d+\): /, "");
      throw error.status === 400 ? new Refused([{ what, field: error.field, reason }]) : error;
    });
    this.notes.push(...(answered.notes ?? []));
    const results = answered.results ?? [];
    const [error] = results.flatMap((result) => result.error ?? []);
    if (error) {
      throw new Refused([{ what, field: error.field, reason: error.message }]);
    }
    return podsOf(workload, results.flatMap((result) => result.decision?.pod ?? []));
  }

  /** Places the pods, and says what became of each. */
  async place(entries) {
    const outcomes = await this.session.place(entries);
    const problems = entries.flatMap(({ pod, source }, at) => {
      const { isError, reason } = outcomes[at];
      return isError && source === "new" ? [{ what: `Pod ${podName(pod.metadata)}`, reason }] : [];
    });
    if (problems.length > 0) {
      throw new Refused(problems);
    }
    return entries.map(({ pod, source, from, key = pod.metadata }, at) =>
      ({ key, source, from, priority: pod.spec?.priority ?? 0, ...outcomes[at] }));
  }
}

/** Why a pod of a node that goes is not made anew; empty if it is. */
function endOf(pod, verdict) {
  const { annotations = {}, deletionTimestamp } = pod.object?.metadata ?? {};
  const owner = pod.owner ?? "";
  if (ENDS.has(verdict)) {
    return ENDS.get(verdict);
  }
  if (MIRROR_ANNOTATION in annotations || owner.startsWith("Node/")) {
    return ENDS.get("DRAIN_VERDICT_MIRROR");
  }
  if (owner.startsWith("DaemonSet/") || annotations[DAEMON_ANNOTATION] === "true") {
    return ENDS.get("DRAIN_VERDICT_DAEMON");
  }
  if (deletionTimestamp) {
    return "is being deleted";
  }
  if (!owner) {
    return "is lost: no controller makes it anew";
  }
  return pod.object ? "" : "is lost to this answer: no feed has reported it yet";
}
