// The facts of a pod, as a feed reported it.

import { h } from "../dom.js";
import { ago, amount, count, plural, safe } from "../format.js";
import { listed, nodeLink } from "./podwords.js";
import { podRequests } from "./requests.js";

/** The controller, or null. */
function controllerOf(pod) {
  const owners = pod?.metadata?.ownerReferences ?? [];
  return owners.find((owner) => owner.controller) ?? null;
}

/** `ReplicaSet web-5d4f`; a dash for a pod without a controller. */
export function ownerText(pod) {
  const owner = controllerOf(pod);
  return owner ? `${safe(owner.kind ?? "")} ${safe(owner.name ?? "")}` : "-";
}

/** `cpu 4, memory 40 GiB` of a map of amounts. */
function amountsText(amounts) {
  const text = ([resource, n]) => `${safe(resource)} ${amount(resource, n)}`;
  return [...amounts].filter(([, n]) => n !== 0).map(text).join(", ") || "nothing";
}

function priorityText(spec) {
  const name = spec?.priorityClassName;
  return `${count(spec?.priority ?? 0)}${name ? ` (${safe(name)})` : ""}`;
}

function budgets(list) {
  const one = (it) => {
    const allowed = plural(it.status?.disruptionsAllowed ?? 0, "eviction");
    return `${safe(it.metadata?.name ?? "")} (allows ${allowed} now)`;
  };
  return list?.length ? listed(list.map(one)) : null;
}

/** A fact for a list of facts; null without a value. */
export function fact(title, value) {
  const isAbsent = value === null || value === undefined || value === "";
  return isAbsent ? null : [h("dt", null, title), h("dd", null, value)];
}

/** What `/v1/get-pod` answers, as a list of facts. */
export function podFacts(answer) {
  const { metadata = {}, spec = {}, status = {} } = answer.pod ?? {};
  return h(
    "dl",
    { class: "facts" },
    fact("Phase", safe(status.phase ?? "Pending")),
    fact("Node", spec.nodeName ? [nodeLink(spec.nodeName), answer.assumed ? " (assumed)" : ""] : "none"),
    fact("Nominated to", status.nominatedNodeName ? nodeLink(status.nominatedNodeName) : null),
    fact("Requests", amountsText(podRequests(answer.pod))),
    fact("Priority", priorityText(spec)),
    fact("Owner", ownerText(answer.pod)),
    fact("Scheduler", safe(spec.schedulerName ?? "default-scheduler")),
    fact("Created", metadata.creationTimestamp ? ago(metadata.creationTimestamp) : null),
    fact("Being deleted since", metadata.deletionTimestamp ? ago(metadata.deletionTimestamp) : null),
    fact("Disruption budgets", budgets(answer.budgets)),
    fact("Claims", (answer.claims ?? []).map((it) => safe(it.metadata?.name ?? "")).join(", ")),
  );
}
