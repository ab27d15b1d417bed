/** All nodes on one picture. */

import { announce, h, href, replace } from "../dom.js";
import { cluster } from "../cluster.js";
import { explainError } from "../api.js";
import { count } from "../format.js";
import { filterBits, FILTERS } from "./nodes/flags.js";
import { figureOf } from "./nodes/figures.js";
import { legend } from "./nodes/legend.js";
import { NodeMap } from "./nodes/map.js";
import { nodeTable } from "./nodes/nodetable.js";
import { panel } from "./nodes/panel.js";
import { summary } from "./nodes/summary.js";
import { toolbar } from "./nodes/toolbar.js";

export const title = "Nodes";

const GROUPS = ["zone", "pool", "rack", "instanceType", "none"];
const SORTS = ["name", "share", "free"];
const MOST_ZOOM = 8;
const REFRESH = 1000;
/** Rows from which on the table is only as old as it says, since sorting it again takes time. */
const MANY = 5000;

export async function mount(root, { query, setQuery, signal }) {
  const opened = cluster.open();
  signal.addEventListener("abort", () => opened.close());
  const waiting = h("p", { class: "loading" }, "Loading the nodes");
  replace(root, h("h1", null, title), waiting);
  await loaded(waiting, signal);
  if (!signal.aborted) {
    waiting.remove();
    show(root, { settings: settingsOf(query), setQuery, signal });
  }
}

/** Waits for the nodes; an error is shown, and the next attempt of the store ends it. */
async function loaded(waiting, signal) {
  while (!signal.aborted) {
    try {
      return await cluster.ready;
    } catch (error) {
      const again = h("button", { type: "button", on: { click: () => cluster.reload() } }, "Try again");
      waiting.className = "notice error";
      replace(waiting, `The nodes could not be loaded. ${explainError(error)} `, again);
    }
  }
}

function settingsOf(query) {
  const oneOf = (list, key) => (list.includes(query.get(key)) ? query.get(key) : list[0]);
  return {
    color: figureOf(query.get("color")).key,
    group: oneOf(GROUPS, "group"),
    sort: oneOf(SORTS, "sort"),
    q: query.get("q") ?? "",
    only: new Set((query.get("only") ?? "").split(",").filter((key) => FILTERS.has(key))),
    zoom: Math.max(0, Math.min(MOST_ZOOM, Math.floor(Number(query.get("zoom"))) || 0)),
    table: query.get("table") === "1",
  };
}

function queryOf({ color, group, sort, q, only, zoom, table }) {
  return {
    color,
    group,
    sort: sort === SORTS[0] ? "" : sort,
    q,
    only: [...only].join(","),
    zoom: zoom || "",
    table: table ? "1" : "",
  };
}

function show(root, { settings, setQuery, signal }) {
  const state = { settings };
  const sums = summary();
  const details = panel(() => state.settings.color);
  const key = h("div", null);
  const map = new NodeMap({
    settings,
    signal,
    onPoint: details.show,
    onOpen: (row) => (location.hash = href("node", cluster.name(row))),
    onZoom: (steps) => change({ zoom: state.settings.zoom + steps }),
  });
  const place = h("div", { class: "map-place" }, map.element, details.element);
  const list = h("div", null);
  const bar = toolbar({ settings, onChange: change });
  const drawKey = () => replace(key, legend(figureOf(state.settings.color)));

  function change(part) {
    const before = state.settings;
    const next = { ...before, ...part };
    next.zoom = Math.max(0, Math.min(map.isLargest() ? before.zoom : MOST_ZOOM, next.zoom));
    state.settings = next;
    setQuery(queryOf(next));
    map.update(next);
    if (next.group !== before.group) {
      sums.update(next.group);
    }
    follow();
  }

  function follow() {
    const { settings: now } = state;
    bar.update(now, now.q ? map.hits() : null);
    drawKey();
    key.hidden = now.table;
    place.hidden = now.table;
    list.hidden = !now.table;
    state.table = now.table ? drawTable(list, now) : null;
  }

  root.append(sums.element, bar.element, key, place, list, h("h2", null, "Groups"), sums.groups);
  sums.update(settings.group);
  map.search();
  follow();
  document.addEventListener("themechange", drawKey, { signal });
  keepCurrent({ state, sums, details, signal });
  announce(`${count(cluster.nodes().length)} nodes`);
}

/** Draws the table of the nodes; one with many rows is not kept current. */
function drawTable(place, settings) {
  const rows = shownRows(settings);
  const drawn = nodeTable(rows, settings.color);
  const again = () => drawTable(place, settings);
  replace(
    place,
    rows.length <= MANY
      ? null
      : h(
          "p",
          { class: "muted" },
          `As of now: a table of ${count(rows.length)} ` + "nodes is not kept current. ",
          h("button", { type: "button", class: "small", on: { click: again } }, "Refresh"),
        ),
    drawn,
  );
  return drawn;
}

/** What is not on the canvas is drawn again about once a second, if anything has changed. */
function keepCurrent({ state, sums, details, signal }) {
  let isChanged = false;
  const off = cluster.on("change", () => (isChanged = true));
  const timer = setInterval(() => {
    if (!isChanged || document.hidden) {
      return;
    }
    isChanged = false;
    sums.update(state.settings.group);
    details.refresh();
    const rows = state.table ? shownRows(state.settings) : null;
    if (rows && rows.length <= MANY) {
      state.table.update(rows);
    }
  }, REFRESH);
  signal.addEventListener("abort", () => {
    off();
    clearInterval(timer);
  });
}

/** Rows of the table: those that the filters and the search leave. */
function shownRows({ only, q }) {
  const bits = filterBits(only);
  const text = q.toLowerCase();
  return cluster
    .nodes()
    .filter(
      (row) =>
        (bits === 0 || cluster.flags(row) & bits) &&
        (text === "" || cluster.name(row).toLowerCase().includes(text)),
    );
}
