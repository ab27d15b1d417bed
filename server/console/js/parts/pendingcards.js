// Cards of pending pods, one for each cause.

import { h } from "../dom.js";
import { count, plural, safe } from "../format.js";
import { meter } from "../chart.js";
import { firstOf, slot } from "./lazy.js";
import { podLink, podName } from "./podwords.js";
import { remedies } from "./remedies.js";

const N_WORKLOADS = 5;
const N_REASONS = 5;

function figures({ nPods, share }) {
  return h("p", { class: "row" }, h("strong", null, plural(nPods, "pod")),
    meter(share, { label: "Share of the pods that wait" }));
}

function reasons({ plugin, list, nNodes }) {
  const line = (it) => h("span", null, safe(it.reason ?? ""), ": ",
    h("span", { class: "num" }, `${count(it.nNodes ?? 0)} of ${plural(nNodes, "node")}`));
  const by = plugin ? ["Refused by ", h("strong", null, safe(plugin))] : "No plugin refuses them";
  return [h("p", null, by), list.length > 0 ? firstOf(list, N_REASONS, line, "reasons") : null];
}

function workloads(list) {
  const line = (it) => {
    const name = `${it.namespace ?? ""}/${it.name ?? ""}`;
    const key = { namespace: it.namespace, name: it.name };
    const shown = it.kind === "Pod" ? podLink(key) : safe(name);
    return h("span", null, `${safe(it.kind ?? "")} `, shown, `: ${plural(it.nPods ?? 0, "pod")}`);
  };
  return [h("h3", null, "Whose pods"), firstOf(list, N_WORKLOADS, line, "workloads")];
}

function help(list) {
  const waiting = "Trying changes on a copy of the cluster ...";
  return [h("h3", null, "What would help"), list ? remedies(list) : h("p", { class: "loading" }, waiting)];
}

function first(key) {
  return key ? podLink(key, `Why is ${podName(key)} pending?`) : null;
}

/** One card, whose parts are drawn anew only when they change. */
function card(cause) {
  const parts = {
    figures: slot("div", null, figures),
    help: slot("div", null, help),
    reasons: slot("div", null, reasons),
    workloads: slot("div", null, workloads),
    first: slot("p", null, first),
  };
  const all = Object.values(parts).map((part) => part.element);
  const element = h("section", { class: "card" }, h("h2", null, safe(cause)), all);
  let known = null;
  const update = (group, nAll, isKnown) => {
    // An answer without remedies does not take away those that are known.
    known = isKnown ? group.wouldHelp ?? [] : known;
    parts.figures.update({ nPods: group.nPods ?? 0, share: (group.nPods ?? 0) / Math.max(1, nAll) });
    parts.help.update(known);
    const { plugin = "", nNodes = 0 } = group;
    parts.reasons.update({ plugin, list: group.reasons ?? [], nNodes });
    parts.workloads.update(group.workloads ?? []);
    parts.first.update(group.firstPod ?? null);
  };
  return { element, update };
}

/** The cards: `update(answer, isWhole)` shows an answer of `/v1/list-pending`, whole if it has remedies. */
export function pendingCards() {
  const element = h("div", { class: "cards" });
  let cards = new Map();
  const update = (answer, isWhole) => {
    const next = new Map();
    for (const group of answer.groups ?? []) {
      const id = JSON.stringify([group.plugin ?? "", group.cause ?? ""]);
      const it = cards.get(id) ?? card(group.cause || "No cause is given");
      it.update(group, answer.nPods ?? 0, isWhole);
      next.set(id, it);
    }
    cards = next;
    const elements = [...next.values()].map((it) => it.element);
    // Moving an element would take the focus from it.
    if (elements.length !== element.children.length || elements.some((it, i) => element.children[i] !== it)) {
      element.replaceChildren(...elements);
    }
  };
  return { element, update };
}
