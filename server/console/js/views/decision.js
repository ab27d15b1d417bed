// One decision of the journal: what was asked, what came of it, and the same decision made again.

import { announce, h, replace } from "../dom.js";
import { call } from "../api.js";
import { count, plural, safe, time } from "../format.js";
import { account, help } from "../parts/account.js";
import { eviction } from "../parts/eviction.js";
import { lazyDetails } from "../parts/lazy.js";
import { manifest } from "../parts/manifest.js";
import { outcomeTag, podLink, podName, sentence } from "../parts/podwords.js";
import { fact } from "../parts/podfacts.js";
import { failure, fill, isAborted } from "../parts/states.js";

export const title = "Decision";

/** Seconds that making a decision again may take. */
const LONGEST = 300;
const KINDS = new Map([
  ["ATTEMPT_KIND_PLACE", "a node for one pod"],
  ["ATTEMPT_KIND_BATCH", "nodes for many pods, one after the other"],
  ["ATTEMPT_KIND_GANG", "nodes for many pods, all or nothing"],
  ["ATTEMPT_KIND_PREEMPT", "a node for one pod, and if there is none, pods to evict"],
]);

const NO_VERDICTS = "There is no verdict on nodes: the pod was held back or refused before nodes were looked "
  + "at, or it is a member of a gang that evicts pods.";

/** What came of a pod, recorded or now. */
function outcomeSentence(pod, { decision, error } = {}) {
  return decision
    ? sentence(podName(pod), decision)
    : [`The attempt failed: ${safe(error?.message ?? "no reason is given")}`];
}

function facts(answer) {
  const recorded = answer.recorded ?? {};
  const nPods = answer.nPods ?? 1;
  const position = count((answer.index ?? 0) + 1);
  const others = `${plural(nPods - 1, "other pod")}; this one was number ${position}`;
  const least = answer.gang?.minCount || nPods;
  const isSeed = Number.isSafeInteger(answer.seed);
  return h(
    "dl",
    { class: "facts" },
    fact("Made", recorded.time ? time(recorded.time) : null),
    fact("Outcome", outcomeTag(recorded.result)),
    fact("Pod", podLink(recorded.pod)),
    fact("Asked for", KINDS.get(recorded.kind) ?? "not known"),
    fact("Assumed", recorded.assumes ? "yes: the pod was to occupy its room" : "no: a dry run"),
    fact("Scheduler", safe(recorded.schedulerName ?? "")),
    fact("Together with", nPods > 1 ? others : null),
    fact("Gang", answer.gang ? `at least ${count(least)} of ${count(nPods)} need a node` : null),
    fact("Generation of the cluster", count(answer.generation ?? 0)),
    fact("Seed for equal scores", isSeed ? String(answer.seed) : null),
  );
}

function preempted(answer) {
  const { postFilter: ran, recorded } = answer;
  const decision = recorded?.result?.decision;
  return ran
    ? [h("h2", null, "Preemption"), eviction({ decision, ran, podText: podName(recorded?.pod), level: 3 })]
    : null;
}

function compared(answer, recorded) {
  if (answer.same) {
    return h("p", { class: "notice good" }, "It came out the same, to the last byte.");
  }
  const { pod, result } = recorded;
  return h(
    "div",
    { class: "notice warning" },
    h("p", null, "It did not come out the same to the last byte."),
    h("p", null, h("strong", null, "Recorded: "), outcomeSentence(pod, result)),
    h("p", null, h("strong", null, "Now: "), outcomeSentence(pod, answer.result)),
  );
}

function drawReplay(answer, { recorded, id, signal }) {
  const load = async (nodeName) => {
    const body = { id, nodeNames: [nodeName] };
    const again = await call("/v1/decisions/replay", body, { signal, timeout: LONGEST });
    return again.explanation ?? {};
  };
  const content = answer.explanation
    ? [help(answer.explanation), account({ explanation: answer.explanation, load })]
    : h("p", { class: "muted" }, NO_VERDICTS);
  return [compared(answer, recorded), content];
}

/** The button that makes the decision again, with a clock and a way out while it does. */
function replaySection(recorded, { id, signal }) {
  const slot = h("div");
  const start = async () => {
    const own = new AbortController();
    const began = performance.now();
    const clock = h("span", null, "0 s");
    const tick = () => (clock.textContent = `${count(Math.floor((performance.now() - began) / 1000))} s`);
    const timer = setInterval(tick, 1000);
    const cancel = h("button", { type: "button", on: { click: () => own.abort() } }, "Cancel");
    const waiting = h("p", { class: "loading" }, "Making the decision again ", clock);
    replace(slot, h("div", { class: "row" }, waiting, cancel));
    cancel.focus();
    try {
      const both = AbortSignal.any([signal, own.signal]);
      const answer = await call("/v1/decisions/replay", { id }, { signal: both, timeout: LONGEST });
      replace(slot, drawReplay(answer, { recorded, id, signal }));
      announce(answer.same ? "It came out the same" : "It did not come out the same");
    } catch (error) {
      if (isAborted(error)) {
        offer("Cancelled. ");
        make.focus();
      } else {
        replace(slot, failure(error, start));
      }
    } finally {
      clearInterval(timer);
    }
  };
  const words = "The changes of the journal are made again up to this decision, which takes seconds.";
  const make = h("button", { type: "button", class: "primary", on: { click: start } },
    "Make it again on the cluster as it was");
  const offer = (before = "") => replace(slot, h("p", null, before, words), make);
  offer();
  return [h("h2", null, "Why it came out so"), slot];
}

function draw(answer, context) {
  const { recorded = {}, podObject } = answer;
  return h(
    "div",
    null,
    h("p", null, outcomeSentence(recorded.pod, recorded.result)),
    facts(answer),
    preempted(answer),
    replaySection(recorded, context),
    podObject ? [h("h2", null, "The pod as it was decided about"),
      lazyDetails("Show its manifest", () => manifest(podObject))] : null,
  );
}

function hint(error) {
  const hints = new Map([
    ["FAILED_PRECONDITION", "This server records no decisions: it was started without --journal."],
    ["NOT_FOUND", "Its part of the journal may have been removed, or another server has recorded it."],
  ]);
  return hints.get(error?.code) ?? null;
}

/** Fills the view. */
export function mount(root, { parts, signal }) {
  const [id = ""] = parts;
  const slot = h("section", { "aria-label": "Decision" });
  replace(root, h("h1", null, "Decision"), slot);
  fill(slot, {
    wait: "Loading the decision ...",
    load: () => call("/v1/decisions/get", { id }, { signal }),
    draw: (answer) => draw(answer, { id, signal }),
    hint,
  });
}
