/** Sums over all nodes, and over each group. */

import { h, replace } from "../../dom.js";
import { cluster } from "../../cluster.js";
import { amount, count, percent, safe } from "../../format.js";
import { table } from "../../table.js";

/** Sums of the nodes, by group number. */
function sums(key) {
  const groups = cluster.groups(key);
  const n = groups?.names.length ?? 1;
  const found = Array.from({ length: n }, (_, id) => ({
    name: groups?.names[id] ?? "",
    nodes: 0,
    pods: 0,
    allowed: 0,
    requested: cluster.resources.map(() => 0),
    allocatable: cluster.resources.map(() => 0),
  }));
  for (const row of cluster.nodes()) {
    const sum = found[groups?.ids[row] ?? 0];
    sum.nodes += 1;
    sum.pods += cluster.pods(row);
    sum.allowed += cluster.allowedPods(row);
    cluster.resources.forEach((resource, i) => {
      sum.requested[i] += cluster.requested(resource, row);
      sum.allocatable[i] += cluster.allocatable(resource, row);
    });
  }
  return found.filter((sum) => sum.nodes > 0);
}

/** @returns {{element: HTMLElement, groups: HTMLElement, update: function(string)}} */
export function summary() {
  const element = h("dl", { class: "figures" });
  const groups = h("div", null);
  let shown = null;
  const update = (key) => {
    const all = sums(key);
    replace(element, figures(all));
    const id = `${key} ${cluster.resources.join()}`;
    if (shown?.id !== id) {
      shown = { id, table: groupTable(all) };
      replace(groups, shown.table);
    } else {
      shown.table.update(all);
    }
  };
  return { element, groups, update };
}

function figures(all) {
  const total = (value) => all.reduce((sum, group) => sum + value(group), 0);
  const figure = (name, value, rest) =>
    h("div", null, h("dt", null, name), h("dd", null, value, " ", h("small", null, rest)));
  return [
    figure("Nodes", count(total((group) => group.nodes)), ""),
    figure("Pods", count(total((group) => group.pods)), `of ${count(total((group) => group.allowed))}`),
    ...cluster.resources.map((resource, i) => {
      const [used, of] = [total((group) => group.requested[i]), total((group) => group.allocatable[i])];
      return figure(`${safe(resource)} requested`, percent(used / of), `of ${amount(resource, of)}`);
    }),
  ];
}

function groupTable(rows) {
  const share = (key, title, value) => ({
    key,
    title,
    cell: (group) => percent(value(group)),
    sort: value,
    numeric: true,
  });
  const columns = [
    {
      key: "name",
      title: "Group",
      cell: (group) => safe(group.name) || "no group",
      sort: (group) => group.name,
    },
    {
      key: "nodes",
      title: "Nodes",
      cell: (group) => count(group.nodes),
      sort: (group) => group.nodes,
      numeric: true,
    },
    {
      key: "count",
      title: "Pods",
      cell: (group) => count(group.pods),
      sort: (group) => group.pods,
      numeric: true,
    },
    share("pods", "Pods of allowed", (group) => group.pods / group.allowed),
    ...cluster.resources.map((resource, i) =>
      share(`resource ${resource}`, safe(resource), (group) => group.requested[i] / group.allocatable[i]),
    ),
  ];
  return table({ label: "Shares requested by group", columns, rows, pageSize: 12, sort: { key: "name" } });
}
