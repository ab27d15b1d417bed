/** Horizontal bars of parts. */

import { h, replace } from "../dom.js";
import { count } from "../format.js";
import { figure, fillClass, legend } from "./figure.js";

/**
 * @param {Object} options
 * @param {string} options.label what the bars show
 * @param {Array<{name: string, parts: Array<{key: string, value: number, title?: string}>}>} options.rows
 * @param {Array<{key: string, name: string}>} options.keys
 * @param {number=} options.max value of a whole bar; by default the largest row
 * @param {function(number): string} options.format
 * @param {function(Object)=} options.onSelect makes each row's name a button, and gets the row
 * @returns {HTMLElement & {update: function(Array)}}
 */
export function bars({ label, rows, keys, max, format = count, onSelect }) {
  let current = rows;
  const area = h("div", { class: "bars", role: onSelect ? "group" : "img" });
  const picture = h("div", null, keys.length > 1 ? legend(keys) : null, area);
  const element = figure({ label, picture, data: () => asTable(current, keys, format) });

  element.update = (next) => {
    current = next;
    const top = max ?? Math.max(...next.map(total), 0);
    area.setAttribute("aria-label", describe(label, next, format));
    replace(
      area,
      next.map((row) => bar(row, { keys, top, format, onSelect })),
    );
    element.refresh();
  };
  element.update(rows);
  return element;
}

function total(row) {
  return row.parts.reduce((sum, part) => sum + part.value, 0);
}

function bar(row, { keys, top, format, onSelect }) {
  const name = onSelect
    ? h("button", { type: "button", class: "plain bar-name", on: { click: () => onSelect(row) } }, row.name)
    : h("span", { class: "bar-name" }, row.name);
  const parts = row.parts
    .filter((part) => part.value > 0)
    .map((part) => {
      const index = keys.findIndex((key) => key.key === part.key);
      const title = part.title ?? `${keys[index]?.name ?? part.key}: ${format(part.value)}`;
      return h("span", {
        class: `bar-part ${fillClass(Math.max(0, index))}`,
        title,
        style: { "--share": top > 0 ? Math.min(1, part.value / top) : 0 },
      });
    });
  return h(
    "div",
    { class: "bar" },
    name,
    h("span", { class: "bar-track" }, parts),
    h("span", { class: "num" }, format(total(row))),
  );
}

function describe(label, rows, format) {
  const first = rows
    .slice(0, 5)
    .map((row) => `${row.name} ${format(total(row))}`)
    .join(", ");
  return `${label}: ${first}${rows.length > 5 ? `, and ${count(rows.length - 5)} more` : ""}`;
}

function asTable(rows, keys, format) {
  const valueOf = (row, key) =>
    row.parts.filter((part) => part.key === key).reduce((sum, part) => sum + part.value, 0);
  const parts = keys.map((key) => ({
    key: key.key,
    title: key.name,
    cell: (row) => format(valueOf(row, key.key)),
    sort: (row) => valueOf(row, key.key),
    numeric: true,
  }));
  const sum = { key: "total", title: "Total", cell: (row) => format(total(row)), sort: total, numeric: true };
  const name = { key: "name", title: "Name", cell: (row) => row.name, sort: (row) => row.name };
  return { columns: [name, ...parts, ...(keys.length > 1 ? [sum] : [])], rows };
}
