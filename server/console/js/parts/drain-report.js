// The answer to a drain: what can go, what stands in the way, the waves, and what becomes of each pod.

import { timeline } from "../chart.js";
import { h } from "../dom.js";
import { count, percent, plural, safe } from "../format.js";
import { table } from "../table.js";
import { tag } from "./cells.js";
import { remedyOf } from "./drain-rules.js";
import { lazyDetails } from "./lazy.js";
import { nodeLink, podLink, podName, withCode } from "./podwords.js";
import { column, nodes as nodeColumn, numbers, pods, sentences, texts } from "./whatif-columns.js";
import { figures } from "./whatif-words.js";

const FIRST_NODES = 50;
const FIRST_LANES = 60;

const [MOVES, DAEMON, MIRROR, LATE, WAITED, BLOCKED, NO_ROOM] = [
  "MOVES", "DAEMON", "MIRROR", "LONG_TERMINATING", "ON_COMPLETION", "BLOCKED", "NO_ROOM",
].map((name) => `DRAIN_VERDICT_${name}`);
/** The word for a verdict, and the kind of its label. */
const VERDICTS = new Map([
  [MOVES, ["moves", ""]], [DAEMON, ["ends (DaemonSet)", ""]], [MIRROR, ["ends (static pod)", ""]],
  [LATE, ["should be gone", ""]], [WAITED, ["is waited for", "warn"]], [BLOCKED, ["blocked", "bad"]],
  [NO_ROOM, ["no room", "bad"]],
]);
const verdictOf = (pod) => VERDICTS.get(pod.verdict) ?? ["-", ""];

/** Why a node or a pod stays, by the name that cluster-autoscaler has for it. */
const REASONS = new Map([
  ["NotReplicated", "no controller would make the pod anew"],
  ["LocalStorageRequested", "the pod keeps data on its node"],
  ["NotSafeToEvictAnnotation", "the pod is annotated as not safe to evict"],
  ["UnmovableKubeSystemPod", "a young pod of kube-system that no disruption budget covers"],
  ["NotEnoughPdb", "a disruption budget allows no more"],
  ["ControllerNotFound", "the pod's controller does not exist"],
  ["MinReplicasReached", "the pod's controller has too few replicas"],
  ["NoPlaceToMovePods", "no other node has room for the pod"],
  ["ScaleDownDisabledAnnotation", "the node is annotated to stay"],
  ["ScaleDownUnreadyDisabled", "the node is not ready"],
  ["NotAutoscaled", "the node is of no group"],
  ["NotUnderutilized", "too much of the node is requested"],
  ["CurrentlyBeingDeleted", "the node is being removed already"],
  ["NoNodeInfo", "the cluster has no such node"],
  ["BlockedByPod", "a pod of the node must not be moved"],
  ["BlockedByOnCompletionPod", "a pod of the node has to complete first"],
]);
const reasonText = (reason) => REASONS.get(reason) ?? (reason || "no reason is given");

const podsOf = (node, ...verdicts) => (node.pods ?? []).filter((pod) => verdicts.includes(pod.verdict));

/** What keeps nodes: a row for each pod in the way, or for the node itself. */
function obstacles(nodes) {
  return nodes.filter((node) => !node.removable).flatMap((node) => {
    const { nodeName, blockingPod, message: said, unremovableReason = "" } = node;
    const rowOf = ({ pod, verdict, blockingReason, message, budgets = [] }) => {
      const reason = verdict === NO_ROOM ? "NoPlaceToMovePods" : blockingReason ?? "";
      return { node: nodeName, pod, message, budgets, reason };
    };
    const rows = podsOf(node, BLOCKED, NO_ROOM).map(rowOf);
    const own = { node: nodeName, pod: blockingPod, message: said, budgets: [], reason: unremovableReason };
    return rows.length > 0 ? rows : [own];
  });
}

function byReason(rows) {
  const found = new Map();
  for (const { reason, node } of rows) {
    const entry = found.get(reason) ?? { reason, nTimes: 0, nodes: new Set() };
    entry.nTimes += 1;
    entry.nodes.add(node);
    found.set(reason, entry);
  }
  return [...found.values()].sort((a, b) => b.nodes.size - a.nodes.size);
}

function reasonItem({ reason, nTimes, nodes }, onAllow) {
  const rule = onAllow && remedyOf(reason);
  const allow = () => onAllow(rule);
  return h("li", null, h("span", { class: "row" },
    h("strong", null, `${plural(nodes.size, "node")}: ${safe(reasonText(reason))}`),
    h("span", { class: "muted" }, `${safe(reason || "-")}, ${plural(nTimes, "time")}`),
    rule && h("button", { type: "button", class: "small", on: { click: allow } }, "Allow it and ask again")));
}

/**
 * What keeps nodes, at a glance and in a table; null if nothing does.
 * @param {Object[]} nodes of a drain's answer
 * @param {{onAllow?: function(string)}} options told the name of the rule that would help
 */
export function blockedNodes(nodes, { onAllow } = {}) {
  const rows = obstacles(nodes);
  if (rows.length === 0) {
    return null;
  }
  const node = (row) => (row.reason === "NoNodeInfo" ? safe(row.node) : nodeLink(row.node));
  return h("section", null, h("h3", null, "What stands in the way of an orderly drain"),
    h("ul", null, byReason(rows).map((entry) => reasonItem(entry, onAllow))),
    table({
      label: "What stands in the way", rows,
      columns: [
        column("Node", node, (row) => row.node),
        column("Pod in the way", (row) => podLink(row.pod), (row) => (row.pod ? podName(row.pod) : "")),
        column("Reason", (row) => tag("bad", row.reason || "-"), (row) => row.reason),
        texts("Budgets", (row) => row.budgets.join(", ")),
        sentences("In words", (row) => row.message || reasonText(row.reason)),
      ],
    }));
}

/** A node that can go, or stays, in a sentence: `n1 (cpu 45 % requested): 3 pods move, 1 ends with it`. */
function headOf(node) {
  const { nodeName = "", utilization, removable, unremovableReason, message } = node;
  const used = utilization ? ` (${utilization.resource} ${percent(utilization.ratio ?? 0)} requested)` : "";
  if (!removable) {
    return `${nodeName}${used}: ${message || reasonText(unremovableReason)}`;
  }
  const [nMove, nEnd] = [podsOf(node, MOVES).length, podsOf(node, DAEMON, MIRROR).length];
  const [nLate, nWaited] = [podsOf(node, LATE).length, podsOf(node, WAITED).length];
  const parts = [
    nMove === 0 ? "no pod has to move" : `${plural(nMove, "pod")} ${nMove === 1 ? "moves" : "move"}`,
    nEnd > 0 && `${count(nEnd)} ${nEnd === 1 ? "ends" : "end"} with it`,
    nLate > 0 && `${count(nLate)} should be gone already`,
    node.risky && node.nWaves > 1 && `in ${plural(node.nWaves, "wave")}`,
    nWaited > 0 && `once ${plural(nWaited, "pod has", "pods have")} completed`,
  ];
  return `${nodeName}${used}: ${parts.filter(Boolean).join(", ")}`;
}

function podTable(node) {
  const word = (pod) => (pod.verdict === MOVES && !pod.wave ? "would move" : verdictOf(pod)[0]);
  const verdict = (pod) => tag(verdictOf(pod)[1], word(pod));
  return table({
    label: `Pods of ${safe(node.nodeName)}`, rows: node.pods ?? [], empty: "No pod is looked at.",
    columns: [
      pods("Pod", (row) => row.pod), numbers("Priority", (row) => row.priority ?? 0),
      column("Verdict", verdict, (row) => verdictOf(row)[0]), nodeColumn("Goes to", (row) => row.nodeName),
      numbers("Wave", (row) => row.wave ?? 0, (wave) => (wave ? count(wave) : "-")),
      texts("Budgets", (row) => (row.budgets ?? []).join(", ")), sentences("In words", (row) => row.message),
    ],
  });
}

/** The nodes one by one: those that stay first, for they need somebody. */
function nodeList(nodes) {
  const ordered = [...nodes].sort((a, b) => Number(a.removable ?? false) - Number(b.removable ?? false));
  const list = h("div");
  const entry = (node) => {
    const verdict = node.removable ? tag("good", "can go") : tag("bad", "stays");
    const head = h("span", null, verdict, " ", withCode(headOf(node)));
    return lazyDetails(head, () => podTable(node), { open: nodes.length === 1 });
  };
  const more = h("button", { type: "button", on: { click: add } }, "Show more nodes");
  function add() {
    const nShown = list.childElementCount;
    const next = ordered.slice(nShown, nShown + FIRST_NODES).map(entry);
    list.append(...next);
    more.hidden = list.childElementCount >= ordered.length;
    if (nShown > 0) {
      next[0]?.querySelector("summary").focus();
    }
  }
  add();
  return h("section", null, h("h3", null, "Node by node"), list, more);
}

function spansOf(node) {
  const counts = new Map();
  for (const { wave } of podsOf(node, MOVES).filter((pod) => pod.wave)) {
    counts.set(wave, (counts.get(wave) ?? 0) + 1);
  }
  const kind = node.risky ? "A budget makes several waves" : "All at once";
  return [...counts].sort(([a], [b]) => a - b)
    .map(([wave, n]) => ({ from: wave - 1, to: wave, title: plural(n, "pod"), kind }));
}

function waves(nodes, mode) {
  const moving = nodes.filter((node) => node.removable && podsOf(node, MOVES).length > 0);
  if (moving.length === 0) {
    return null;
  }
  const note = mode === "one-by-one"
    ? "Each node is looked at by itself: its first wave is wave 1."
    : "The pods of a wave are evicted together; the next wave starts when all of them are ready elsewhere.";
  const lane = (node) => ({ name: safe(node.nodeName), spans: spansOf(node) });
  return h("section", null, h("h3", null, "Waves"), h("p", { class: "muted" }, note),
    timeline({
      label: "Waves in which pods leave, by node",
      lanes: moving.slice(0, FIRST_LANES).map(lane),
      format: (wave) => (wave === 0 ? "start" : `end of wave ${count(wave)}`),
    }),
    moving.length > FIRST_LANES &&
      h("p", { class: "muted" }, `The first ${count(FIRST_LANES)} of ${plural(moving.length, "node")}.`));
}

function budgets(nodes) {
  const rows = nodes.flatMap(({ nodeName, budgets: used = [] }) =>
    used.map((budget) => ({ node: nodeName, nMoved: 0, nAllowed: 0, ...budget })));
  const enough = (row) =>
    (row.nMoved > row.nAllowed ? tag("warn", "fewer than move: several waves") : tag("good", "enough"));
  return rows.length > 0 && h("section", null, h("h3", null, "Disruption budgets that are used"),
    table({
      label: "Disruption budgets that are used", rows,
      columns: [
        texts("Budget", (row) => `${row.namespace}/${row.name}`), nodeColumn("Node", (row) => row.node),
        numbers("Pods that move", (row) => row.nMoved), numbers("Allowed at a time", (row) => row.nAllowed),
        column("Enough", enough, (row) => row.nAllowed - row.nMoved),
      ],
    }));
}

const HOW = new Map([
  ["together", "at once"], ["in-turn", "one after another"], ["one-by-one", "each for itself"],
]);

/** The answer in a sentence: `2 of 3 nodes can go, at once`. */
export function summary({ nodes = [] }, mode) {
  const nGo = nodes.filter((node) => node.removable).length;
  const how = nGo > 0 && nodes.length > 1 ? `, ${HOW.get(mode)}` : "";
  return `${count(nGo)} of ${plural(nodes.length, "node")} can go${how}.`;
}

/**
 * The whole answer.
 * @param {Object} drained the answer of `/v1/drain`
 * @param {{mode: string, onAllow: function(string)}} options
 */
export function report(drained, { mode, onAllow }) {
  const nodes = drained.nodes ?? [];
  const going = nodes.filter((node) => node.removable);
  const nPods = (some, verdict) => some.reduce((sum, node) => sum + podsOf(node, verdict).length, 0);
  const nWaited = nPods(nodes, WAITED);
  return [
    h("p", { class: `notice ${going.length === nodes.length ? "good" : "warning"}` }, summary(drained, mode)),
    figures([
      ["Can go", `${count(going.length)} of ${count(nodes.length)}`],
      ["Stay", count(nodes.length - going.length)],
      ["Pods that move", count(nPods(going, MOVES))], nWaited > 0 && ["Pods to wait for", count(nWaited)],
      ["Waves", count(drained.nWaves ?? 0)],
    ]),
    blockedNodes(nodes, { onAllow }),
    waves(nodes, mode),
    budgets(nodes),
    nodeList(nodes),
  ];
}
