// What if: a basket of changes, tried on a private copy of the cluster.

import { h } from "../dom.js";
import { count, safe } from "../format.js";
import { failure } from "../parts/states.js";
import { emptyBasket, ofQuery, size, toQuery } from "../parts/whatif-basket.js";
import { changeForm, showChanges } from "../parts/whatif-form.js";
import { knownNodes } from "../parts/whatif-names.js";
import { UnfitText } from "../parts/whatif-objects.js";
import { report, summary } from "../parts/whatif-report.js";
import { answer } from "../parts/whatif-run.js";
import { runner } from "../parts/whatif-runner.js";
import { Refused } from "../parts/whatif-session.js";

export const title = "What if";

/** What the answer rests on, for those who want to know. */
const HOW = [
  "The server forks the cluster for this page alone (a session). The changes are made on the fork, the " +
    "pods are placed there, and the fork is dropped. The cluster itself is never changed.",
  "Nodes and other objects come first, then nodes go, then pods are placed: those that wait already, those " +
    "of nodes that are gone, and new ones, the most urgent first. The server's own profiles place them.",
  "Nobody is evicted to make room: a pod that fits nowhere waits.",
  "A node that is copied or cordoned is made of its labels, taints and allocatable amounts. Its images and " +
    "annotations are not known here, so a score for images present can differ.",
  "If any change is refused there is no answer: with only a part of the changes it would be wrong.",
];
const FIRST_PROBLEMS = 50;

/** Shows why a question has no answer. */
function problem(error, again) {
  const notice = (...content) => h("div", { class: "notice error", role: "alert" }, content);
  if (error instanceof UnfitText) {
    return notice(h("p", null, `The objects cannot be read: ${safe(error.message)}`));
  }
  if (!(error instanceof Refused)) {
    return failure(error, again);
  }
  const line = ({ what, field, reason }) => h("li", null, h("strong", null, safe(what)),
    field && [", field ", h("code", null, safe(field))], ": ", safe(reason));
  const left = error.problems.length - FIRST_PROBLEMS;
  return notice(h("p", null, `${error.message}, so there is no answer:`),
    h("ul", null, error.problems.slice(0, FIRST_PROBLEMS).map(line)), left > 0 && `and ${count(left)} more`);
}

async function basketOf(query, root) {
  try {
    return await ofQuery(query);
  } catch (error) {
    root.append(h("p", { class: "notice error" }, error.message));
    return emptyBasket();
  }
}

const INTRODUCTION = "Try changes on a private copy of the cluster: who would get a node, and who would " +
  "have to wait? Nothing in the cluster changes. The changes are in the address of this page, so that you " +
  "can send them.";

/** @param {HTMLElement} root */
export async function mount(root, { query, setQuery, signal }) {
  root.append(h("h1", null, title), h("p", null, INTRODUCTION));
  const basket = await basketOf(query, root);
  const nodes = knownNodes();
  const place = h("div", { tabindex: "-1", role: "group", "aria-label": "Changes" });
  const result = h("div");
  const questions = runner(result, signal);
  const ask = h("button", { type: "button", class: "primary", on: { click: run } }, "Try the changes");
  const clear = h("button", { type: "button", on: { click: empty } }, "Leave out all");
  const form = changeForm({ basket, nodes, onChange });

  function show() {
    ask.disabled = size(basket) === 0;
    clear.hidden = size(basket) === 0;
    showChanges(place, { basket, form, onChange });
  }

  async function onChange() {
    show();
    questions.stop();
    setQuery(await toQuery(basket));
  }

  function empty() {
    Object.assign(basket, emptyBasket());
    onChange();
  }

  function run() {
    questions.run({
      wait: "Opening a private copy of the cluster",
      load: (ended, say) => answer(basket, { signal: ended, say }),
      draw: (answered) =>
        ({ shown: [h("h2", null, "Before and after"), report(answered)], said: summary(answered) }),
      fail: (error) => problem(error, run),
    });
  }

  root.append(
    h("section", null, h("h2", null, "Changes"), place, h("p", { class: "row" }, ask, clear)),
    h("section", { class: "card" }, h("h2", null, "Add a change"), form.element),
    result,
    h("details", null, h("summary", null, "How this is answered"),
      h("ul", null, HOW.map((line) => h("li", null, line)))));
  show();
  if (size(basket) > 0) {
    run();
  }
  return () => nodes.close();
}
