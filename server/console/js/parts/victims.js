// The pods that a pod would displace, where they could go, and by which rules their node was chosen.

import { h } from "../dom.js";
import { count, plural, safe } from "../format.js";
import { table } from "../table.js";
import { prose } from "./cells.js";
import { listed, nodeLink, podLink, podName } from "./podwords.js";
import { ownerText } from "./podfacts.js";

/** kube-scheduler counts each victim's priority from the lowest possible one: each victim adds to the sum. */
const LOWEST = 2 ** 31;

function violations(n) {
  return n === 0 ? "violates no disruption budget" : `violates disruption budgets for ${plural(n, "pod")}`;
}

/** The choice in a sentence. */
export function choice(chosen, ran) {
  const n = ran.nCandidates ?? 0;
  const nBest = ran.nBest ?? 0;
  const place = nBest > 1 ? `one of ${count(nBest)} equal, of` : "the best of";
  const among = n <= 1 ? "the only candidate" : `${place} ${plural(n, "candidate")}`;
  const nVictims = chosen.victims?.length ?? 0;
  return [`Evicting ${plural(nVictims, "pod")} makes room on `, nodeLink(chosen.nodeName),
    `: ${among}; ${violations(chosen.nPdbViolations ?? 0)}.`];
}

/** Why nobody is displaced. */
export function nobody(decision, ran) {
  if (decision?.placement) {
    return "Nobody has to go: the pod fits.";
  }
  if (decision?.gated) {
    return "Nobody is displaced: the pod is held back before any node is looked at.";
  }
  if (!ran) {
    return `Nobody is displaced${decision?.unschedulable ? ": the pod's profile has no plugin for it" : ""}.`;
  }
  if (ran.code === "POST_FILTER_CODE_ERROR") {
    return `Nobody is displaced: a plugin failed. ${safe(ran.message ?? "")}`;
  }
  const reason = (ran.message ?? "").split("preemption: ").at(-1);
  return `Nobody to displace: ${safe(reason || "no reason is given")}`;
}

function elsewhere(victim) {
  const { nodeName, unschedulableMessage } = victim.elsewhere ?? {};
  if (nodeName) {
    return nodeLink(nodeName);
  }
  return unschedulableMessage ? prose(h("strong", null, "nowhere"), `: ${safe(unschedulableMessage)}`) : "-";
}

function budgetsOf(details) {
  const names = (details?.budgets ?? []).map((it) =>
    `${safe(it.metadata?.name ?? "")} (allows ${count(it.status?.disruptionsAllowed ?? 0)})`);
  return details ? names.join(", ") || "none" : "...";
}

/** Table of the victims. `details` has the answer of `/v1/get-pod` for each pod, null where there is none. */
export function victimTable(victims, details) {
  const of = (victim) => details?.get(podName(victim.pod));
  const owner = (victim) => (of(victim) ? ownerText(of(victim).pod) : of(victim) === null ? "-" : "...");
  const budgets = (victim) => (of(victim) === null ? "-" : budgetsOf(of(victim)));
  const priority = (victim) => victim.priority ?? 0;
  const priorityText = (victim) => count(priority(victim));
  const terminating = (victim) => (victim.isTerminating ? "yes, needs no eviction" : "no");
  const looked = victims.some((victim) => victim.elsewhere);
  return table({
    label: "Pods that would go",
    columns: [
      { key: "pod", title: "Pod", cell: (it) => podLink(it.pod), sort: (it) => podName(it.pod) },
      { key: "priority", title: "Priority", cell: priorityText, sort: priority, numeric: true },
      details && { key: "owner", title: "Owner", cell: owner },
      details && { key: "budgets", title: "Disruption budgets", cell: budgets },
      { key: "terminating", title: "Terminating", cell: terminating },
      looked && { key: "elsewhere", title: "Could go to", cell: elsewhere },
    ].filter(Boolean),
    rows: victims,
  });
}

function startText(candidate, details) {
  const victims = candidate.victims ?? [];
  const most = victims[0]?.priority ?? 0;
  const starts = victims.filter((it) => (it.priority ?? 0) === most)
    .map((it) => details?.get(podName(it.pod))?.pod?.status?.startTime)
    .filter(Boolean)
    .sort();
  return starts.length > 0 ? safe(starts[0]) : "not known";
}

/** The rules of kube-scheduler's choice, one after the other, with a candidate's numbers; less is better. */
function rulesOf(prefersElsewhere) {
  const priority = (it) => it.victims?.[0]?.priority ?? 0;
  const sum = (it) => (it.victims ?? []).reduce((total, victim) => total + (victim.priority ?? 0), 0);
  const isStranded = (victim) => Boolean(victim.elsewhere?.unschedulableMessage);
  const nowhere = (it) => (it.victims ?? []).filter(isStranded).length;
  return [
    { title: "Fewest victims that a disruption budget protects", value: (it) => it.nPdbViolations ?? 0 },
    prefersElsewhere && { title: "Fewest victims that no other node takes", value: nowhere, isUnknown: true },
    { title: "Lowest priority of the most important victim", value: priority },
    { title: "Smallest sum of the victims' priorities, each counted from the lowest possible",
      value: (it) => sum(it) + LOWEST * (it.victims?.length ?? 0),
      text: (it) => `${plural(it.victims?.length ?? 0, "victim")}, priorities sum to ${count(sum(it))}` },
    { title: "Fewest victims", value: (it) => it.victims?.length ?? 0 },
    { title: "Most important victims started last", isUnknown: true, text: startText },
    { title: "Any of those still equal", isLast: true },
  ].filter(Boolean);
}

/** Candidates, the best first, as far as that can be told from their numbers. */
export function bestCandidatesFirst(candidates) {
  const rules = rulesOf(false).filter((rule) => rule.value);
  const worse = (a, b) => rules.map((rule) => rule.value(a) - rule.value(b)).find((n) => n !== 0) ?? 0;
  return [...candidates].sort(worse);
}

/** Number of candidates that each rule leaves; only as far as it can be told from their numbers. */
function leftAfter(rules, candidates) {
  let left = candidates;
  let isKnown = true;
  return rules.map((rule) => {
    isKnown &&= !rule.isUnknown;
    if (!isKnown || rule.isLast || left.length <= 1) {
      return null;
    }
    const best = left.reduce((least, it) => Math.min(least, rule.value(it)), Infinity);
    left = left.filter((it) => rule.value(it) === best);
    return left.length;
  });
}

/** The rules with the chosen candidate's numbers; with all candidates, also how many each rule leaves. */
export function ruleTable({ chosen, ran, details, candidates = null, prefersElsewhere = false }) {
  const rules = rulesOf(prefersElsewhere);
  const left = candidates ? leftAfter(rules, candidates) : [];
  const rows = rules.map((rule, i) => ({ ...rule, position: i + 1, left: left[i] ?? null }));
  const text = (rule) => {
    if (rule.isLast) {
      return (ran.nBest ?? 1) > 1 ? `${count(ran.nBest)} are equal` : "not needed";
    }
    return rule.text ? rule.text(chosen, details) : count(rule.value(chosen));
  };
  const remaining = (rule) => (rule.left === null ? "-" : rule.left === 1 ? "1, decided" : count(rule.left));
  return table({
    label: "Rules of kube-scheduler's choice",
    columns: [
      { key: "position", title: "Rule", cell: (rule) => count(rule.position), numeric: true },
      { key: "title", title: "Of the candidates, those with", cell: (rule) => prose(rule.title) },
      { key: "value", title: "This candidate", cell: text },
      candidates && { key: "left", title: "Candidates left", cell: remaining, numeric: true },
    ].filter(Boolean),
    rows,
  });
}

/** The first few victims of a candidate, and how many more there are. */
export function victimNames(candidate, n = 3) {
  const victims = candidate.victims ?? [];
  return listed(victims.slice(0, n).map((it) => podLink(it.pod)), Math.max(0, victims.length - n));
}
