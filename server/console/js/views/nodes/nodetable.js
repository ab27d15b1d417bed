/** The nodes as a table. */

import { link } from "../../dom.js";
import { cluster } from "../../cluster.js";
import { count, percent, safe, shortName } from "../../format.js";
import { table } from "../../table.js";
import { figureOf } from "./figures.js";
import { flagsOf } from "./flags.js";

const group = (key, title) => ({
  key,
  title,
  cell: (row) => safe(cluster.group(key, row)),
  sort: (row) => cluster.group(key, row),
});

function share(resource) {
  const of = (row) => cluster.requested(resource, row) / cluster.allocatable(resource, row);
  return {
    key: `resource ${resource}`,
    title: safe(resource),
    cell: (row) => percent(of(row)),
    sort: of,
    numeric: true,
  };
}

/**
 * @param {Uint32Array} rows
 * @param {string} color key of the figure that the map shows
 */
export function nodeTable(rows, color) {
  const figure = figureOf(color);
  const hasOwnColumn = cluster.resources.includes(figure.key) || figure.key === "pods" || figure.states;
  const columns = [
    {
      key: "name",
      title: "Node",
      cell: (row) => link(shortName(cluster.name(row), 60), "node", cluster.name(row)),
      sort: (row) => cluster.name(row),
    },
    group("zone", "Zone"),
    group("pool", "Pool"),
    group("rack", "Rack"),
    group("instanceType", "Instance type"),
    {
      key: "pods",
      title: "Pods",
      cell: (row) => `${count(cluster.pods(row))} of ${count(cluster.allowedPods(row))}`,
      sort: (row) => cluster.pods(row),
      numeric: true,
    },
    ...cluster.resources.map(share),
    ...(hasOwnColumn
      ? []
      : [{ key: "figure", title: figure.name, cell: figure.text, sort: figure.share, numeric: true }]),
    {
      key: "flags",
      title: "State",
      cell: (row) =>
        flagsOf(cluster.flags(row))
          .map((flag) => flag.name)
          .join(", ") || "ready",
      sort: (row) => cluster.flags(row),
    },
  ];
  return table({ label: "Nodes", columns, rows, empty: "No node is like that." });
}
