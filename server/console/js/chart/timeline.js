/** Lanes with spans of time, for what happens side by side and one after another. */

import { h } from "../dom.js";
import { count } from "../format.js";
import { figure, fillClass, legend } from "./figure.js";

/**
 * @param {Object} options
 * @param {string} options.label what the lanes show
 * @param {Array<{name: string, spans: Array<{from: number, to: number, title: string, kind: string}>}>}
 *   options.lanes
 * @param {function(number): string} options.format of `from` and `to`
 * @returns {HTMLElement}
 */
export function timeline({ label, lanes, format = count }) {
  const spans = lanes.flatMap((lane) => lane.spans);
  const kinds = [...new Set(spans.map((span) => span.kind))];
  const from = spans.reduce((least, span) => Math.min(least, span.from), Infinity);
  const to = spans.reduce((most, span) => Math.max(most, span.to), -Infinity);
  const width = to - from || 1;

  const draw = (span) =>
    h(
      "span",
      {
        class: `span ${fillClass(kinds.indexOf(span.kind))}`,
        title: `${span.title}: ${format(span.from)} to ${format(span.to)}`,
        style: {
          "--from": (span.from - from) / width,
          "--share": Math.max((span.to - span.from) / width, 0.004),
        },
      },
      h("span", { class: "span-text" }, span.title),
    );

  const area = h(
    "div",
    { class: "timeline", role: "img", "aria-label": describe(label, lanes, spans) },
    lanes.map((lane) =>
      h(
        "div",
        { class: "lane" },
        h("span", { class: "bar-name" }, lane.name),
        h("span", { class: "lane-track" }, lane.spans.map(draw)),
      ),
    ),
    spans.length > 0
      ? h(
          "div",
          { class: "lane" },
          h("span", { class: "bar-name" }),
          h("span", { class: "spread muted" }, h("span", null, format(from)), h("span", null, format(to))),
        )
      : null,
  );
  const picture = h(
    "div",
    null,
    kinds.length > 1 ? legend(kinds.map((kind) => ({ key: kind, name: kind }))) : null,
    area,
  );
  return figure({ label, picture, data: () => asTable(lanes, format) });
}

function describe(label, lanes, spans) {
  return `${label}: ${count(spans.length)} spans in ${count(lanes.length)} lanes`;
}

function asTable(lanes, format) {
  const rows = lanes.flatMap((lane) => lane.spans.map((span) => ({ lane: lane.name, ...span })));
  const columns = [
    { key: "lane", title: "Lane", cell: (row) => row.lane, sort: (row) => row.lane },
    { key: "title", title: "What", cell: (row) => row.title, sort: (row) => row.title },
    { key: "kind", title: "Kind", cell: (row) => row.kind, sort: (row) => row.kind },
    { key: "from", title: "From", cell: (row) => format(row.from), sort: (row) => row.from, numeric: true },
    { key: "to", title: "To", cell: (row) => format(row.to), sort: (row) => row.to, numeric: true },
  ];
  return { columns, rows };
}
