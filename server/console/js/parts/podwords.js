// Words and links for pods, nodes and decisions. The command line uses the same ones.

import { h, link } from "../dom.js";
import { count, plural, safe, shortName } from "../format.js";
import { tag } from "./cells.js";

/** Longer names are shortened; the whole one is in the title. */
const N_SHOWN = 72;

/** `NAMESPACE/NAME` of a pod's key, as it is. */
export function podName(key) {
  return `${key?.namespace || "default"}/${key?.name ?? ""}`;
}

/** A link to a pod's account; text where the key has no name. */
export function podLink(key, text = podName(key)) {
  return key?.name ? named(text, "pod", key.namespace || "default", key.name) : "-";
}

/** A link to a node; a dash without a name. */
export function nodeLink(name) {
  return name ? named(name, "node", name) : "-";
}

function named(text, ...parts) {
  const element = link(shortName(text, N_SHOWN), ...parts);
  if (text.length > N_SHOWN) {
    element.title = safe(text);
  }
  return element;
}

/** The key in `NAMESPACE/NAME`, or in `NAME` of the namespace `default`; null where there is no name. */
export function keyOf(text) {
  const parts = text.trim().replace(/^pod\//, "").split("/");
  const [namespace, name] = parts.length > 1 ? parts : ["default", parts[0]];
  return name && parts.length <= 2 ? { namespace: namespace || "default", name } : null;
}

/** Items with commas between them: `a, b, c and 4 more`. */
export function listed(items, nMore = 0) {
  const separated = items.flatMap((item, i) => (i === 0 ? [item] : [", ", item]));
  return nMore > 0 ? [...separated, ` and ${count(nMore)} more`] : separated;
}

/** Text in which parts between backticks become code. */
export function withCode(text) {
  const parts = String(text ?? "").split("`").map(safe);
  return parts.map((part, i) => (i % 2 === 1 ? h("code", null, part) : part));
}

const OUTCOMES = [
  ["placement", { word: "placed", kind: "good" }],
  ["unschedulable", { word: "fits no node", kind: "bad" }],
  ["gated", { word: "held back", kind: "warn" }],
];
const FAILED = { word: "failed", kind: "bad" };

/** The word for what came of `{decision}` or `{error}`, and the class of its label. */
export function outcomeOf(result) {
  const found = OUTCOMES.find(([field]) => result?.decision?.[field]);
  return found ? found[1] : FAILED;
}

/** The outcome as a label. */
export function outcomeTag(result) {
  const { word, kind } = outcomeOf(result);
  return tag(kind, word);
}

function placed(placement) {
  const feasible = plural(placement.nFeasibleNodes ?? 0, "feasible node");
  const nBest = placement.nBestNodes ?? 0;
  const total = placement.totalScore;
  if (total === undefined || total === null) {
    return "the only feasible node, so nothing is scored";
  }
  return nBest > 1
    ? `score ${count(total)}, shared by ${plural(nBest, "node")}, of ${feasible}`
    : `score ${count(total)}, the best of ${feasible}`;
}

/** The decision about the pod `name` in a sentence, as children of a paragraph; `goes` fits its time. */
export function sentence(name, decision, goes = "goes to") {
  const { placement, unschedulable, gated } = decision ?? {};
  if (placement) {
    return [`${safe(name)} ${goes} `, nodeLink(placement.nodeName), `: ${placed(placement)}.`];
  }
  if (unschedulable) {
    const plugin = unschedulable.preFilterPlugin;
    const whole = plugin ? ` Refused as a whole by ${safe(plugin)}, before any node was looked at.` : "";
    return [`${safe(name)} is pending: ${safe(unschedulable.message ?? "no reason is given")}${whole}`];
  }
  if (gated) {
    const reasons = (gated.reasons ?? []).map(safe).join(", ") || "no reason is given";
    return [`${safe(name)} is held back by ${safe(gated.plugin ?? "a plugin")}: ${reasons}`];
  }
  return [`${safe(name)}: the answer holds no decision.`];
}
