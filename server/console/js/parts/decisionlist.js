// Rows of decisions: those told live, and those of the history.

import { h, href } from "../dom.js";
import { count, safe, shortName, time } from "../format.js";
import { prose } from "./cells.js";
import { nodeLink, outcomeOf, outcomeTag, podLink, podName } from "./podwords.js";

/** More live rows than these are dropped, the oldest first. */
export const N_LIVE = 500;
/** A decision is told at most this much before or after the time at which it was recorded. */
const SAME_MS = 3_000;

/** A row of an event of the stream. */
function liveRow({ time: at, decision }) {
  return { isLive: true, time: at ?? "", pod: decision?.pod ?? {}, result: { decision } };
}

/** Whether a live row is what the search asks for. */
export function isMatch(row, search) {
  const { namespace = "", name = "" } = row.pod;
  const placed = row.result.decision?.placement?.nodeName ?? "";
  return (!search.namespace || search.namespace === namespace)
    && name.includes(search.podName)
    && (!search.nodeName || search.nodeName === placed)
    && (!search.outcome || outcomeOf(row.result).word === OUTCOMES.get(search.outcome))
    && !(search.from && Date.parse(row.time) < Date.parse(search.from))
    && !(search.to && Date.parse(row.time) >= Date.parse(search.to));
}

/** Outcomes that can be searched for, with the words of their labels. */
export const OUTCOMES = new Map([
  ["DECISION_OUTCOME_PLACED", "placed"],
  ["DECISION_OUTCOME_UNSCHEDULABLE", "fits no node"],
  ["DECISION_OUTCOME_GATED", "held back"],
  ["DECISION_OUTCOME_ERROR", "failed"],
]);

function identity(row) {
  const generation = row.result?.decision?.generation ?? 0;
  return `${podName(row.pod)} ${generation} ${outcomeOf(row.result).word}`;
}

/** The live rows that the history does not have as well. */
export function withoutRecorded(live, history) {
  const times = new Map();
  for (const row of history) {
    const id = identity(row);
    times.set(id, [...(times.get(id) ?? []), Date.parse(row.time)]);
  }
  return live.filter((row) => {
    const at = Date.parse(row.time);
    return !(times.get(identity(row)) ?? []).some((recorded) => Math.abs(recorded - at) <= SAME_MS);
  });
}

function timeCell(row) {
  return row.id ? h("a", { href: href("decision", row.id) }, time(row.time)) : time(row.time);
}

function scoreOf(row) {
  return row.result?.decision?.placement?.totalScore;
}

function reason(row) {
  const { decision, error } = row.result ?? {};
  return decision?.unschedulable?.message ?? decision?.gated?.reasons?.join(", ") ?? error?.message ?? "";
}

function reasonCell(row) {
  const text = reason(row);
  return text ? prose(h("span", { title: safe(text) }, shortName(text, 110))) : "-";
}

function openCell(row, onHistory) {
  if (row.id) {
    const label = `Decision about ${safe(podName(row.pod))}`;
    return h("a", { href: href("decision", row.id), "aria-label": label }, "Open");
  }
  if (!onHistory) {
    return "-";
  }
  const search = () => onHistory(row.pod);
  return h("button", { type: "button", class: "plain small", on: { click: search } }, "In the history");
}

/** Columns of the table; `onHistory(key)` searches the history for a pod, if `hasHistory()`. */
export function decisionColumns({ onHistory, hasHistory }) {
  const feasible = (row) => row.result?.decision?.placement?.nFeasibleNodes;
  const number = (pick) => (row) => (pick(row) === undefined ? "-" : count(pick(row)));
  return [
    { key: "time", title: "Time", cell: timeCell },
    { key: "source", title: "From", cell: (row) => (row.isLive ? "live" : "history") },
    { key: "pod", title: "Pod", cell: (row) => podLink(row.pod) },
    { key: "outcome", title: "Outcome", cell: (row) => outcomeTag(row.result) },
    { key: "node", title: "Node", cell: (row) => nodeLink(row.result?.decision?.placement?.nodeName) },
    { key: "score", title: "Score", cell: number(scoreOf), numeric: true },
    { key: "feasible", title: "Feasible nodes", cell: number(feasible), numeric: true },
    { key: "scheduler", title: "Scheduler", cell: (row) => safe(row.schedulerName ?? "") || "-" },
    { key: "reason", title: "Why not", cell: reasonCell },
    { key: "open", title: "Details", cell: (row) => openCell(row, hasHistory() ? onHistory : null) },
  ];
}

/** Keeps the newest live decisions, and counts those that the stream missed. */
export function liveStore() {
  const rows = [];
  let nMissed = 0;
  let nNew = 0;
  return {
    add(event) {
      nMissed += event.nMissed ?? 0;
      if (event.decision) {
        rows.unshift(liveRow(event));
        rows.length = Math.min(rows.length, N_LIVE);
        nNew = Math.min(nNew + 1, N_LIVE);
      }
    },
    /** The rows, which count as seen then. */
    take() {
      nNew = 0;
      return rows;
    },
    get nMissed() {
      return nMissed;
    },
    get nNew() {
      return nNew;
    },
  };
}
