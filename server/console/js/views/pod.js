// A pod's account: the decision about it, what would help, and the verdict on each node.

import { announce, h, href, replace } from "../dom.js";
import { call } from "../api.js";
import { count, safe } from "../format.js";
import { account, help } from "../parts/account.js";
import { nodeLink, podName, sentence } from "../parts/podwords.js";
import { podFacts } from "../parts/podfacts.js";
import { fill } from "../parts/states.js";

export const title = "Pod";

function placeNotice(nodeName) {
  const rest = ". What follows is told as if it were pending: it counts the pod on no node.";
  return h("p", { class: "notice good" }, "The pod is on node ", nodeLink(nodeName), rest);
}

/** The facts; a pod that is on a node says so in `place`. */
function drawFacts(answer, place) {
  const nodeName = answer.pod?.spec?.nodeName;
  replace(place, nodeName ? placeNotice(nodeName) : null);
  return [h("h2", null, "The pod"), podFacts(answer)];
}

function notFound(error) {
  const words = "It may have ended, or been deleted. Check the namespace and the name.";
  return error?.code === "NOT_FOUND" ? words : null;
}

function links(key) {
  const decisions = { namespace: key.namespace, podName: key.name };
  return h(
    "p",
    { class: "row" },
    h("a", { href: href("preemption", { query: { pod: podName(key) } }) }, "Whom would it displace?"),
    h("a", { href: href("decisions", { query: decisions }) }, "Decisions about it"),
  );
}

function drawDecision(explanation, key) {
  const said = sentence(podName(key), explanation.decision, "would go to");
  return [h("h2", null, "Decision"), h("p", null, said), help(explanation)];
}

function drawAccount(explanation, { key, query, setQuery, signal }) {
  const load = (nodeName) => call("/v1/explain", { key, nodeNames: [nodeName] }, { signal });
  const node = query.get("node") ?? "";
  const onNode = (name) => setQuery({ node: name });
  return [
    account({ explanation, load, node, onNode }),
    h("p", { class: "muted" }, `Generation ${count(explanation.decision?.generation ?? 0)} of the cluster.`),
  ];
}

/** Fills the view. */
export function mount(root, { parts, query, setQuery, signal }) {
  const [namespace = "default", name = ""] = parts;
  const key = { namespace, name };
  if (!name) {
    const words = "The address names no pod: it ends with NAMESPACE/NAME.";
    replace(root, h("h1", null, "Pod"), h("p", { class: "notice error" }, words));
    return;
  }
  const [place, facts, decision, nodes] = ["div", "section", "section", "div"].map((tag) => h(tag));
  const loadFacts = () => fill(facts, {
    wait: "Loading the pod ...",
    load: () => call("/v1/get-pod", { key }, { signal }),
    draw: (answer) => drawFacts(answer, place),
    hint: notFound,
  });
  const loadAccount = () => fill(decision, {
    wait: "Looking at every node ...",
    load: () => call("/v1/explain", { key }, { signal }),
    draw: (explanation) => {
      replace(nodes, drawAccount(explanation, { key, query, setQuery, signal }));
      return drawDecision(explanation, key);
    },
    hint: notFound,
  });
  const show = async () => {
    replace(nodes);
    const [, explanation] = await Promise.all([loadFacts(), loadAccount()]);
    if (explanation) {
      announce(`Account of ${safe(podName(key))} loaded`);
    }
  };
  const refresh = h("button", { type: "button", on: { click: show } }, "Refresh");
  const head = h("div", { class: "spread" }, h("h1", null, `Pod ${safe(podName(key))}`), refresh);
  replace(root, head, links(key), place, h("div", { class: "split" }, decision, facts), nodes);
  show();
}
