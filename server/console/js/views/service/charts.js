/** The lines of the service's view: what is remembered at each scrape, and how it is shown. */

import { bytes, count, duration, safe } from "../../format.js";
import { lines } from "../../chart.js";
import { quantilesBy, rate, ratesBy, value, valuesBy } from "../../prometheus.js";
import { linesOf, remember } from "./history.js";

const perSecond = (n) => `${count(n)}/s`;
export const shortMethod = (method) => safe(method.split("/").at(-1));

/** `read` returns a value for each line. */
export const CHARTS = [
  {
    key: "calls",
    label: "Calls a second, by method",
    format: perSecond,
    read: (before, now) => named(ratesBy(before, now, "berth_grpc_calls_total", "method"), shortMethod),
  },
  {
    key: "codes",
    label: "Calls a second that failed, by code",
    format: perSecond,
    read: (before, now) =>
      named(
        ratesBy(before, now, "berth_grpc_calls_total", "code", ({ labels }) => labels.get("code") !== "OK"),
      ),
  },
  {
    key: "latency",
    label: "Duration of a call of Place",
    format: duration,
    read: (before, now) => quantiles(before, now, "berth_grpc_call_duration_seconds", "method", "/Place"),
  },
  {
    key: "engine",
    label: "Engine time of a request of Place",
    format: duration,
    read: (before, now) => quantiles(before, now, "berth_place_duration_seconds", "method", "Place"),
  },
  {
    key: "decisions",
    label: "Decisions a second, by outcome",
    format: perSecond,
    read: (before, now) => named(ratesBy(before, now, "berth_placements_total", "outcome")),
  },
  {
    key: "waiting",
    label: "Calls that wait for a worker, by lane",
    format: count,
    read: (before, now) => named(valuesBy(now, "berth_admission_waiting", "lane")),
  },
  {
    key: "staleness",
    label: "Age of the cluster's state",
    format: duration,
    read: (before, now) => [["age", value(now, "berth_staleness_seconds")]],
  },
  {
    key: "pods",
    label: "Pods without a node",
    format: count,
    read: (before, now) => named(valuesBy(now, "berth_pods", "state")).filter(([name]) => name !== "bound"),
  },
  {
    key: "memory",
    label: "Memory of the process",
    format: bytes,
    isBinary: true,
    read: (before, now) => [["resident", value(now, "process_resident_memory_bytes")]],
  },
  {
    key: "cores",
    label: "Processor time of the process, in cores",
    format: (n) => `${n.toFixed(2)} cores`,
    read: (before, now) => [["used", rate(before, now, "process_cpu_seconds_total")]],
  },
];

function named(values, nameOf = safe) {
  return [...values].map(([name, n]) => [nameOf(name), n]);
}

function quantiles(before, now, name, label, ending) {
  const found = [...quantilesBy(before, now, name, label, [0.5, 0.99])].find(([key]) => key.endsWith(ending));
  return found
    ? [
        ["p50", found[1][0]],
        ["p99", found[1][1]],
      ]
    : [];
}

/** Remembers what a scrape says. */
export function rememberAll(before, now) {
  for (const chart of CHARTS) {
    for (const [name, n] of chart.read(before, now)) {
      remember(chart.key, name, now.at, n ?? NaN);
    }
  }
}

/** @returns {{elements: Array<HTMLElement>, update: function()}} */
export function charts() {
  const drawn = CHARTS.map(({ key, label, format, isBinary }) => ({
    key,
    element: lines({ label, series: linesOf(key), format, isBinary }),
  }));
  drawn.forEach(({ element }) => element.classList.add("card"));
  return {
    elements: drawn.map(({ element }) => element),
    update: () => drawn.forEach(({ key, element }) => element.update(linesOf(key))),
  };
}
