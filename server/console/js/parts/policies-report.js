// The report on policies side by side: figures, and plots over time.

import { bars, lines } from "../chart.js";
import { h } from "../dom.js";
import { count, percent, plural, safe, time } from "../format.js";
import { table } from "../table.js";
import { tag } from "./cells.js";
import { bestOf, evicted, own, prioritiesOf, resourcesOf, rowsOf } from "./policies-figures.js";

/** More points than this in a line are thinned out: no screen has so many columns. */
const MAX_POINTS = 1500;

const nameOf = (policy, at) => safe(policy.name || `policy ${at + 1}`);

function valueCell(row, at) {
  const [first, value] = [row.values[0], row.values[at]];
  if (value === null) {
    return "-";
  }
  const said = at > 0 && first !== null && [h("br"), h("span", { class: "muted" }, row.differ(first, value))];
  const shown = row.show(value);
  const best = row.best.has(at) && [h("strong", null, shown), " ", tag("good", "best")];
  return h("span", null, best || shown, said);
}

function figuresTable(policies) {
  const rows = rowsOf(policies).map((row) => ({ ...row, best: bestOf(row) }));
  const columns = policies.map((policy, at) =>
    ({ key: `policy-${at}`, title: nameOf(policy, at), cell: (row) => valueCell(row, at), numeric: true }));
  const figure = { key: "figure", title: "Figure", cell: (row) => safe(row.name) };
  return table({ label: "Figures by policy", pageSize: 200, rows, columns: [figure, ...columns] });
}

/** The points of a policy's line. Of each stretch that is thinned, the one that differs most is kept. */
function pointsOf(policy, figure) {
  const points = [];
  for (const sample of policy.samples ?? []) {
    const [at, value] = [Date.parse(sample.time), figure(sample)];
    if (Number.isFinite(at) && Number.isFinite(value)) {
      points.push([at, value]);
    }
  }
  const step = Math.ceil(points.length / MAX_POINTS);
  if (step < 2) {
    return points;
  }
  const thinned = [points[0]];
  for (let from = 1; from < points.length - 1; from += step) {
    const last = thinned.at(-1)[1];
    const farther = (a, b) => (Math.abs(b[1] - last) > Math.abs(a[1] - last) ? b : a);
    thinned.push(points.slice(from, Math.min(from + step, points.length - 1)).reduce(farther));
  }
  return [...thinned, points.at(-1)];
}

function plot(label, policies, figure, format) {
  const one = (policy, at) => ({ name: nameOf(policy, at), points: pointsOf(policy, figure) });
  const series = policies.map(one);
  return series.some(({ points }) => points.length > 0) && lines({ label, series, format });
}

function plots(policies) {
  const of = (name, field) => (sample) => own(sample.resources, name)?.[field];
  const all = [
    plot("Pods that wait", policies, (sample) => sample.nWaiting ?? 0, count),
    plot("Nodes in use", policies, (sample) => sample.nBusy ?? 0, count),
    ...resourcesOf(policies).flatMap((name) => [
      plot(`${safe(name)}: share requested`, policies, of(name, "requested"), percent),
      plot(`${safe(name)}: share of what is idle that the recorded pods cannot use`, policies,
        of(name, "fragmentation"), percent),
    ]),
  ].filter(Boolean);
  return all.length > 0 && h("section", null, h("h3", null, "Over time"), h("div", { class: "split" }, all));
}

function evictions(policies) {
  const priorities = prioritiesOf(policies);
  const decided = policies.filter((policy) => policy.decisions);
  if (priorities.length === 0 || decided.length === 0) {
    return h("p", { class: "muted" }, "No policy evicted a pod.");
  }
  return bars({
    label: "Evicted pods by priority",
    keys: priorities.map((priority) => ({ key: priority, name: `priority ${safe(priority)}` })),
    rows: decided.map((policy) => ({
      name: nameOf(policy, policies.indexOf(policy)),
      parts: priorities.map((key) => ({ key, value: evicted(policy, key) ?? 0 })),
    })),
    format: count,
  });
}

/** The sentence about which policy leaves the fewest pods waiting. */
export function summary({ policies }) {
  const left = policies.map((policy) => policy.nWaitingAtEnd ?? 0);
  const least = Math.min(...left);
  const best = policies.flatMap((policy, at) => (left[at] === least ? [nameOf(policy, at)] : []));
  const wait = `${plural(least, "pod")} ${least === 1 ? "waits" : "wait"} at the end`;
  return best.length === policies.length
    ? `Under each of these policies ${wait}.`
    : `Fewest pods wait under ${best.join(" and ")}: ${wait}.`;
}

/** Why a value cannot be shown as a comparison; empty if it can. */
export function faultOf(value) {
  if (!Array.isArray(value?.policies) || value.policies.length === 0) {
    return "This is no comparison: it has no `policies`. A file of `berth compare -o json` has them.";
  }
  const isPolicy = (policy) => policy !== null && typeof policy === "object";
  return value.policies.every(isPolicy) ? "" : "This is no comparison: one of its policies has no figures.";
}

/** The whole report on the answer of `/v1/decisions/compare`, or on a file of `berth compare -o json`. */
export function report(comparison) {
  const { policies, from, until } = comparison;
  const isRecorded = policies.some((policy) => !policy.decisions);
  const differences = policies.length > 1 && `Differences are those from ${nameOf(policies[0], 0)}. `;
  return [
    from && until && h("p", null, "Recorded from ", time(from), " to ", time(until), "."),
    h("p", { class: "notice" }, summary(comparison)),
    h("h3", null, "Figures"),
    h("p", { class: "muted" }, differences,
      "Averages are over time; shares are of the nodes' allocatable amounts."),
    figuresTable(policies),
    h("section", null, h("h3", null, "Evictions"), evictions(policies),
      isRecorded && h("p", { class: "muted" },
        "A recording does not say which pods were evicted, so what was recorded is left out.")),
    plots(policies),
  ];
}
