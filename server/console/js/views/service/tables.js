/** The tables and facts of the service's view. */

import { h, replace } from "../../dom.js";
import { bytes, count, duration, safe, time } from "../../format.js";
import { table } from "../../table.js";
import { quantilesBy, rate, ratesBy, value, valuesBy } from "../../prometheus.js";
import { shortMethod } from "./charts.js";

const CALLS = "berth_grpc_calls_total";
const or = (format) => (n) => (Number.isFinite(n) ? format(n) : "–");
const perSecond = or((n) => `${count(n)}/s`);
const seconds = or(duration);
const yes = (n) => (n === undefined ? "–" : n === 1 ? "yes" : "no");
const number = (key, title, format) => ({
  key,
  title,
  cell: (row) => format(row[key]),
  sort: (row) => row[key] ?? NaN,
  numeric: true,
});
const named = (title, format = safe) => ({
  key: "name",
  title,
  cell: (row) => format(row.name),
  sort: (row) => row.name,
});

const TABLES = [
  {
    title: "Calls by method",
    sort: { key: "calls", descending: true },
    columns: [
      named("Method", shortMethod),
      number("calls", "Calls", perSecond),
      number("failed", "Failed", perSecond),
      number("p50", "p50", seconds),
      number("p99", "p99", seconds),
    ],
    rows: (before, now) =>
      merge({
        calls: ratesBy(before, now, CALLS, "method"),
        failed: ratesBy(before, now, CALLS, "method", ({ labels }) => labels.get("code") !== "OK"),
        ...quantileColumns(
          quantilesBy(before, now, "berth_grpc_call_duration_seconds", "method", [0.5, 0.99]),
        ),
      }),
  },
  {
    title: "Calls by code",
    sort: { key: "calls", descending: true },
    columns: [
      named("Code"),
      number("calls", "Calls", perSecond),
      number("all", "Since the start", or(count)),
    ],
    rows: (before, now) =>
      merge({ calls: ratesBy(before, now, CALLS, "code"), all: valuesBy(now, CALLS, "code") }),
  },
  {
    title: "Lanes",
    sort: null,
    columns: [
      named("Lane"),
      number("workers", "Workers", or(count)),
      number("inFlight", "In flight", or(count)),
      number("waiting", "Waiting", or(count)),
      number("arrived", "Arrived", perSecond),
      number("refused", "Refused", perSecond),
      number("p50", "Wait p50", seconds),
      number("p99", "Wait p99", seconds),
    ],
    rows: (before, now) =>
      merge({
        workers: valuesBy(now, "berth_admission_workers", "lane"),
        inFlight: valuesBy(now, "berth_admission_in_flight", "lane"),
        waiting: valuesBy(now, "berth_admission_waiting", "lane"),
        arrived: admission(before, now, "arrived"),
        refused: admission(before, now, "refused"),
        ...quantileColumns(quantilesBy(before, now, "berth_admission_queue_seconds", "lane", [0.5, 0.99])),
      }),
  },
  {
    title: "Feeds",
    sort: { key: "age", descending: true },
    empty: "No feed from an API server.",
    columns: [
      named("Kind"),
      number(
        "age",
        "Last known to be alive",
        or((n) => `${duration(n)} ago`),
      ),
      number("events", "Events", perSecond),
      number("errors", "Errors", or(count)),
      number("relists", "Repeated lists", or(count)),
      number("refused", "Refused objects", or(count)),
    ],
    rows: (before, now) =>
      merge({
        age: valuesBy(now, "berth_feed_staleness_seconds", "kind"),
        events: ratesBy(before, now, "berth_feed_events_total", "kind"),
        errors: valuesBy(now, "berth_feed_errors_total", "kind"),
        relists: valuesBy(now, "berth_feed_relists_total", "kind"),
        refused: valuesBy(now, "berth_feed_refused_total", "kind"),
      }),
  },
];

const FACTS = [
  [
    "Replicas",
    "berth_replica_commits",
    (before, now) => [
      ["Decides for all replicas", yes(value(now, "berth_replica_commits"))],
      ["Term", or(count)(value(now, "berth_replica_term"))],
      ["Age of the others' reservations", seconds(value(now, "berth_replica_staleness_seconds"))],
      ["Calls sent on", perSecond(rate(before, now, "berth_calls_forwarded_total"))],
      ["May schedule", yes(value(now, "berth_leader"))],
    ],
  ],
  [
    "Ledger",
    "berth_ledger_available",
    (before, now) => [
      ["Can be written", yes(value(now, "berth_ledger_available"))],
      ["Size", or(bytes)(value(now, "berth_ledger_bytes"))],
      ["Transactions", perSecond(rate(before, now, "berth_ledger_commits_total"))],
      [
        "Not committed since the start",
        or(count)(others(valuesBy(now, "berth_ledger_commits_total", "outcome"), "committed")),
      ],
      [
        "Time of one, p99",
        seconds(quantilesBy(before, now, "berth_ledger_commit_duration_seconds", null, [0.99]).get("")?.[0]),
      ],
    ],
  ],
  [
    "Journal of decisions",
    "berth_journal_writing",
    (before, now) => [
      ["Records decisions", yes(value(now, "berth_journal_writing"))],
      ["Size", or(bytes)(value(now, "berth_journal_bytes"))],
      ["Waits to be written", or(bytes)(value(now, "berth_journal_waiting_bytes"))],
      [
        "Decisions recorded",
        perSecond(ratesBy(before, now, "berth_journal_recorded_total", "what").get("decision")),
      ],
      ["Gaps since the start", or(count)(value(now, "berth_journal_gaps_total"))],
    ],
  ],
  [
    "Sessions",
    "berth_sessions",
    (before, now) => [
      ["Open", or(count)(value(now, "berth_sessions"))],
      ...[...valuesBy(now, "berth_sessions_ended_total", "reason")].map(([reason, n]) => [
        `Ended: ${safe(reason)}`,
        count(n),
      ]),
    ],
  ],
  [
    "Cluster",
    "berth_generation",
    (before, now) => [
      ["Generation", or(count)(value(now, "berth_generation"))],
      ["Age of its state", seconds(value(now, "berth_staleness_seconds"))],
      ["Changes applied", perSecond(ratesBy(before, now, "berth_deltas_total", "outcome").get("applied"))],
      [
        "Changes rejected since the start",
        or(count)(valuesBy(now, "berth_deltas_total", "outcome").get("rejected")),
      ],
      ["Contradictions", or(count)(value(now, "berth_contradictions"))],
    ],
  ],
  [
    "Process",
    "process_start_time_seconds",
    (before, now) => [
      ["Version", safe(now.metrics.get("berth_build_info")?.[0]?.labels.get("version") ?? "–")],
      ["Started", time(new Date(value(now, "process_start_time_seconds") * 1000).toISOString())],
      ["Memory", or(bytes)(value(now, "process_resident_memory_bytes"))],
      ["Cores used", or((n) => n.toFixed(2))(rate(before, now, "process_cpu_seconds_total"))],
      ["Threads", or(count)(value(now, "process_threads"))],
      ["Open files", or(count)(value(now, "process_open_fds"))],
      ["Connections", or(count)(value(now, "berth_connections"))],
    ],
  ],
];

/** @returns {{facts: HTMLElement, tables: Array<HTMLElement>, update: function(?Object, Object)}} */
export function tables() {
  const facts = h("div", { class: "cards" });
  const drawn = TABLES.map((one) => ({
    ...one,
    element: table({
      label: one.title,
      columns: one.columns,
      rows: [],
      sort: one.sort,
      empty: one.empty ?? "Nothing yet.",
      pageSize: 15,
    }),
  }));
  return {
    facts,
    tables: drawn.map(({ title, element }) => h("section", null, h("h2", null, title), element)),
    update(before, now) {
      drawn.forEach(({ element, rows }) => element.update(rows(before, now)));
      replace(
        facts,
        FACTS.filter(([, needed]) => now.metrics.has(needed)).map(([title, , read]) =>
          h(
            "section",
            { class: "card" },
            h("h2", null, title),
            h(
              "dl",
              { class: "facts" },
              read(before, now).map(([name, shown]) => [h("dt", null, name), h("dd", null, shown)]),
            ),
          ),
        ),
      );
    },
  };
}

/** Rows with a column for each of the maps. */
function merge(columns) {
  const names = new Set(Object.values(columns).flatMap((column) => [...column.keys()]));
  return [...names].map((name) => ({
    name,
    ...Object.fromEntries(Object.entries(columns).map(([key, column]) => [key, column.get(name)])),
  }));
}

function quantileColumns(quantiles) {
  const column = (i) => new Map([...quantiles].map(([key, values]) => [key, values[i]]));
  return { p50: column(0), p99: column(1) };
}

function admission(before, now, outcome) {
  return ratesBy(
    before,
    now,
    "berth_admission_total",
    "lane",
    ({ labels }) => labels.get("outcome") === outcome,
  );
}

function others(values, key) {
  return [...values].reduce((sum, [name, n]) => sum + (name === key ? 0 : n), 0);
}
