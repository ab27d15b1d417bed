// The form that searches decisions. All of its state is in the address.

import { h } from "../dom.js";
import { OUTCOMES } from "./decisionlist.js";

const FIELDS = ["podName", "namespace", "nodeName", "outcome", "from", "to"];

/** The search of an address: texts, "" where a field is not set; times in ISO form. */
export function searchOf(query) {
  const search = Object.fromEntries(FIELDS.map((field) => [field, query.get(field) ?? ""]));
  const isTime = (text) => !Number.isNaN(Date.parse(text));
  return {
    ...search,
    outcome: OUTCOMES.has(search.outcome) ? search.outcome : "",
    from: isTime(search.from) ? search.from : "",
    to: isTime(search.to) ? search.to : "",
  };
}

/** The search as a request: unset fields are left out. */
export function requestOf(search) {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== ""));
}

/** An ISO time as the value of an input of the reader's zone. */
function localTime(text) {
  if (!text) {
    return "";
  }
  const date = new Date(text);
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}

function isoTime(local) {
  const date = new Date(local);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}

function textField(name, label, value) {
  return h("label", null, `${label} `, h("input", { name, value, autocomplete: "off", spellcheck: "false" }));
}

function timeField(name, label, value) {
  const input = h("input", { name, type: "datetime-local", step: "1", value: localTime(value) });
  return h("label", null, `${label} `, input);
}

function outcomeField(value) {
  const options = [["", "any"], ...OUTCOMES].map(([name, text]) =>
    h("option", { value: name, selected: name === value }, text));
  return h("label", null, "Outcome ", h("select", { name: "outcome" }, options));
}

/** The form; `onSearch` gets the search when it is submitted. */
export function searchForm(search, onSearch) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const form = h(
    "form",
    { class: "toolbar", role: "search", "aria-label": "Search decisions" },
    textField("podName", "Part of the pod's name", search.podName),
    textField("namespace", "Namespace", search.namespace),
    textField("nodeName", "Node", search.nodeName),
    outcomeField(search.outcome),
    timeField("from", `From (${zone})`, search.from),
    timeField("to", "Before", search.to),
    h("button", { class: "primary" }, "Search"),
  );
  const value = (name) => form.elements.namedItem(name).value.trim();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const times = { from: isoTime(value("from")), to: isoTime(value("to")) };
    onSearch({ ...Object.fromEntries(FIELDS.map((field) => [field, value(field)])), ...times });
  });
  const set = (next) => {
    for (const field of FIELDS) {
      const isTime = field === "from" || field === "to";
      form.elements.namedItem(field).value = isTime ? localTime(next[field]) : next[field] ?? "";
    }
  };
  return { form, set };
}
