// A pod's account: what would help, how the nodes that could take it rank, what keeps it off others, and each
// node's verdict.

import { announce, h, replace } from "../dom.js";
import { count, plural, safe } from "../format.js";
import { table } from "../table.js";
import { prose, tag } from "./cells.js";
import { lazyDetails } from "./lazy.js";
import { nodeAccount } from "./nodeaccount.js";
import { nodeLink } from "./podwords.js";
import { accountButton, refusalList } from "./refusallist.js";
import { remedies } from "./remedies.js";
import { ranking } from "./scores.js";
import { fill } from "./states.js";

function verdictTag(verdict) {
  return verdict.feasible ? tag("good", "fits") : tag("bad", "refused");
}

function verdictColumns(onSelect) {
  const by = (it) => it.rejection?.plugin || (it.rejection ? "PreFilter result" : "");
  const reasons = (it) => (it.rejection?.reasons ?? []).join(", ");
  return [
    { key: "node", title: "Node", cell: (it) => nodeLink(it.nodeName), sort: (it) => it.nodeName ?? "" },
    { key: "verdict", title: "Verdict", cell: verdictTag, sort: (it) => Number(!it.feasible) },
    { key: "score", title: "Score", cell: (it) => (it.feasible ? count(it.totalScore ?? 0) : "-"),
      sort: (it) => (it.feasible ? it.totalScore ?? 0 : -1), numeric: true },
    { key: "plugin", title: "Refused by", cell: (it) => safe(by(it)) || "-", sort: by },
    { key: "reasons", title: "Reasons", cell: (it) => prose(safe(reasons(it)) || "-"), sort: reasons },
    { key: "missing", title: "Missing there", cell: (it) => count(it.rejection?.comparisons?.length ?? 0),
      sort: (it) => it.rejection?.comparisons?.length ?? 0, numeric: true },
    { key: "sole", title: "Nothing else in the way", cell: (it) => (it.rejection?.isSole ? "yes" : "-"),
      sort: (it) => Number(!it.rejection?.isSole) },
    { key: "account", title: "Details", cell: (it) => accountButton(it.nodeName ?? "", onSelect) },
  ];
}

/** Table of the verdicts on all nodes, with a filter by name. */
function verdictTable(verdicts, onSelect) {
  const list = table({
    label: "Verdicts on all nodes",
    columns: verdictColumns(onSelect),
    rows: verdicts,
    empty: "No node has a name with this text.",
  });
  const filter = h("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  filter.addEventListener("input", () => {
    const text = filter.value.trim();
    list.update(text ? verdicts.filter((verdict) => (verdict.nodeName ?? "").includes(text)) : verdicts);
  });
  const label = h("label", null, "Part of a node's name ", filter);
  return h("div", null, h("div", { class: "toolbar" }, label), list);
}

/** The place for one node's account, and what shows it there. */
function nodePanel(load, onChange) {
  const slot = h("div");
  const title = h("h2", { tabindex: "-1" });
  let opener = null;
  const close = h("button", { type: "button" }, "Close");
  const head = h("div", { class: "spread" }, title, close);
  const panel = h("section", { class: "card", hidden: true }, head, slot);
  close.addEventListener("click", () => {
    panel.hidden = true;
    onChange("");
    opener?.focus();
  });
  const draw = (name) => (answer) => {
    const verdict = (answer.nodes ?? []).find((it) => it.nodeName === name);
    return verdict
      ? nodeAccount(verdict, answer.spreadConstraints)
      : h("p", { class: "notice warning" }, `There is no verdict on node ${safe(name)}.`);
  };
  const show = async (name, { focus = true } = {}) => {
    opener = focus ? document.activeElement : null;
    panel.hidden = false;
    title.textContent = `Account of node ${safe(name)}`;
    if (focus) {
      title.focus();
      title.scrollIntoView({ block: "start" });
      onChange(name);
    }
    const wait = "Loading the node's account ...";
    const answer = await fill(slot, { wait, load: () => load(name), draw: draw(name) });
    if (answer) {
      announce(`Account of node ${safe(name)} loaded`);
    }
  };
  return { panel, show };
}

/** What would help, for a pod that no node takes; null for others. */
export function help(explanation) {
  if (!explanation.decision?.unschedulable) {
    return null;
  }
  const tried = explanation.remedies?.length > 0 && "Each change was tried on a copy of the cluster.";
  const note = tried && h("p", { class: "muted" }, tried);
  return [h("h2", null, "What would help"), note, remedies(explanation.remedies)];
}

function rankingSection(explanation, show) {
  const verdicts = explanation.nodes ?? [];
  const placement = explanation.decision?.placement;
  const drawn = ranking({ verdicts, placement, onSelect: show });
  return drawn && [h("h2", null, "Ranking of the nodes that could take it"), drawn];
}

function refusalSection(explanation, show) {
  const verdicts = explanation.nodes ?? [];
  const nRefused = verdicts.filter((verdict) => verdict.rejection).length;
  const list = nRefused > 0
    && refusalList({ verdicts, constraints: explanation.spreadConstraints, onSelect: show });
  return list && [h("h2", null, `What keeps it off ${plural(nRefused, "node")}`), list];
}

/**
 * The account as elements, without what would help. `load(nodeName)` answers with an explanation of a node;
 * `onNode` is told which node's account is shown, or "".
 */
export function account({ explanation, load, node = "", onNode = () => {} }) {
  const verdicts = explanation.nodes ?? [];
  const { panel, show } = nodePanel(load, onNode);
  if (node) {
    show(node, { focus: false });
  }
  const all = verdicts.length > 0
    ? [h("h2", null, "All nodes"),
      lazyDetails(`Verdicts on ${plural(verdicts.length, "node")}`, () => verdictTable(verdicts, show))]
    : h("p", { class: "muted" }, "No node was looked at.");
  const root = h("div");
  replace(root, rankingSection(explanation, show), refusalSection(explanation, show), panel, all);
  return root;
}
