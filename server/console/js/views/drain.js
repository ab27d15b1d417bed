// Drain: which nodes can be emptied, where their pods would go, and what stands in the way.

import { call } from "../api.js";
import { h, link, replace } from "../dom.js";
import { count, plural } from "../format.js";
import {
  MAX_NODES,
  choiceForms,
  choiceOf,
  choiceToQuery,
  chosenNames,
  isEmpty,
  showChoice,
} from "../parts/drain-choice.js";
import { report, summary } from "../parts/drain-report.js";
import { rulesForm, rulesOf, rulesToQuery, rulesToRequest } from "../parts/drain-rules.js";
import { failure } from "../parts/states.js";
import { joinNames, knownNodes, nameField, splitNames } from "../parts/whatif-names.js";
import { runner } from "../parts/whatif-runner.js";
import { ticked } from "../parts/whatif-words.js";

export const title = "Drain";

const MODES = new Map([
  ["one-by-one", ["DRAIN_MODE_ONE_BY_ONE", "Each node for itself, as if the others stayed"]],
  ["together", ["DRAIN_MODE_TOGETHER",
    "All at once: none takes pods of another, and all share what budgets allow"]],
  ["in-turn", ["DRAIN_MODE_IN_TURN",
    "One after another: each when the pods of the one before are ready elsewhere"]],
]);
const INTRODUCTION = "Can these nodes be drained, where would their pods go, and what prevents it? This is " +
  "a simulation: no pod is evicted. Its rules for pods that may move are those of cluster-autoscaler.";

function modeField(state, onChange) {
  const option = ([value, [, said]]) => {
    const input = h("input", { type: "radio", name: "drain-mode", value, checked: state.mode === value });
    input.addEventListener("change", () => {
      state.mode = value;
      onChange();
    });
    return ticked(input, said);
  };
  return h("fieldset", null, h("legend", null, "Several nodes"), [...MODES].map(option));
}

function destinationField(state, nodes, onChange) {
  const label = "Only these nodes may take pods (empty: all others)";
  const field = nameField({ label, nodes, value: state.to.join(", ") });
  field.input.addEventListener("change", () => {
    state.to = field.names();
    onChange();
  });
  return h("div", { class: "toolbar" }, field.element);
}

const stateOf = (query) => ({
  choice: choiceOf(query),
  rules: rulesOf(query),
  mode: MODES.has(query.get("mode")) ? query.get("mode") : "one-by-one",
  to: splitNames(query.get("to")),
});

const toQuery = ({ choice, rules, mode, to }) => ({
  ...choiceToQuery(choice),
  mode: mode === "one-by-one" ? "" : mode,
  to: joinNames(to),
  ...rulesToQuery(rules),
});

/** Asks for the drain. Returns the answer, or a text about why there is no question. */
async function ask(state, nodes, signal, say) {
  const nodeNames = await chosenNames(state.choice, nodes, signal);
  if (nodeNames.length === 0) {
    return "No node of the cluster has these labels, or is of these groups.";
  }
  if (nodeNames.length > MAX_NODES) {
    return `These are more than ${plural(MAX_NODES, "node")}: choose fewer.`;
  }
  say(`Simulating the drain of ${plural(nodeNames.length, "node")}`);
  const body = { nodeNames, mode: MODES.get(state.mode)[0], ...rulesToRequest(state.rules) };
  return call(
    "/v1/drain",
    { ...body, ...(state.to.length > 0 && { destinationNodeNames: state.to }) },
    { signal },
  );
}

/** A link to what the cluster would be like without the nodes. */
function whatIf({ nodes = [] }) {
  const names = nodes.filter((node) => node.removable).map((node) => node.nodeName);
  if (names.length === 0 || names.length > 500) {
    return null;
  }
  const text = `What the cluster would be like without the ${count(names.length)} that can go`;
  return h("p", null, link(text, "what-if", { query: { remove: joinNames(names) } }));
}

/** What to show of an answer, and to announce. */
function drawn(answered, mode, onAllow) {
  if (typeof answered === "string") {
    return { shown: h("p", { class: "notice warning" }, answered), said: answered };
  }
  const shown = [h("h2", null, "What would happen"), report(answered, { mode, onAllow }), whatIf(answered)];
  return { shown, said: summary(answered, mode) };
}

/** @param {HTMLElement} root */
export function mount(root, { query, setQuery, signal }) {
  const state = stateOf(query);
  const nodes = knownNodes();
  const place = h("div", { tabindex: "-1", role: "group", "aria-label": "Chosen nodes" });
  const [rules, result] = [h("div"), h("div")];
  const questions = runner(result, signal);
  const button = h("button", { type: "button", class: "primary", on: { click: run } }, "Simulate the drain");

  function show() {
    showChoice(place, state.choice, onChange);
    button.disabled = isEmpty(state.choice);
  }

  function onChange() {
    show();
    questions.stop();
    setQuery(toQuery(state));
  }

  function onAllow(name) {
    state.rules.switches.add(name);
    replace(rules, rulesForm(state.rules, onChange));
    onChange();
    run();
  }

  function run() {
    questions.run({
      wait: "Looking up the nodes",
      load: (ended, say) => ask(state, nodes, ended, say),
      draw: (answered) => drawn(answered, state.mode, onAllow),
      fail: (error) => failure(error, run, error.field && `The field is ${error.field}.`),
    });
  }

  root.append(
    h("h1", null, title), h("p", null, INTRODUCTION),
    h("section", null, h("h2", null, "Nodes"), place, choiceForms(state.choice, nodes, onChange)),
    h("section", null, h("h2", null, "How"), modeField(state, onChange),
      destinationField(state, nodes, onChange), rules, h("p", null, button)),
    result);
  replace(rules, rulesForm(state.rules, onChange));
  show();
  if (!isEmpty(state.choice)) {
    run();
  }
  return () => nodes.close();
}
