// The figures of a comparison of policies: the rows of its table, as `berth compare` has them.

import { count, duration, percent } from "../format.js";
import { byResource, difference } from "./whatif-words.js";

const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const points = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });

/** Kinds of figures: how a value is shown, and how the difference of two. */
const KINDS = {
  count: { show: count, differ: (a, b) => difference(b - a) },
  decimal: { show: (n) => decimal.format(n), differ: signed((n) => decimal.format(n)) },
  seconds: { show: duration, differ: signed(duration, "longer", "shorter") },
  micros: { show: (n) => duration(n / 1e6), differ: signed((n) => duration(n / 1e6), "longer", "shorter") },
  share: { show: percent, differ: signed((n) => `${points.format(n * 100)} points`) },
};

function signed(show, more = "more", less = "less") {
  return (a, b) => {
    const n = b - a;
    const isNone = Math.abs(n) < 1e-9 || show(Math.abs(n)) === show(0);
    return isNone ? "no change" : `${n > 0 ? "+" : "\u2212"}${show(Math.abs(n))} ${n > 0 ? more : less}`;
  };
}

const numberOf = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);

/** Names of a kind that any of the policies has, sorted. */
function namesOf(policies, field, compare) {
  return [...new Set(policies.flatMap((policy) => Object.keys(policy[field] ?? {})))].sort(compare);
}

/** Own values of an object of a file: a name such as `constructor` is a name like any other. */
export const own = (object, key) => (object && Object.hasOwn(object, key) ? object[key] : undefined);

/** The resources of a comparison, cpu and memory first. */
export function resourcesOf(policies) {
  return namesOf(policies, "resources", byResource);
}

/** The priorities of evicted pods, the lowest first. */
export function prioritiesOf(policies) {
  const all = policies.flatMap((policy) => policy.evictions ?? []).map((evicted) => evicted.priority ?? 0);
  return [...new Set(all)].sort((a, b) => a - b);
}

/** Number of evicted pods of a priority; null for what was recorded, which does not say who was evicted. */
export function evicted(policy, priority) {
  const found = (policy.evictions ?? []).find((one) => (one.priority ?? 0) === priority);
  return policy.decisions ? (numberOf(found?.nPods) ?? 0) : null;
}

/**
 * The rows of the table: a name, a value for each policy (null for none), whether a high or a low one is
 * better, and how values and their differences are shown.
 */
export function rowsOf(policies) {
  const rows = [];
  const add = (name, better, kind, figure) => {
    rows.push({ name, better, ...KINDS[kind], values: policies.map((policy) => numberOf(figure(policy))) });
  };
  const n = (value) => value ?? 0;
  add("pods that came", null, "count", (it) => n(it.nCame));
  add("placed", "high", "count", (it) => n(it.nPlaced));
  add("waiting at the end", "low", "count", (it) => n(it.nWaitingAtEnd));
  add("wait, half of the pods at most", "low", "seconds", (it) => it.wait?.p50Seconds);
  add("wait, 99 of 100 at most", "low", "seconds", (it) => it.wait?.p99Seconds);
  add("wait, longest", "low", "seconds", (it) => it.wait?.longestSeconds);
  add("wait, all together", "low", "seconds", (it) => it.wait?.totalSeconds);
  for (const priority of prioritiesOf(policies)) {
    add(`evicted, of priority ${priority}`, "low", "count", (it) => evicted(it, priority));
  }
  for (const name of resourcesOf(policies)) {
    addResource(add, policies, name);
  }
  add("nodes in use, on average", "low", "decimal", (it) => it.busyNodesAverage);
  add("nodes that could be emptied at the end", "high", "count", (it) => it.emptiableNodesAtEnd);
  if (policies.some((it) => numberOf(it.cost) !== null)) {
    add("cost of nodes in use", "low", "decimal", (it) => it.cost);
  }
  add("a decision, half of them at most", "low", "micros", (it) => it.decisions?.p50Micros);
  add("a decision, 99 of 100 at most", "low", "micros", (it) => it.decisions?.p99Micros);
  return rows;
}

function addResource(add, policies, name) {
  const of = (field) => (it) => own(it.resources, name)?.[field];
  add(`${name} requested, on average`, "high", "share", of("requestedAverage"));
  add(`${name} requested at the end`, "high", "share", of("requestedAtEnd"));
  if (policies.some((it) => it.sharesWhenFirstRefused)) {
    add(`${name} requested when first a pod waited`, "high", "share", (it) =>
      own(it.sharesWhenFirstRefused, name),
    );
  }
  add(`${name} idle and unusable`, "low", "share", of("fragmentationAverage"));
  add(`${name} imbalance of nodes`, "low", "share", of("imbalanceAverage"));
  add(`${name} difference of zones`, "low", "share", of("zoneSkewAverage"));
}

/** The positions of a row's best values; none if all are alike, as they are shown. */
export function bestOf({ values, better, show }) {
  const given = values.filter((value) => value !== null);
  if (!better || given.length < 2) {
    return new Set();
  }
  const best = better === "high" ? Math.max(...given) : Math.min(...given);
  const isBest = (value) => value !== null && show(value) === show(best);
  return given.every(isBest)
    ? new Set()
    : new Set(values.flatMap((value, at) => (isBest(value) ? [at] : [])));
}
