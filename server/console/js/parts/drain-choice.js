// Which nodes are to be drained: by name, by labels, by group. Labels and groups are looked up each time.

import { call } from "../api.js";
import { h, replace } from "../dom.js";
import { count, plural, safe } from "../format.js";
import { showEntries } from "./whatif-chips.js";
import { GROUPS, joinNames, nameField, splitNames } from "./whatif-names.js";

const PAGE = 5000;
const FIRST_NAMES = 20;
/** More nodes than this are refused: the picture of it would tell nobody anything. */
export const MAX_NODES = 5000;

/**
 * The choice in an address: `nodes=a,b&selector=pool=old&group=zone:a`.
 * @param {URLSearchParams} query
 */
export function choiceOf(query) {
  const groups = splitNames(query.get("group")).flatMap((text) => {
    const at = text.indexOf(":");
    const key = text.slice(0, at);
    return GROUPS.has(key) ? [{ key, value: text.slice(at + 1) }] : [];
  });
  return { names: splitNames(query.get("nodes")), selector: query.get("selector") ?? "", groups };
}

/** The choice as a part of the query. */
export function choiceToQuery({ names, selector, groups }) {
  const group = joinNames(groups.map(({ key, value }) => `${key}:${value}`));
  return { nodes: joinNames(names), selector, group };
}

/** Whether nothing is chosen. */
export function isEmpty({ names, selector, groups }) {
  return names.length === 0 && !selector && groups.length === 0;
}

async function withLabels(labelSelector, signal) {
  const names = [];
  for (let pageToken = ""; ;) {
    const body = { labelSelector, pageSize: PAGE, ...(pageToken && { pageToken }) };
    const page = await call("/v1/list-nodes", body, { signal });
    names.push(...(page.nodes ?? []).map((node) => node.name));
    pageToken = page.nextPageToken ?? "";
    if (!pageToken || names.length > MAX_NODES) {
      return names;
    }
  }
}

/** The names of all chosen nodes, each once. */
export async function chosenNames({ names, selector, groups }, nodes, signal) {
  const labelled = selector ? await withLabels(selector, signal) : [];
  if (groups.length > 0) {
    await nodes.ready;
  }
  const grouped = groups.flatMap(({ key, value }) => nodes.inGroup(key, value));
  return [...new Set([...names, ...labelled, ...grouped])];
}

/** Shows what is chosen, each part with a button that leaves it out. */
export function showChoice(place, choice, onChange) {
  const { names, selector, groups } = choice;
  const entry = (text, field, value) => ({
    text,
    drop: () => {
      choice[field] = value;
    },
  });
  const entries = [
    ...names.slice(0, FIRST_NAMES).map((name) =>
      entry(safe(name), "names", names.filter((one) => one !== name))),
    names.length > FIRST_NAMES &&
      entry(`and ${plural(names.length - FIRST_NAMES, "node")} more`, "names", names.slice(0, FIRST_NAMES)),
    selector && entry(`nodes with the labels ${safe(selector)}`, "selector", ""),
    ...groups.map((group) => entry(`nodes of the ${GROUPS.get(group.key)} ${safe(group.value)}`, "groups",
      groups.filter((one) => one !== group))),
  ];
  showEntries(place, entries.filter(Boolean), { empty: "No node is chosen yet.", onChange });
}

function addForm(label, elements, take) {
  const form = h("form", { class: "toolbar", "aria-label": label }, elements,
    h("button", { type: "submit" }, "Add"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    take();
  });
  return form;
}

function groupForm(nodes, choice, onChange) {
  const option = (value, text) => h("option", { value }, text);
  const kind = h("select", null, [...GROUPS].map(([key, said]) => option(key, said)));
  const value = h("select");
  const show = () =>
    replace(value, nodes.groups(kind.value).map(([name, n]) => option(name, `${safe(name)} (${count(n)})`)));
  kind.addEventListener("change", show);
  nodes.ready.then(show);
  const fields = [h("label", null, "Group", kind), h("label", null, "Which", value)];
  return addForm("Add a group of nodes", fields, () => {
    const isSame = (one) => one.key === kind.value && one.value === value.value;
    if (value.value && !choice.groups.some(isSame)) {
      choice.groups = [...choice.groups, { key: kind.value, value: value.value }];
      onChange();
    }
  });
}

/** Fields that add to the choice. */
export function choiceForms(choice, nodes, onChange) {
  const names = nameField({ label: "Nodes by name", nodes });
  const byName = addForm("Add nodes by name", [names.element], () => {
    choice.names = [...new Set([...choice.names, ...names.names()])];
    names.clear();
    onChange();
  });
  const selector = h("input", { type: "text", size: "36", spellcheck: "false", autocomplete: "off",
    placeholder: "pool=old,zone in (a,b),!gpu" });
  const byLabel = addForm("Choose nodes by labels", [h("label", null, "Nodes by labels", selector)], () => {
    choice.selector = selector.value.trim();
    onChange();
  });
  return h("div", { class: "row" }, byName, byLabel, groupForm(nodes, choice, onChange));
}
