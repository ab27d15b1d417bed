// The rules of a drain: which nodes may go, and which pods may move. They are cluster-autoscaler's.

import { h } from "../dom.js";
import { ticked } from "./whatif-words.js";

/** Rules that are on or off: the name in the address, the place in the request, and what it says. */
const SWITCHES = new Map([
  ["force", ["rules", "moveUnreplicated", "Also move pods that no controller would make anew"]],
  ["local", ["rules", "moveLocalStorage",
    "Also move pods with a hostPath volume or an emptyDir on disk: its contents are lost"]],
  ["unsafe", ["rules", "moveNotSafeToEvict", "Also move pods annotated as not safe to evict"]],
  ["system", ["rules", "moveSystemPods",
    "Also move young pods of kube-system that no disruption budget covers"]],
  ["controllers", ["rules", "requireControllers",
    "Move pods only if the cluster has their ReplicationController, ReplicaSet or StatefulSet"]],
  ["disabled", ["nodeRules", "ignoreScaleDownDisabled", "Also drain nodes annotated scale-down-disabled"]],
  ["ready", ["nodeRules", "keepUnready", "Keep nodes that are not ready"]],
  ["no-daemons", ["nodeRules", "skipDaemonPods",
    "Leave pods of DaemonSets out of the share that is requested"]],
  ["no-static", ["nodeRules", "skipMirrorPods", "Leave static pods out of the share that is requested"]],
]);

/** Rules with a number or a text, likewise. `only` and `without` name a switch that has to be on, or off. */
const VALUES = new Map([
  ["young", ["rules", "systemPodTimeoutSeconds", "Pods of kube-system are young up to this age, in seconds",
    { isNumber: true, placeholder: "3600", without: "system" }]],
  ["replicas", ["rules", "minReplicas", "Keep pods whose controller has fewer replicas than",
    { isNumber: true, placeholder: "0", only: "controllers" }]],
  ["below", ["nodeRules", "utilizationThreshold", "Keep nodes with this share requested or more (1 is full)",
    { isNumber: true, placeholder: "any", step: "any" }]],
  ["label", ["nodeRules", "nodeGroupLabel", "Keep nodes without this label: they are of no group",
    { placeholder: "any" }]],
]);

/** The rule that would let a pod or a node go, by cluster-autoscaler's reason why it stays. */
const REMEDIES = new Map([
  ["NotReplicated", "force"], ["UnmovableKubeSystemPod", "system"], ["NotSafeToEvictAnnotation", "unsafe"],
  ["LocalStorageRequested", "local"], ["ScaleDownDisabledAnnotation", "disabled"],
]);

/** The name of the rule that would help against a reason; undefined if none would. */
export const remedyOf = (reason) => REMEDIES.get(reason);

/** @returns {{switches: Set<string>, values: Map<string, string>}} */
export function rulesOf(query) {
  const switches = new Set((query.get("allow") ?? "").split(",").filter((name) => SWITCHES.has(name)));
  const values = [...VALUES.keys()].map((name) => [name, query.get(name)]).filter(([, value]) => value);
  return { switches, values: new Map(values) };
}

/** The rules as a part of the query. */
export function rulesToQuery({ switches, values }) {
  return { allow: [...switches].join(","), ...Object.fromEntries(values) };
}

/** The rules as a part of the request. */
export function rulesToRequest({ switches, values }) {
  const request = { rules: {}, nodeRules: {} };
  for (const name of switches) {
    const [of, field] = SWITCHES.get(name);
    request[of][field] = true;
  }
  for (const [name, value] of values) {
    const [of, field, , { isNumber, only, without }] = VALUES.get(name);
    const given = isNumber ? Number(value) : value;
    if ((!only || switches.has(only)) && !switches.has(without) && !Number.isNaN(given)) {
      request[of][field] = given;
    }
  }
  return request;
}

function switchField([name, [, , said]], { switches }, onChange) {
  const input = h("input", { type: "checkbox", checked: switches.has(name) });
  input.addEventListener("change", () => {
    switches[input.checked ? "add" : "delete"](name);
    onChange();
  });
  return ticked(input, said);
}

function valueField([name, [, , said, { isNumber, placeholder, step = "1" }]], { values }, onChange) {
  const type = isNumber ? { type: "number", min: "0", step } : { type: "text" };
  const input = h("input", { ...type, placeholder, size: "12", value: values.get(name) ?? "" });
  input.addEventListener("change", () => {
    const value = input.value.trim();
    values[value ? "set" : "delete"](name, value);
    onChange();
  });
  return h("p", null, h("label", { class: "row" }, h("span", null, said), input));
}

/** Fields for the rules; open if one differs from the default. */
export function rulesForm(rules, onChange) {
  const fields = (of, title) => {
    const some = (all, draw) =>
      [...all].filter(([, rule]) => rule[0] === of).map((entry) => draw(entry, rules, onChange));
    return h("fieldset", null, h("legend", null, title), some(SWITCHES, switchField),
      some(VALUES, valueField));
  };
  return h("details", { open: rules.switches.size + rules.values.size > 0 }, h("summary", null, "Rules"),
    h("div", { class: "split" }, fields("rules", "Pods"), fields("nodeRules", "Nodes")));
}
