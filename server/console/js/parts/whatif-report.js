// The answer to a what-if question: before and after side by side, and what becomes of pods.

import { bars } from "../chart.js";
import { h, link, replace } from "../dom.js";
import { amount, count, percent, plural, safe } from "../format.js";
import { table } from "../table.js";
import { blockedNodes } from "./drain-report.js";
import { nodeLink, podLink, podName, withCode } from "./podwords.js";
import { column, nodes, numbers, pods, sentences, texts } from "./whatif-columns.js";
import { shareOf } from "./whatif-measure.js";
import { joinNames } from "./whatif-names.js";
import { byResource, changed, difference, figures, shareDifference } from "./whatif-words.js";

const newlyPlaced = ({ pods: all }) => all.filter((pod) => pod.source === "waiting" && pod.node);
const newlyWaiting = ({ pods: all }) => all.filter((pod) => pod.source !== "waiting" && !pod.node);
const some = (n, noun) => (n === 0 ? `no ${noun}` : plural(n, noun));

/** What the answer comes to, in a sentence. */
export function summary(answer) {
  const [placed, waits] = [newlyPlaced(answer).length, newlyWaiting(answer).length];
  const text = `${some(placed, "waiting pod")} would get a node, and ${some(waits, "pod")} would newly wait.`;
  return text[0].toUpperCase() + text.slice(1);
}

function headline(answer) {
  const { before, after } = answer;
  const [placed, waits] = [newlyPlaced(answer).length, newlyWaiting(answer).length];
  const of = (source) => answer.pods.filter((pod) => pod.source === source);
  const hasNode = (pod) => Boolean(pod.node);
  const [moved, fresh] = [of("moved").filter(hasNode), of("new")];
  const nLost = answer.gone.filter((pod) => pod.why.startsWith("is lost")).length;
  const theirs = nLost === 1 ? "its node" : "their nodes";
  const lost = nLost > 0 && ` ${plural(nLost, "pod")} would be lost with ${theirs}.`;
  const change = (name, from, to) => [name, `${count(from)} \u2192 ${count(to)}`, difference(to - from)];
  return [
    h("p", { class: waits > 0 || nLost > 0 ? "notice warning" : "notice good" }, summary(answer), lost),
    figures([
      ["Pods that would get a node", count(placed)],
      ["Pods that would newly wait", count(waits)],
      change("Pods that wait", before.pending.nPods ?? 0, after.pending.nPods ?? 0),
      change("Nodes", before.nodes.size, after.nodes.size),
      change("Nodes with pods", before.nInUse, after.nInUse),
      moved.length > 0 && ["Pods that would move", count(moved.length)],
      fresh.length > 0 &&
        ["New pods with a node", `${count(fresh.filter(hasNode).length)} of ${count(fresh.length)}`],
    ]),
  ];
}

function causes({ before, after }) {
  const rows = new Map();
  const take = ({ groups = [] }, key) => {
    for (const { cause = "no cause is given", plugin = "", nPods = 0 } of groups) {
      const row = rows.get(cause) ?? { cause, plugin, before: 0, after: 0 };
      row[key] += nPods;
      rows.set(cause, row);
    }
  };
  take(before.pending, "before");
  take(after.pending, "after");
  const left = after.pending.nNotDecided ?? 0;
  return h("section", null, h("h3", null, "Pods that wait, by cause"),
    table({
      label: "Pods that wait, by cause",
      empty: "No pod waits, neither before nor after.",
      rows: [...rows.values()].sort((a, b) => b.after - a.after || b.before - a.before),
      columns: [
        sentences("Cause", (row) => row.cause), texts("Plugin", (row) => row.plugin),
        numbers("Before", (row) => row.before), numbers("After", (row) => row.after),
        numbers("Difference", (row) => row.after - row.before, (n) => difference(n)),
      ],
    }),
    left > 0 && h("p", { class: "muted" }, `Of ${plural(left, "pod")} more the cause was not looked for.`));
}

/** Rows are `{name, resource, before, after}`, with sums of `measure`. */
function sharesTable(label, first, rows) {
  const share = ({ before, after }) => {
    const [from, to] = [shareOf(before), shareOf(after)];
    return changed(percent(from), percent(to), shareDifference(from, to));
  };
  const amounts = (key) => ({ resource, before, after }) => {
    const [from, to] = [before?.[key] ?? 0, after?.[key] ?? 0];
    const said = `${to > from ? "+" : "\u2212"}${amount(resource, Math.abs(to - from))}`;
    return changed(amount(resource, from), amount(resource, to), from === to ? "no change" : said);
  };
  const numeric = { numeric: true };
  return table({
    label, rows,
    columns: [
      texts(first, (row) => row.name), column("Share requested", share, (row) => shareOf(row.after), numeric),
      column("Requested", amounts("requested"), undefined, numeric),
      column("Allocatable", amounts("allocatable"), undefined, numeric),
    ],
  });
}

const resourcesOf = ({ before, after }) =>
  [...new Set([...before.resources.keys(), ...after.resources.keys()])].sort(byResource);

function shares(answer) {
  const { before, after } = answer;
  const resources = resourcesOf(answer);
  const bar = (name, sums, when) =>
    ({ name: `${safe(name)} ${when}`, parts: [{ key: "requested", value: shareOf(sums.get(name)) || 0 }] });
  return h("section", null, h("h3", null, "Share of the nodes' amounts that is requested"),
    bars({
      label: "Share requested now, and then",
      keys: [{ key: "requested", name: "Requested" }],
      max: 1,
      format: percent,
      rows: resources.flatMap((name) =>
        [bar(name, before.resources, "now"), bar(name, after.resources, "then")]),
    }),
    sharesTable("Amounts by resource, before and after", "Resource", resources.map((name) =>
      ({ name, resource: name, before: before.resources.get(name), after: after.resources.get(name) }))));
}

function zones(answer) {
  const { before, after } = answer;
  const names = [...new Set([...before.zones.keys(), ...after.zones.keys()])].sort();
  if (names.length < 2) {
    return null;
  }
  const option = (name) => h("option", { value: name }, safe(name));
  const choice = h("select", null, resourcesOf(answer).map(option));
  const place = h("div");
  const row = (zone, resource) => ({
    name: zone || "(without a zone)", resource,
    before: before.zones.get(zone)?.get(resource), after: after.zones.get(zone)?.get(resource),
  });
  const show = () => {
    const rows = names.map((zone) => row(zone, choice.value));
    replace(place, sharesTable(`${safe(choice.value)} by zone, before and after`, "Zone", rows));
  };
  choice.addEventListener("change", show);
  show();
  return h("section", null, h("h3", null, "By zone"),
    h("div", { class: "toolbar" }, h("label", null, "Resource", choice)), place);
}

function podTables(answer) {
  const { before } = answer;
  const pod = column("Pod", (row) => (row.source === "new" ? safe(podName(row.key)) : podLink(row.key)),
    (row) => podName(row.key));
  // No link to a node that exists on the copy alone.
  const to = column("Would go to", ({ node }) => (before.nodes.has(node) ? nodeLink(node)
    : [safe(node), " ", h("span", { class: "tag" }, "new node")]), (row) => row.node);
  const from = nodes("From", (row) => row.from);
  const kind = texts("Pod is", (row) => (row.source === "moved" ? "evicted" : "new"));
  const placed = (source) => answer.pods.filter((one) => one.source === source && one.node);
  const section = ([label, rows, columns]) => rows.length > 0 &&
    h("section", null, h("h3", null, `${label} (${count(rows.length)})`),
      table({ label, rows, columns: [pod, numbers("Priority", (row) => row.priority), ...columns] }));
  return [
    ["Would newly wait", newlyWaiting(answer), [kind, from, sentences("Why", (row) => row.reason)]],
    ["Would get a node", newlyPlaced(answer), [to]],
    ["Would move", placed("moved"), [from, to]],
    ["New pods with a node", placed("new"), [to]],
  ].map(section);
}

function removed({ drained, gone }) {
  if (!drained) {
    return null;
  }
  const all = drained.nodes ?? [];
  const query = { nodes: joinNames(all.map((node) => node.nodeName)), mode: "together", allow: "disabled" };
  return h("section", null, h("h3", null, "The nodes that go"),
    h("p", null, "Here they are gone whatever stands in the way. ",
      link("What an orderly drain would do", "drain", { query })),
    blockedNodes(all),
    gone.length > 0 && table({
      label: "Pods that end with their node", rows: gone,
      columns: [
        pods("Pod", (row) => row.key), nodes("Node", (row) => row.node),
        texts("What becomes of it", (row) => row.why),
      ],
    }));
}

/** The whole answer. */
export function report(answer) {
  return [
    headline(answer),
    answer.notes.map((note) => h("p", { class: "notice" }, withCode(note))),
    podTables(answer),
    causes(answer),
    shares(answer),
    zones(answer),
    removed(answer),
  ];
}
