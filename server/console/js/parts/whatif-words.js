// Words for differences: a sign, a number, and what it means, so that no colour has to say it.

import { h } from "../dom.js";
import { count } from "../format.js";

const points = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });

const sign = (n) => (n > 0 ? "+" : "\u2212");

/** `+3 more`, `−2 fewer`, `no change`. */
export function difference(n, more = "more", fewer = "fewer") {
  return n === 0 || !Number.isFinite(n)
    ? "no change"
    : `${sign(n)}${count(Math.abs(n))} ${n > 0 ? more : fewer}`;
}

/** The difference of two shares: `+4.2 points, fuller`. */
export function shareDifference(before, after, more = "fuller", less = "emptier") {
  const n = Math.round((after - before) * 1000) / 10;
  if (!Number.isFinite(n) || n === 0) {
    return "no change";
  }
  const size = Math.abs(n);
  return `${sign(n)}${points.format(size)} ${size === 1 ? "point" : "points"}, ${n > 0 ? more : less}`;
}

/** `cpu: 12 % -> 15 %` as a part of a table's cell, with the difference below. */
export function changed(before, after, said) {
  return h(
    "span",
    null,
    `${before} \u2192 `,
    h("strong", null, after),
    h("br"),
    h("span", { class: "muted" }, said),
  );
}

/** A definition list of large numbers: `[label, number, small text]`. */
export function figures(entries) {
  const entry = ([label, number, said]) =>
    h("div", null, h("dt", null, label), h("dd", null, number, said && [" ", h("small", null, said)]));
  return h("dl", { class: "figures" }, entries.filter(Boolean).map(entry));
}

/** A checkbox or a radio button before its text, which may go on in further lines beside it. */
export function ticked(input, text) {
  const style = { "flex-wrap": "nowrap", "align-items": "baseline" };
  return h("p", null, h("label", { class: "row", style }, h("span", null, input), h("span", null, text)));
}

const FIRST = ["cpu", "memory"];
const rankOf = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);

/** The order of resources: cpu, memory, then others by name. */
export function byResource(a, b) {
  return rankOf(a) - rankOf(b) || (a < b ? -1 : 1);
}
