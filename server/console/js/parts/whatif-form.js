// The list of changes of a what-if question, and the form that adds one.

import { announce, h, replace } from "../dom.js";
import { plural, safe } from "../format.js";
import { keyOf, podName } from "./podwords.js";
import { MAX_COPIES } from "./whatif-basket.js";
import { showEntries } from "./whatif-chips.js";
import { nameField } from "./whatif-names.js";
import { UnfitText, readObjects } from "./whatif-objects.js";

/** Kinds of changes. `fields` makes fields; their `take` changes the basket, or returns what is missing. */
const KINDS = new Map([
  ["add", { title: "Add nodes", fields: addFields }],
  ["remove", { title: "Drain and remove nodes", fields: (nodes) => namesFields(nodes, "remove") }],
  ["cordon", { title: "Cordon nodes", fields: (nodes) => namesFields(nodes, "cordon") }],
  ["grow", { title: "More pods like one", fields: growFields }],
  ["manifest", { title: "Objects as YAML or JSON", fields: manifestFields }],
]);

const NOTES = {
  add: "A copy has the labels, taints and allocatable amounts of its node, and no pods. It has no devices " +
    "and no limits on volumes. Taints of a passing condition, such as not-ready, are left out.",
  remove: "Their pods are made anew elsewhere, except for those of DaemonSets and static pods, and those " +
    "that no controller makes anew. What would keep an orderly drain from ending is shown as well.",
  cordon: "The nodes take no more pods; those that they have stay.",
  grow: "The new pods have the labels, the controller and the spec of this pod, claims of volumes included.",
  manifest: "Nodes, pods, workloads such as a Deployment, and other objects that placements depend on. " +
    "Each replaces the object of its name. A pod with spec.nodeName runs there; the pods of a workload are " +
    "placed. The text becomes a part of this page's address: leave out what others must not see.",
};

function numberField(label) {
  const input = h("input", { type: "number", min: "1", max: String(MAX_COPIES), value: "1", required: true });
  return { element: h("label", null, label, input), value: () => Number(input.value) };
}

/** Puts an entry into a list: it replaces one that is the same but for its number. */
const put = (list, entry, isSame) => [...list.filter((one) => !isSame(one)), entry];

function addFields(nodes) {
  const node = nameField({ label: "Copies of the node", nodes, several: false });
  const n = numberField("How many");
  const take = (basket) => {
    const [name] = node.names();
    if (!name) {
      return "Enter the name of a node.";
    }
    basket.add = put(basket.add, { name, n: n.value() }, (one) => one.name === name);
    return "";
  };
  return { elements: [node.element, n.element], take };
}

function namesFields(nodes, kind) {
  const field = nameField({ label: "Nodes", nodes });
  const take = (basket) => {
    const names = field.names();
    basket[kind] = [...new Set([...basket[kind], ...names])];
    return names.length > 0 ? "" : "Enter the name of a node.";
  };
  return { elements: [field.element], take };
}

function growFields() {
  const pod = h("input", { type: "text", placeholder: "namespace/name", autocomplete: "off",
    spellcheck: "false", size: "30" });
  const n = numberField("How many more");
  const take = (basket) => {
    const key = keyOf(pod.value);
    if (!key) {
      return "Enter a pod as namespace/name.";
    }
    basket.grow = put(basket.grow, { ...key, n: n.value() }, (one) => podName(one) === podName(key));
    return "";
  };
  return { elements: [h("label", null, "Pod", pod), n.element], take };
}

function manifestFields(nodes, basket) {
  const text = h("textarea", { rows: "12", class: "codelike", spellcheck: "false",
    "aria-label": "Objects as YAML or JSON" }, basket.manifest);
  const file = h("input", { type: "file", accept: ".yaml,.yml,.json" });
  file.addEventListener("change", async () => {
    text.value = file.files.length > 0 ? await file.files[0].text() : text.value;
  });
  const take = (target) => {
    try {
      readObjects(text.value);
    } catch (error) {
      if (error instanceof UnfitText) {
        return `The text cannot be read: ${error.message}`;
      }
      throw error;
    }
    target.manifest = text.value.trim() ? text.value : "";
    return "";
  };
  return { elements: [h("label", null, "From a file", file)], below: text, take };
}

/** The form. `onChange` is called when it has changed the basket. */
export function changeForm({ basket, nodes, onChange }) {
  const kind = h("select", null, [...KINDS].map(([value, { title }]) => h("option", { value }, title)));
  const [fields, below, note] = [h("div", { class: "toolbar" }), h("div"), h("p", { class: "muted" })];
  const wrong = h("p", { class: "notice error", role: "alert", hidden: true });
  let current = null;
  const show = () => {
    current = KINDS.get(kind.value).fields(nodes, basket);
    replace(fields, h("label", null, "Change", kind), current.elements,
      h("button", { type: "submit" }, "Add to the changes"));
    replace(below, current.below);
    note.textContent = NOTES[kind.value];
    wrong.hidden = true;
  };
  kind.addEventListener("change", () => {
    show();
    kind.focus();
  });
  const form = h("form", { "aria-label": "Add a change" }, fields, below, wrong, note);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const problem = current.take(basket);
    wrong.textContent = problem;
    wrong.hidden = !problem;
    if (!problem) {
      announce("Added to the changes");
      show();
      onChange();
    }
  });
  show();
  return {
    element: form,
    /** Shows the fields of a kind, filled with what the basket has. */
    edit(value) {
      kind.value = value;
      show();
      (form.querySelector("textarea") ?? kind).focus();
    },
  };
}

function describeObjects(text) {
  try {
    const { nodes, others, pods, workloads } = readObjects(text);
    const objects = [...nodes, ...others.map((one) => one.object), ...pods, ...workloads];
    const kinds = objects.map((one) => one.kind);
    return `${plural(kinds.length, "object")} as text: ${[...new Set(kinds)].map(safe).join(", ") || "none"}`;
  } catch {
    return "Objects as text, which cannot be read";
  }
}

/** Shows the changes in `place`. */
export function showChanges(place, { basket, form, onChange }) {
  const of = (field, text) => basket[field].map((one) => ({
    text: text(one),
    drop: () => {
      basket[field] = basket[field].filter((other) => other !== one);
    },
  }));
  const manifest = {
    text: describeObjects(basket.manifest),
    edit: () => form.edit("manifest"),
    drop: () => {
      basket.manifest = "";
    },
  };
  const entries = [
    ...of("add", ({ name, n }) => `Add ${n === 1 ? "a copy" : plural(n, "copy", "copies")} of ${safe(name)}`),
    ...of("remove", (name) => `Drain and remove ${safe(name)}`),
    ...of("cordon", (name) => `Cordon ${safe(name)}`),
    ...of("grow", (one) => `${plural(one.n, "pod")} more like ${safe(podName(one))}`),
    ...(basket.manifest.trim() ? [manifest] : []),
  ];
  showEntries(place, entries, { empty: "No change yet: add one below.", onChange });
}
