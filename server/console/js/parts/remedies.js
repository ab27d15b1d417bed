// What would help a pod: changes that were each tried on a copy of the cluster.

import { h } from "../dom.js";
import { plural, safe } from "../format.js";
import { listed, nodeLink, withCode } from "./podwords.js";

/** Names that nodes have on the copy only: no page shows them. */
function addedNames(remedy) {
  return new Set((remedy.changes ?? []).map((change) => change.addNode?.name).filter(Boolean));
}

function examples(remedy) {
  const added = addedNames(remedy);
  const names = (remedy.exampleNodeNames ?? []).filter((name) => !added.has(name));
  if (names.length === 0) {
    return null;
  }
  const links = listed(names.map(nodeLink));
  return h("span", { class: "muted" }, "for example ", links);
}

function capitalized(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** One change: in words, the number of nodes that then take the pod, examples. */
function remedy(it) {
  const nodes = `then fits ${plural(it.nNodes ?? 0, "node")}`;
  return h(
    "li",
    null,
    h("strong", null, withCode(capitalized(it.change ?? "a change without a description"))),
    ": ",
    nodes,
    examples(it) ? [", ", examples(it)] : null,
  );
}

/** A list of changes, smallest first; a sentence where there is none. */
export function remedies(list, { none = "No single change was found that would make the pod fit." } = {}) {
  if (!list?.length) {
    return h("p", { class: "muted" }, safe(none));
  }
  return h("ol", { class: "remedies" }, list.map(remedy));
}
