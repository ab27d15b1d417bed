/** Details of the node that is pointed at. */

import { announce, h, link, replace } from "../../dom.js";
import { cluster } from "../../cluster.js";
import { amount, count, percent, safe, shortName } from "../../format.js";
import { meter } from "../../chart.js";
import { figureOf } from "./figures.js";
import { flagsOf } from "./flags.js";

const GROUPS = [
  ["zone", "Zone"],
  ["pool", "Pool"],
  ["rack", "Rack"],
  ["instanceType", "Instance type"],
];
const HINT =
  "Point at a cell, or give the map the focus and use the arrow keys. Enter or a click opens the node. " +
  "Ctrl and the wheel, or + and -, change the size of the cells.";

/** Labels of a node's groups and their values, those that it has. */
export function groupFacts(row) {
  return GROUPS.map(([key, name]) => [name, cluster.group(key, row)])
    .filter(([, value]) => value !== "")
    .flatMap(([name, value]) => [h("dt", null, name), h("dd", null, safe(value))]);
}

/** The flags of a node as tags. */
export function flagTags(bits) {
  const flags = flagsOf(bits);
  return flags.length > 0
    ? flags.map((flag) => h("span", { class: `tag ${flag.tone}` }, flag.name))
    : [h("span", { class: "tag good" }, "ready")];
}

/** A meter for each resource that the node has, and for its pods. */
export function shares(row) {
  const resources = cluster.resources
    .filter((resource) => cluster.allocatable(resource, row) > 0)
    .map((resource) => {
      const [used, all] = [cluster.requested(resource, row), cluster.allocatable(resource, row)];
      return share(safe(resource), used / all, `${amount(resource, used)} of ${amount(resource, all)}`);
    });
  const pods = cluster.pods(row);
  const allowed = cluster.allowedPods(row);
  return [...resources, share("pods", pods / allowed, `${count(pods)} of ${count(allowed)}`)];
}

function share(name, value, text) {
  return h(
    "div",
    { class: "share" },
    h("div", { class: "spread" }, h("span", null, name), h("span", { class: "muted" }, text)),
    meter(value, { label: `${name}: ${text}` }),
  );
}

/** @returns {{element: HTMLElement, show: function(number, boolean), refresh: function()}} */
export function panel(colorOf) {
  const element = h("aside", { class: "card panel", "aria-label": "Node" }, h("p", { class: "muted" }, HINT));
  let row = -1;
  const refresh = () => {
    if (row >= 0 && cluster.isNode(row)) {
      replace(element, details(row));
    }
  };
  const show = (next, isByKey) => {
    row = next;
    refresh();
    if (isByKey) {
      const figure = figureOf(colorOf());
      announce(`${safe(cluster.name(row))}, ${figure.name} ${figure.text(row)}`);
    }
  };
  return { element, show, refresh };
}

function details(row) {
  const name = cluster.name(row);
  const idle = cluster.resources
    .map((resource) => [resource, cluster.fragmentation(resource, row)])
    .filter(([, value]) => value >= 0);
  return [
    h("h2", null, link(shortName(name, 60), "node", name)),
    h("div", { class: "row" }, flagTags(cluster.flags(row))),
    h("dl", { class: "facts" }, groupFacts(row)),
    shares(row),
    idle.length > 0
      ? h(
          "p",
          { class: "muted" },
          "Idle, but of no use to the usual pods: ",
          idle.map(([resource, value]) => `${percent(value)} of ${safe(resource)}`).join(", "),
        )
      : null,
  ];
}
