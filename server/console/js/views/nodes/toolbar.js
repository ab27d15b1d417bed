/** The controls above the map. */

import { h, replace } from "../../dom.js";
import { plural } from "../../format.js";
import { figures } from "./figures.js";
import { FILTERS } from "./flags.js";

const GROUPS = [
  ["zone", "Zone"],
  ["pool", "Pool"],
  ["rack", "Rack"],
  ["instanceType", "Instance type"],
  ["none", "None"],
];
const SORTS = [
  ["name", "Name"],
  ["share", "Figure, largest first"],
  ["free", "Free, most first"],
];
const TYPING = 150;

/**
 * @param {{settings: Object, onChange: function(Object)}} options `onChange` gets the settings that change
 * @returns {{element: HTMLElement, update: function(Object, ?number)}} `update` gets the settings and the
 *   number of nodes that the search finds
 */
export function toolbar({ settings, onChange }) {
  let current = settings;
  const found = h("span", { class: "muted" });
  const chips = [...FILTERS].map(([key, { name }]) => {
    return { key, button: button(name, () => onChange({ only: toggled(current.only, key) })) };
  });
  const zoom = (text, label, steps) => button(text, () => onChange({ zoom: current.zoom + steps }), label);
  const smaller = zoom("−", "Smaller cells", -1);
  const view = button("", () => onChange({ table: !current.table }));
  const select = (name, key, entries) => choice({ name, key, entries, chosen: settings[key], onChange });
  const colours = figures().map((figure) => [figure.key, figure.name]);
  const element = h(
    "div",
    { class: "toolbar" },
    select("Colour", "color", colours),
    select("Group by", "group", GROUPS),
    select("Order", "sort", SORTS),
    h("label", null, "Mark nodes named", search(settings.q, onChange)),
    set("Only nodes that are", ...chips.map((chip) => chip.button)),
    set("Size of cells", smaller, zoom("+", "Larger cells", 1)),
    view,
    found,
  );
  const update = (next, hits) => {
    current = next;
    replace(found, hits === null ? null : plural(hits, "node found", "nodes found"));
    chips.forEach((chip) => chip.button.setAttribute("aria-pressed", String(next.only.has(chip.key))));
    smaller.disabled = next.zoom === 0;
    view.textContent = next.table ? "Show as map" : "Show as table";
  };
  return { element, update };
}

function button(text, onClick, label = null) {
  return h("button", { type: "button", "aria-label": label, on: { click: onClick } }, text);
}

function set(label, ...controls) {
  return h("div", { class: "row", role: "group", "aria-label": label }, controls);
}

function choice({ name, key, entries, chosen, onChange }) {
  const options = entries.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
  const control = h("select", { on: { change: () => onChange({ [key]: control.value }) } }, options);
  return h("label", null, name, control);
}

function search(text, onChange) {
  const control = h("input", {
    type: "search",
    value: text,
    placeholder: "part of a name",
    spellcheck: "false",
  });
  let typing = 0;
  control.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => onChange({ q: control.value.trim() }), TYPING);
  });
  return control;
}

function toggled(set, key) {
  const next = new Set(set);
  if (!next.delete(key)) {
    next.add(key);
  }
  return next;
}
