// What keeps a pod off nodes: the nodes by plugin and reason, each opened on demand.

import { h } from "../dom.js";
import { amount, count, plural, safe } from "../format.js";
import { meter } from "../chart.js";
import { table } from "../table.js";
import { prose } from "./cells.js";
import { comparison } from "./comparison.js";
import { lazyDetails } from "./lazy.js";
import { listed, nodeLink, withCode } from "./podwords.js";
import {
  comparisonsFor, isOneAway, missingOn, nearestFirst, refusals, thingsMissing,
} from "./verdicts.js";

const N_FOUND = 3;
const N_NEAREST = 5;

/** `at most 2.9 free of 8, on general-1`, or what the nodes have and on how many. */
function instead(thing) {
  if (thing.roomiest) {
    const { nodeName, resource } = thing.roomiest;
    const of = (n) => amount(resource.resource, n ?? 0);
    return [`: at most ${of(resource.free)} free of ${of(resource.allocatable)}, on `, nodeLink(nodeName)];
  }
  const found = [...thing.found].sort((a, b) => b[1] - a[1]);
  if (found.length === 0) {
    return [];
  }
  if (found.length === 1) {
    return [`: ${safe(found[0][0])}`];
  }
  const items = found.slice(0, N_FOUND).map(([text, n]) => `${safe(text)} (${plural(n, "node")})`);
  return [": ", listed(items, Math.max(0, found.length - N_FOUND))];
}

function because(group) {
  const things = thingsMissing(group);
  const line = (thing) => {
    const words = [thing.kind, thing.subject].filter(Boolean).join(" ");
    return h("li", null, h("strong", null, withCode(words)), instead(thing));
  };
  return things.length > 0 ? h("ul", null, things.slice(0, N_FOUND + 2).map(line)) : null;
}

function eviction(group) {
  const { nEvictable, verdicts } = group;
  if (nEvictable === 0) {
    return "Evicting pods does not help.";
  }
  return `Evicting pods may help${nEvictable === verdicts.length ? "" : ` on ${count(nEvictable)} of them`}.`;
}

function alone(group) {
  if (group.nOneAway === 0) {
    return null;
  }
  const on = group.nOneAway === group.verdicts.length ? "" : ` on ${plural(group.nOneAway, "node")}`;
  return h("span", { class: "tag warn" }, `the only thing in the way${on}`);
}

/** A button that shows everything known about a node. */
export function accountButton(nodeName, onSelect) {
  const label = `Account of node ${safe(nodeName)}`;
  const on = { click: () => onSelect(nodeName) };
  return h("button", { type: "button", class: "plain small", "aria-label": label, on }, "Account");
}

function missingCell(verdict, reason, constraints) {
  const comparisons = reason === null ? missingOn(verdict) : comparisonsFor(verdict, reason);
  if (comparisons.length === 0) {
    return prose((verdict.rejection?.reasons ?? []).map(safe).join(", ") || "-");
  }
  return prose(comparisons.map((it) => comparison(it, constraints)));
}

function nodeColumns({ reason = null, constraints, onSelect }) {
  return [
    { key: "node", title: "Node", cell: (it) => nodeLink(it.nodeName), sort: (it) => it.nodeName ?? "" },
    { key: "missing", title: "What is missing there", cell: (it) => missingCell(it, reason, constraints) },
    {
      key: "sole",
      title: "Otherwise",
      cell: (it) => (it.rejection?.isSole ? "nothing else in the way" : "other plugins refuse it too"),
      sort: (it) => Number(!it.rejection?.isSole),
    },
    { key: "account", title: "Details", cell: (it) => accountButton(it.nodeName ?? "", onSelect) },
  ];
}

function groupDetails(group, { nNodes, constraints, onSelect }) {
  const n = group.verdicts.length;
  const plugin = group.plugin ? safe(group.plugin) : "PreFilter result";
  const build = () => table({
    label: `Nodes refused by ${plugin}: ${safe(group.reason)}`,
    columns: nodeColumns({ reason: group.reason, constraints, onSelect }),
    rows: nearestFirst(group.verdicts),
  });
  const share = meter(n / Math.max(1, nNodes), { label: `Share of nodes: ${safe(group.reason)}` });
  const nodes = lazyDetails(`${plural(n, "node")}, the nearest first`, build);
  const card = h(
    "section",
    { class: "card" },
    h("h3", null, safe(group.reason)),
    h("p", { class: "row" }, `${plural(n, "node")} of ${count(nNodes)}`, share,
      h("span", { class: "muted" }, plugin), alone(group)),
    because(group),
    h("p", { class: "muted" }, eviction(group)),
    nodes,
  );
  // The table of nodes needs the whole width.
  nodes.addEventListener("toggle", () =>
    card.style.setProperty("grid-column", nodes.open ? "1 / -1" : "auto"));
  return card;
}

/** The few nodes that miss least. */
function nearest(verdicts, options) {
  const refused = verdicts.filter((verdict) => verdict.rejection);
  if (refused.length <= 1) {
    return null;
  }
  const first = nearestFirst(refused).slice(0, N_NEAREST);
  const nOneAway = refused.filter(isOneAway).length;
  const words = nOneAway > 0
    ? `${plural(nOneAway, "node")} ${nOneAway === 1 ? "lacks" : "lack"} one thing only.`
    : "No node lacks one thing only.";
  return [
    h("h3", null, "Nearest nodes"),
    h("p", null, words),
    table({ label: "Nodes that miss least", columns: nodeColumns(options), rows: first }),
  ];
}

/** What keeps the pod off nodes; null where no node is refused. */
export function refusalList({ verdicts, constraints, onSelect }) {
  const groups = refusals(verdicts);
  if (groups.length === 0) {
    return null;
  }
  const options = { nNodes: verdicts.length, constraints, onSelect };
  const cards = h("div", { class: "cards" }, groups.map((group) => groupDetails(group, options)));
  const isShort = verdicts.some((verdict) => verdict.feasible);
  return h("div", null, isShort ? null : nearest(verdicts, options), h("h3", null, "By reason"), cards);
}
