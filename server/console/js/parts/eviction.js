// The result of a preemption: who would go, where to, and why this node.

import { h, replace } from "../dom.js";
import { call } from "../api.js";
import { count, plural, safe } from "../format.js";
import { evictionFlow } from "./evictionflow.js";
import { listed, nodeLink, podLink, podName } from "./podwords.js";
import { choice, nobody, ruleTable, victimTable } from "./victims.js";

/** More pods than these are not looked up one by one. */
const N_LOOKED_UP = 40;
const N_AT_ONCE = 4;

/** Answers of `/v1/get-pod` by pod; null for a pod that is not known any more. `onDone` gets all of them. */
async function lookUp(victims, { signal, onDone }) {
  const details = new Map();
  const waiting = victims.slice(0, N_LOOKED_UP);
  victims.slice(N_LOOKED_UP).forEach((victim) => details.set(podName(victim.pod), null));
  const next = async () => {
    for (let victim = waiting.shift(); victim && !signal.aborted; victim = waiting.shift()) {
      const { namespace, name } = victim.pod ?? {};
      const answer = await call("/v1/get-pod", { key: { namespace, name } }, { signal }).catch(() => null);
      details.set(podName(victim.pod), answer);
    }
  };
  await Promise.all(Array.from({ length: N_AT_ONCE }, next));
  onDone(details);
}

function figures(chosen, ran) {
  const figure = (title, value) => h("div", null, h("dt", null, title), h("dd", null, value));
  const looked = (chosen.victims ?? []).filter((victim) => victim.elsewhere);
  const nowhere = looked.filter((victim) => victim.elsewhere.unschedulableMessage);
  return h(
    "dl",
    { class: "figures" },
    figure("Pods that go", count(chosen.victims?.length ?? 0)),
    looked.length > 0 ? figure("Of them without another node", count(nowhere.length)) : null,
    figure("Against a disruption budget", count(chosen.nPdbViolations ?? 0)),
    figure("Candidate nodes", count(ran.nCandidates ?? 0)),
  );
}

function remarks(ran, chosen) {
  const cleared = ran.clearedNominations ?? [];
  const claims = ran.deallocatableClaims ?? [];
  const deallocated = `One of these claims for devices would be deallocated: ${claims.map(safe).join(", ")}.`;
  return [
    cleared.length > 0 ? h("p", null, "Takes the nomination to ", nodeLink(chosen.nodeName), " from ",
      listed(cleared.map((key) => podLink(key))), ".") : null,
    claims.length > 0 ? h("p", null, deallocated) : null,
  ];
}

/** By which rules the candidate is the best one. */
function why(about) {
  if ((about.ran.nCandidates ?? 0) <= 1) {
    return h("p", null, "It is the only node on which evicting pods of lower priority makes room.");
  }
  const words = "kube-scheduler's rules, one after the other: each keeps the best ones until one is left.";
  return [h("p", null, words), ruleTable(about)];
}

/**
 * The result of PostFilter as elements. With the signal `live` the victims are looked up in the cluster;
 * without it, as for a recorded decision, their owners are left out. `candidates(update)` may add to what is
 * shown about the choice.
 */
export function eviction(about) {
  const { decision, ran, podText, prefersElsewhere = false, live = null, candidates, level = 2 } = about;
  const heading = (text) => h(`h${level}`, null, text);
  const chosen = ran?.chosen;
  if (!chosen) {
    return h("p", { class: "notice" }, nobody(decision, ran));
  }
  const state = { details: live ? new Map() : null, candidates: null };
  const victims = h("div");
  const rules = h("div");
  const draw = () => {
    replace(victims, victimTable(chosen.victims ?? [], state.details));
    replace(rules, why({ chosen, ran, prefersElsewhere, ...state }));
  };
  draw();
  if (live) {
    lookUp(chosen.victims ?? [], { signal: live, onDone: (details) => {
      state.details = details;
      draw();
    } });
  }
  const update = (list) => {
    state.candidates = list;
    draw();
  };
  return h(
    "div",
    null,
    h("p", { class: "notice" }, choice(chosen, ran)),
    remarks(ran, chosen),
    figures(chosen, ran),
    heading(`Who would go: ${plural(chosen.victims?.length ?? 0, "pod")}`),
    evictionFlow({ podText, chosen }),
    victims,
    heading("Why this node"),
    rules,
    candidates?.(update),
  );
}
