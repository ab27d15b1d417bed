// Policies: an A/B report on what would have become of the recorded pods under others.

import { call, explainError } from "../api.js";
import { announce, h } from "../dom.js";
import { safe } from "../format.js";
import {
  faultOf as faultOfQuestion,
  policiesForm,
  questionOf,
  questionToQuery,
} from "../parts/policies-form.js";
import { faultOf, report, summary } from "../parts/policies-report.js";
import { withCode } from "../parts/podwords.js";
import { failure } from "../parts/states.js";
import { runner } from "../parts/whatif-runner.js";

export const title = "Policies";

/** Larger files are refused, so that a wrong one does not stop the page. */
const MAX_FILE_BYTES = 256 << 20;

const INTRODUCTION = "What would have become of the recorded pods under other scheduling policies? The " +
  "pods come once more, at their time, on a cluster for each policy. Nothing in the cluster changes. The " +
  "policies are in the address of this page, so that you can send them.";
const NOTHING_RECORDED =
  "This server records nothing, so there are no pods to place once more. Start it with " +
  "`--journal DIR` to record what happens, or open a file of `berth compare -o json` below.";

function problem(error, again) {
  if (error.code === "FAILED_PRECONDITION") {
    return h("div", { class: "notice warning" }, h("p", null, withCode(NOTHING_RECORDED)),
      h("p", { class: "muted" }, explainError(error)));
  }
  const isBusy = error.code === "RESOURCE_EXHAUSTED";
  return failure(error, again, isBusy ? "Only one comparison runs at a time: try again when it is done."
    : error.field && `The field is ${error.field}.`);
}

/** The comparison of a file, as `{comparison}`; `{fault}` if it has none. */
async function comparisonIn(file) {
  if (file.size > MAX_FILE_BYTES) {
    return { fault: "The file is larger than 256 MiB." };
  }
  try {
    const comparison = JSON.parse(await file.text());
    const fault = faultOf(comparison);
    return fault ? { fault } : { comparison };
  } catch {
    return { fault: "The file is no JSON. One of `berth compare -o json` is." };
  }
}

const faultNotice = (text) => h("p", { class: "notice error", role: "alert" }, withCode(text));

function drawn(comparison, heading) {
  const fault = faultOf(comparison);
  return fault
    ? { shown: faultNotice(fault), said: fault }
    : { shown: [h("h2", null, heading), report(comparison)], said: summary(comparison) };
}

function fileField(questions, onOpen) {
  const input = h("input", { type: "file", accept: ".json,application/json" });
  input.addEventListener("change", () => {
    const [file] = input.files;
    if (file) {
      onOpen();
      questions.run({
        wait: "Reading the file",
        load: () => comparisonIn(file),
        draw: ({ comparison, fault }) => (fault ? { shown: faultNotice(fault), said: fault }
          : drawn(comparison, `Side by side, from ${safe(file.name)}`)),
        fail: failure,
      });
    }
  });
  return h("p", null, h("label", { class: "row" }, "Comparison from a file", input));
}

async function questionIn(query, root) {
  try {
    return await questionOf(query);
  } catch (error) {
    const text = error instanceof SyntaxError ? "The policies in the address are damaged." : error.message;
    root.append(h("p", { class: "notice error" }, text));
    return questionOf(new URLSearchParams());
  }
}

/** @param {HTMLElement} root */
export async function mount(root, { query, setQuery, signal }) {
  root.append(h("h1", null, title), h("p", null, INTRODUCTION));
  const question = await questionIn(query, root);
  const result = h("div");
  const questions = runner(result, signal);
  const wrong = h("p", { class: "notice error", role: "alert", hidden: true });
  const cancel = h("button", { type: "button", hidden: true, on: { click: stop } }, "Stop");

  function stop() {
    questions.stop();
    cancel.hidden = true;
    announce("Stopped");
  }

  async function onChange() {
    wrong.hidden = true;
    setQuery(await questionToQuery(question));
  }

  async function run() {
    const fault = faultOfQuestion(question);
    wrong.textContent = fault;
    wrong.hidden = !fault;
    if (fault) {
      return;
    }
    const { policies, untilFull, includeRecorded } = question;
    const body = { policies, untilFull, includeRecorded: includeRecorded && !untilFull };
    cancel.hidden = false;
    const isLast = await questions.run({
      wait: "Placing the recorded pods once more under each policy. This takes up to minutes.",
      load: (ended) => call("/v1/decisions/compare", body, { signal: ended }),
      draw: (comparison) => drawn(comparison, "Side by side"),
      fail: (error) => problem(error, run),
    });
    cancel.hidden ||= isLast;
  }

  const compare = h("button", { type: "button", class: "primary", on: { click: run } }, "Compare");
  const hideStop = () => {
    cancel.hidden = true;
  };
  root.append(
    h("section", null, h("h2", null, "Policies to compare"), policiesForm(question, onChange), wrong,
      h("p", { class: "row" }, compare, cancel)),
    h("section", null, h("h2", null, "Or open a comparison"), h("p", { class: "muted" }, withCode(
      "A file of `berth compare -o json` is shown in this page; it is not sent anywhere.")),
    fileField(questions, hideStop)),
    result);
}
