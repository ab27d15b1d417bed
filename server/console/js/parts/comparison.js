// One thing that a plugin compared for a node, in words and numbers.

import { h } from "../dom.js";
import { amount, count, plural, safe } from "../format.js";
import { table } from "../table.js";
import { lazyDetails } from "./lazy.js";
import { listed, podLink, withCode } from "./podwords.js";

/** Pods and the amounts they hold, as `shop/web-0 2, shop/cart 1 and 3 more`. */
export function holders(list, nHolders, resource) {
  const items = (list ?? []).map((it) => [podLink(it.pod), ` ${amount(resource, it.amount ?? 0)}`]);
  return listed(items, items.length > 0 ? (nHolders ?? items.length) - items.length : 0);
}

/** By how much the node has too little; 0 where it has enough. */
export function shortBy(resource) {
  return Math.max(0, (resource.asked ?? 0) - (resource.free ?? 0));
}

function pods(list) {
  return listed((list ?? []).map((key) => podLink(key)));
}

/** `before` and the pods, if there are any. */
function by(before, list) {
  return list?.length ? [before, pods(list)] : null;
}

function ofResource({ resource }) {
  const of = (n) => amount(resource.resource, n ?? 0);
  const short = shortBy(resource);
  const held = holders(resource.holders, resource.nHolders, resource.resource);
  return [
    `${of(resource.free)} free of ${of(resource.allocatable)}`,
    short > 0 ? [", short by ", h("strong", null, of(short))] : null,
    held.length > 0 ? [", held by ", held] : null,
  ];
}

function domainHas(domain, what) {
  return domain === undefined || domain === null ? ["no such label"] : [`${safe(domain)} has `, what];
}

function ofAffinity({ affinity }) {
  const n = affinity.nPods ?? 0;
  const elsewhere = affinity.kind === "AFFINITY_KIND_AFFINITY" && n === 0 && !affinity.nAnywhere;
  const what = [n === 0 ? "none" : count(n), by(" as ", affinity.pods), elsewhere ? ", nor any other" : null];
  return domainHas(affinity.domain, what);
}

function ofVolumeLimit({ volumeLimit: limit }) {
  const most = limit.limit === undefined || limit.limit === null ? "any number" : count(limit.limit);
  const items = (limit.holders ?? []).map((it) => [podLink(it.pod), ` ${count(it.amount ?? 0)}`]);
  const used = `${count(limit.inUse ?? 0)} of ${most} in use`;
  return [used, items.length > 0 ? [", most by ", listed(items)] : null];
}

/** What the node has instead, for kinds with more than the words of the server: links to pods. */
const FOUND = new Map([
  ["resource", ofResource],
  ["hostPort", ({ met, hostPort }) => [met ? "free" : "taken", by(" by ", hostPort.holders)]],
  ["affinity", ofAffinity],
  ["volumeUse", ({ met, volumeUse }) => [met ? "not in use" : "in use", by(" by ", volumeUse.pods)]],
  ["volumeLimit", ofVolumeLimit],
  ["nominatedPods", ({ nominatedPods }) => pods(nominatedPods.pods)],
]);

function domainTable(spread, own) {
  const rows = (spread.domains ?? []).map((it) => ({ domain: it.domain ?? "", nPods: it.nPods ?? 0 }));
  const name = ({ domain }) => safe(domain) + (domain === own ? " (this node's)" : "");
  const fewest = `The ${count(rows.length)} domains with fewest pods of ${count(spread.nDomains ?? 0)}.`;
  return h(
    "div",
    null,
    table({
      label: `Matching pods by ${safe(spread.topologyKey ?? "domain")}`,
      columns: [
        { key: "domain", title: safe(spread.topologyKey ?? "Domain"), cell: name, sort: (row) => row.domain },
        { key: "pods", title: "Matching pods", cell: (row) => count(row.nPods), sort: (row) => row.nPods,
          numeric: true },
      ],
      rows,
      empty: "No domain counts.",
    }),
    (spread.nDomains ?? 0) > rows.length ? h("p", { class: "muted" }, fewest) : null,
  );
}

function spreadNumbers({ spread }, constraints) {
  const constraint = constraints?.[spread.constraint ?? 0];
  if (!constraint) {
    return null;
  }
  const { nDomains = 0, minDomains = 1, minimum = 0, maxSkew = 0, countsItself = false } = constraint;
  const few = nDomains < minDomains
    ? `, since minDomains ${count(minDomains)} is more than ${plural(nDomains, "domain")}` : "";
  const itself = countsItself ? "" : "; the pod does not match the selector, so it does not count itself";
  const here = `This domain has ${count(spread.nPods ?? 0)}, the minimum is ${count(minimum)}${few}. `;
  const skew = `With the pod the skew is ${count(spread.skew ?? 0)}, maxSkew is ${count(maxSkew)}${itself}.`;
  const build = () => [h("p", null, here, skew), domainTable(constraint, spread.domain)];
  return lazyDetails("Counts by domain", build);
}

const DEVICE_STEPS = [
  ["seen", "seen by the node"],
  ["ofClass", "of the class"],
  ["selected", "selected by the request"],
  ["withCapacity", "with the capacity"],
  ["tolerated", "with tolerated taints"],
  ["drawable", "with counters left"],
  ["left", "free"],
];

function deviceNumbers({ devices }) {
  const rows = DEVICE_STEPS.map(([field, title]) => ({ title, n: devices[field] ?? 0 }));
  const holder = (it) => `${safe(it.device ?? "")} by claim ${safe(it.claim ?? "")}`;
  const held = (devices.holders ?? []).map(holder);
  const selector = devices.selector && h("code", null, safe(devices.selector));
  return lazyDetails("Devices step by step", () => [
    table({
      label: "Devices that are left after each step",
      columns: [
        { key: "step", title: "Devices", cell: (row) => row.title },
        { key: "n", title: "Number", cell: (row) => count(row.n), numeric: true },
      ],
      rows,
    }),
    selector ? h("p", null, "Selector that refuses most: ", selector) : null,
    held.length > 0 ? h("p", null, `Held: ${held.join(", ")}`) : null,
  ]);
}

const NUMBERS = new Map([["spread", spreadNumbers], ["devices", deviceNumbers]]);

/** The field of the comparison that holds its data. */
function fieldOf(it, fields) {
  return [...fields.keys()].find((field) => it[field]);
}

/** What is compared and what the pod asks for: `taint`, `cpu asks 4`. */
function asks(it) {
  const words = [it.kind, it.subject].filter(Boolean).join(" ");
  return withCode(words || it.plugin || "something unnamed");
}

/** The comparison as a block: words, links to the pods in the way, counts on demand. */
export function comparison(it, constraints) {
  const known = fieldOf(it, FOUND);
  const found = known ? FOUND.get(known)(it) : [safe(it.found ?? "")];
  const numbers = fieldOf(it, NUMBERS);
  const isEmpty = !known && !it.found;
  return h(
    "div",
    { class: "comparison" },
    h("span", null, h("strong", null, asks(it)), isEmpty ? null : [": ", found]),
    numbers ? NUMBERS.get(numbers)(it, constraints) : null,
  );
}
