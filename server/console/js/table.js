/** Tables that sort and that show a page at a time. */

import { announce, h, replace } from "./dom.js";
import { count } from "./format.js";

const collator = new Intl.Collator("en", { numeric: true });

/**
 * A table of rows, in a region that scrolls sideways.
 * @param {Object} options
 * @param {string} options.label what the table shows
 * @param {Array<{key: string, title: string, cell: function(*): (Node|string), sort?: function(*):
 *   (number|string), numeric?: boolean, class?: string}>} options.columns those with `sort` can be sorted by
 * @param {Array|TypedArray} options.rows
 * @param {string|Node} options.empty shown instead of a table without rows
 * @param {?{key: string, descending?: boolean}} options.sort order at first; without it that of `rows`
 * @param {function({key: string, descending: boolean})=} options.onSort told when the reader sorts
 * @param {number} options.pageSize
 * @param {function(*)=} options.onRow called for a row that is clicked, or entered with the keyboard
 * @returns {HTMLElement & {update: function(Array)}} `update` replaces the rows and keeps order, page and
 *   focus
 */
export function table({
  label,
  columns,
  rows,
  empty = "Nothing to show.",
  sort = null,
  onSort,
  pageSize = 50,
  onRow,
}) {
  const state = { rows, sort, shown: pageSize };
  const headers = columns.map((column) => header(column, sortBy));
  const body = h("tbody", null);
  const more = h("button", { type: "button", on: { click: showMore } }, "Show more");
  const status = h("span", { class: "muted" });
  const nothing = h("p", { class: "muted" }, empty);
  const scroll = h(
    "div",
    { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    h(
      "table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          headers.map((entry) => entry.element),
        ),
      ),
      body,
    ),
  );
  const element = h(
    "div",
    { class: "table" },
    scroll,
    nothing,
    h("div", { class: "row more" }, status, more),
  );

  function sortBy(column) {
    const isSame = state.sort?.key === column.key;
    state.sort = { key: column.key, descending: isSame ? !state.sort.descending : Boolean(column.numeric) };
    render();
    announce(`Sorted by ${column.title}, ${state.sort.descending ? "descending" : "ascending"}`);
    onSort?.(state.sort);
  }

  function showMore() {
    state.shown += Math.max(pageSize, state.shown);
    render();
    announce(status.textContent);
  }

  function render() {
    const ordered = inOrder(state.rows, columns, state.sort);
    const shown = ordered.slice(0, state.shown);
    const focus = focusIn(body);
    replace(
      body,
      Array.from(shown, (row) => tableRow(row, columns, onRow)),
    );
    restoreFocus(body, focus);
    headers.forEach((entry) => entry.update(state.sort));
    scroll.hidden = ordered.length === 0;
    nothing.hidden = ordered.length > 0;
    status.textContent =
      shown.length < ordered.length ? `${count(shown.length)} of ${count(ordered.length)} rows` : "";
    more.hidden = shown.length >= ordered.length;
  }

  element.update = (next) => {
    state.rows = next;
    render();
  };
  render();
  return element;
}

function header(column, sortBy) {
  const sign = h("span", { class: "sign", "aria-hidden": "true" });
  const content = column.sort
    ? h("button", { type: "button", class: "plain", on: { click: () => sortBy(column) } }, column.title, sign)
    : column.title;
  const element = h("th", { scope: "col", class: classOf(column) }, content);
  const update = (sort) => {
    if (!column.sort) {
      return;
    }
    const isSorted = sort?.key === column.key;
    sign.textContent = isSorted ? (sort.descending ? "▼" : "▲") : "";
    element.setAttribute("aria-sort", isSorted ? (sort.descending ? "descending" : "ascending") : "none");
  };
  return { element, update };
}

function tableRow(row, columns, onRow) {
  const cells = columns.map((column) => h("td", { class: classOf(column) }, column.cell(row)));
  if (!onRow) {
    return h("tr", null, cells);
  }
  const choose = (event) => {
    const inner = event.target.closest("a, button, input, select, summary");
    if (!inner && (event.type === "click" || event.key === "Enter")) {
      onRow(row);
    }
  };
  return h("tr", { tabindex: "0", class: "choosable", on: { click: choose, keydown: choose } }, cells);
}

function classOf(column) {
  return [column.numeric && "num", column.class].filter(Boolean).join(" ") || null;
}

function inOrder(rows, columns, sort) {
  const by = sort && columns.find((column) => column.key === sort.key)?.sort;
  if (!by) {
    return rows;
  }
  const keyed = Array.from(rows, (row) => ({ row, key: by(row) }));
  const direction = sort.descending ? -1 : 1;
  keyed.sort((a, b) => compare(a.key, b.key, direction));
  return keyed.map((entry) => entry.row);
}

/** What has no key comes last in either direction. */
function compare(a, b, direction) {
  const isMissing = (key) => key === null || key === undefined || Number.isNaN(key);
  if (isMissing(a) || isMissing(b)) {
    return isMissing(a) - isMissing(b);
  }
  const order = typeof a === "string" && typeof b === "string" ? collator.compare(a, b) : a - b;
  return order * direction;
}

/**
 * Position of the focused element: that of its row, and its own among those of the row that can have the
 * focus.
 */
function focusIn(body) {
  const active = document.activeElement;
  const row = body.contains(active) ? active.closest("tr") : null;
  return row && { row: row.rowIndex - 1, index: focusable(row).indexOf(active) };
}

function restoreFocus(body, focus) {
  const row = focus && body.rows[focus.row];
  if (row) {
    focusable(row)[focus.index]?.focus({ preventScroll: true });
  }
}

function focusable(row) {
  return [row, ...row.querySelectorAll("a, button, input, select, summary")];
}
