/**
 * Lines over time. The lines are SVG that stretches, the numbers beside it HTML, so that text keeps its size.
 */

import { h, replace, s } from "../dom.js";
import { count, time } from "../format.js";
import { figure } from "./figure.js";

const STEPS = [1, 2, 5, 10];
const BINARY_STEPS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});

/**
 * @param {Object} options
 * @param {string} options.label what the lines show
 * @param {Array<{name: string, points: Array<[number, number]>}>} options.series points are [milliseconds,
 *   value]; a value that is not a number is a gap
 * @param {function(number): string} options.format
 * @param {number=} options.max top of the axis; by default the largest value, rounded up
 * @param {boolean=} options.isBinary whether the axis has steps of powers of two, for bytes
 * @returns {HTMLElement & {update: function(Array)}}
 */
export function lines({ label, series, format = count, max, isBinary = false }) {
  let current = series;
  const plot = s("svg", {
    class: "plot",
    viewBox: "0 0 1000 100",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  const levels = h("div", { class: "levels", "aria-hidden": "true" });
  const times = h("div", { class: "times spread", "aria-hidden": "true" });
  const keys = h("ul", { class: "legend" });
  const area = h("div", { class: "lines", role: "img" }, levels, plot, times);
  const element = figure({
    label,
    picture: h("div", null, keys, area),
    data: () => asTable(current, format),
  });

  element.update = (next) => {
    current = next;
    const frame = frameOf(next, max, isBinary);
    area.setAttribute("aria-label", describe(label, next, format));
    replace(
      levels,
      frame.levels.map((level) => h("span", { style: { "--share": level / frame.top } }, format(level))),
    );
    replace(
      times,
      [frame.from, frame.to].map((at) => h("span", null, timeText(at, frame.to - frame.from))),
    );
    replace(
      keys,
      next.map((one, index) =>
        h("li", null, dash(index), one.name, " ", h("strong", null, lastText(one, format))),
      ),
    );
    replace(
      plot,
      frame.levels.map((level) => gridLine(level / frame.top)),
      next.map((one, index) => path(one, index, frame)),
    );
    element.refresh();
  };
  element.update(series);
  return element;
}

function frameOf(series, max, isBinary) {
  let from = Infinity;
  let to = -Infinity;
  let highest = 0;
  for (const { points } of series) {
    for (const [at, value] of points) {
      from = Math.min(from, at);
      to = Math.max(to, at);
      highest = Math.max(highest, value || 0);
    }
  }
  const now = Date.now();
  const step = niceStep((max ?? highest) / 3, isBinary);
  const top = max ?? Math.max(step, Math.ceil(highest / step) * step);
  const levels = Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, index) => index * step);
  return { from: Math.min(from, now), to: to > from ? to : now, top, levels };
}

function niceStep(least, isBinary) {
  if (!(least > 0)) {
    return 1;
  }
  const base = isBinary ? 1024 : 10;
  const power = base ** Math.floor(Math.log(least) / Math.log(base));
  return (isBinary ? BINARY_STEPS : STEPS).find((step) => step * power >= least * 0.999) * power;
}

function gridLine(share) {
  const y = 100 - share * 100;
  return s("line", { class: "grid", x1: 0, x2: 1000, y1: y, y2: y });
}

function path({ points }, index, { from, to, top }) {
  const width = to - from || 1;
  let isDown = false;
  let d = "";
  for (const [at, value] of points) {
    if (!Number.isFinite(value)) {
      isDown = false;
      continue;
    }
    const x = ((at - from) / width) * 1000;
    const y = 100 - Math.min(1, value / top) * 100;
    d += `${isDown ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(2)}`;
    isDown = true;
  }
  return s("path", { class: `line line-${(index % 8) + 1}`, d });
}

function dash(index) {
  return s(
    "svg",
    { class: "dash", viewBox: "0 0 24 8", "aria-hidden": "true" },
    s("path", { class: `line line-${(index % 8) + 1}`, d: "M0 4L24 4" }),
  );
}

function lastText({ points }, format) {
  const value = points.at(-1)?.[1];
  return Number.isFinite(value) ? format(value) : "–";
}

function timeText(at, range) {
  return Number.isFinite(at) ? (range > 86_400_000 ? day : clock).format(at) : "";
}

function describe(label, series, format) {
  return `${label}. Latest: ${series
    .slice(0, 8)
    .map((one) => `${one.name} ${lastText(one, format)}`)
    .join(", ")}`;
}

function asTable(series, format) {
  const byTime = new Map();
  series.forEach(({ points }, index) => {
    for (const [at, value] of points) {
      const row = byTime.get(at) ?? { at, values: [] };
      row.values[index] = value;
      byTime.set(at, row);
    }
  });
  const columns = series.map((one, index) => ({
    key: String(index),
    title: one.name,
    cell: (row) => (Number.isFinite(row.values[index]) ? format(row.values[index]) : "–"),
    sort: (row) => row.values[index],
    numeric: true,
  }));
  const rows = [...byTime.values()].sort((a, b) => b.at - a.at);
  const at = {
    key: "time",
    title: "Time",
    cell: (row) => time(new Date(row.at).toISOString()),
    sort: (row) => row.at,
  };
  return { columns: [at, ...columns], rows };
}
