/** How the server itself is doing, from its metrics. */

import { explainError, get } from "../api.js";
import { h, replace } from "../dom.js";
import { time } from "../format.js";
import { parse } from "../prometheus.js";
import { charts, rememberAll } from "./service/charts.js";
import { tables } from "./service/tables.js";

export const title = "Service";

const EVERY = 2000;

let last = null;

export function mount(root, { signal }) {
  const state = h("div", null, h("p", { class: "loading" }, "Loading the metrics"));
  const drawnCharts = charts();
  const drawnTables = tables();
  const rest = h(
    "div",
    { hidden: true },
    drawnTables.facts,
    h("h2", null, "The last ten minutes"),
    h("p", { class: "muted" }, "As far as this view was open."),
    h("div", { class: "cards charts" }, drawnCharts.elements),
    drawnTables.tables,
  );
  replace(root, h("h1", null, title), state, rest);

  const scrape = async () => {
    try {
      const [text, ready] = await Promise.all([get("/metrics", { signal, as: "text" }), readiness(signal)]);
      const now = parse(text);
      // Rates over a longer pause would say nothing about now.
      const before = last && now.at - last.at < EVERY * 4 ? last : null;
      rememberAll(before, now);
      drawnTables.update(before, now);
      drawnCharts.update();
      replace(state, ready);
      rest.hidden = false;
      last = now;
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      replace(state, h("div", { class: "notice error" }, explainError(error)));
      if (error.status === 401 || error.status === 403) {
        return;
      }
    }
    if (!signal.aborted) {
      setTimeout(scrape, EVERY);
    }
  };
  scrape();
}

async function readiness(signal) {
  const at = time(new Date().toISOString());
  try {
    await get("/readyz", { signal, as: "text" });
    return h("div", { class: "notice good" }, "Ready to decide. Last looked at ", at, ".");
  } catch (error) {
    return h(
      "div",
      { class: "notice warning" },
      `Not ready: ${explainError(error)} Last looked at `,
      at,
      ".",
    );
  }
}
