// The policies to compare: a name and a KubeSchedulerConfiguration for each, and their form in an address.

import { announce, h, replace } from "../dom.js";
import { pack, unpack } from "./whatif-pack.js";
import { ticked } from "./whatif-words.js";

const MAX_POLICIES = 8;

const PACKING = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
  plugins:
    multiPoint:
      disabled: [{name: NodeResourcesBalancedAllocation}]
`;

/** Policies to begin with. An empty configuration is kube-scheduler's own default profile. */
const PRESETS = new Map([
  ["default", { title: "kube-scheduler's default", name: "default", configuration: "" }],
  ["packing", { title: "Packing (MostAllocated)", name: "packing", configuration: PACKING }],
]);

/**
 * The question of an address.
 * @param {URLSearchParams} query
 * @returns {Promise<{policies: Array<{name: string, configuration: string}>, untilFull: boolean,
 *   includeRecorded: boolean}>}
 */
export async function questionOf(query) {
  const text = await unpack(query.get("policies"));
  const given = text ? JSON.parse(text) : [];
  const isPolicy = (one) => typeof one?.name === "string" && typeof one.configuration === "string";
  const policies = (Array.isArray(given) ? given : []).filter(isPolicy).slice(0, MAX_POLICIES);
  return {
    policies:
      policies.length > 0 ? policies.map(({ name, configuration }) => ({ name, configuration })) : defaults(),
    untilFull: query.get("until-full") === "1",
    includeRecorded: query.get("recorded") !== "0",
  };
}

/** What the view begins with: the default profile, and one that packs. */
function defaults() {
  return [...PRESETS.values()].map(({ name, configuration }) => ({ name, configuration }));
}

/** The question as the query of an address. */
export async function questionToQuery({ policies, untilFull, includeRecorded }) {
  return {
    policies: await pack(JSON.stringify(policies)),
    "until-full": untilFull ? "1" : "",
    recorded: includeRecorded ? "" : "0",
  };
}

/** What is wrong with the question; empty if nothing is. */
export function faultOf({ policies }) {
  const names = policies.map(({ name }) => name.trim());
  if (names.some((name) => !name)) {
    return "Each policy needs a name.";
  }
  return new Set(names).size < names.length ? "Two policies have the same name." : "";
}

/** A field for the name or the text of a policy, which `take` reads on each change. */
function field(tag, props, value, take) {
  const element = h(tag, { spellcheck: "false", ...props, ...(tag === "input" && { value }) },
    tag === "textarea" && value);
  element.addEventListener("change", take);
  return element;
}

function presetChoice(choose) {
  const options = [...PRESETS].map(([key, { title }]) => h("option", { value: key }, title));
  const preset = h("select", null, h("option", { value: "" }, "Choose"), options);
  preset.addEventListener("change", () => PRESETS.has(preset.value) && choose(PRESETS.get(preset.value)));
  return preset;
}

function policyCard(question, at, { onChange, show }) {
  const policy = question.policies[at];
  const title = `Policy ${at + 1}`;
  const take = () => {
    Object.assign(policy, { name: name.value.trim(), configuration: text.value });
    onChange();
  };
  const name = field("input", { type: "text", maxlength: "60" }, policy.name, take);
  const text = field("textarea", { rows: "11", class: "codelike",
    "aria-label": `KubeSchedulerConfiguration of ${title}`,
    placeholder: "Empty: kube-scheduler's default profile" }, policy.configuration, take);
  const preset = presetChoice((chosen) => {
    [name.value, text.value] = [chosen.name, chosen.configuration];
    take();
  });
  const file = h("input", { type: "file", accept: ".yaml,.yml,.json" });
  file.addEventListener("change", async () => {
    text.value = file.files.length > 0 ? await file.files[0].text() : text.value;
    take();
  });
  const drop = () => {
    question.policies.splice(at, 1);
    announce("Left out");
    show();
    onChange();
  };
  return h("section", { class: "card", "aria-label": title },
    h("div", { class: "spread" }, h("h3", { style: { margin: "0" } }, title),
      question.policies.length > 1 && h("button", { type: "button", class: "plain",
        "aria-label": `Leave out ${title}`, on: { click: drop } }, "Leave out")),
    h("div", { class: "toolbar" }, h("label", null, "Name", name), h("label", null, "Preset", preset)),
    text, h("p", null, h("label", { class: "row" }, "From a file", file)));
}

/** The form. `onChange` is called when it has changed the question. */
export function policiesForm(question, onChange) {
  const cards = h("div", { class: "cards" });
  const add = h("button", { type: "button", on: { click: another } }, "Add a policy");
  function show() {
    replace(cards, question.policies.map((policy, at) => policyCard(question, at, { onChange, show })));
    add.hidden = question.policies.length >= MAX_POLICIES;
  }
  function another() {
    question.policies.push({ name: `policy-${question.policies.length + 1}`, configuration: "" });
    show();
    cards.lastElementChild.querySelector("input").focus();
    onChange();
  }
  const option = (key, said) => {
    const input = h("input", { type: "checkbox", checked: question[key] });
    input.addEventListener("change", () => {
      question[key] = input.checked;
      onChange();
    });
    return ticked(input, said);
  };
  show();
  return h("div", null, cards, h("p", null, add),
    option("includeRecorded", "Include what was recorded as the first column"),
    option("untilFull", "Until full: no pod leaves, and the recorded ones come again and again until none " +
      "fits (without the recorded column)"));
}
