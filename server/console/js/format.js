/** Numbers, amounts and times as people read them. */

import { h } from "./dom.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const digits2 = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const digits3 = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });

const BYTES = /^(memory|ephemeral-storage|storage|hugepages-.*)$/;
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
/** Characters that are invisible, or that change how the text around them is shown. */
const HIDDEN = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e" +
    "\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}]",
  "gu",
);

/** A number with separators: "5,000". */
export function count(n) {
  return Number.isInteger(n) || Math.abs(n) >= 1000 ? whole.format(n) : digits3.format(n);
}

/** A number of things: "1 node", "5,000 nodes". */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A share of 1: "12 %", "0.4 %", "<0.1 %". */
export function percent(share) {
  const value = share * 100;
  if (!Number.isFinite(value)) {
    return "–";
  }
  if (value > 0 && value < 0.1) {
    return "<0.1 %";
  }
  if (value > 99.9 && value < 100) {
    return ">99.9 %";
  }
  const isSmall = Math.abs(value) < 10 || (value > 99 && value < 100);
  return `${isSmall ? (Math.round(value * 10) / 10).toString() : whole.format(value)} %`;
}

/** An amount of a resource with its unit: cpu is in milli-units, memory and storage in bytes. */
export function amount(resource, n) {
  if (resource === "cpu") {
    return Math.abs(n) < 1000 && n !== 0 ? `${whole.format(n)}m` : digits2.format(n / 1000);
  }
  return BYTES.test(resource) ? bytes(n) : digits2.format(n);
}

/** A number of bytes: "64 GiB". */
export function bytes(n) {
  let value = n;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < BYTE_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${digits3.format(value)} ${BYTE_UNITS[unit]}`;
}

/** A length of time: "350 µs", "1.2 s", "3 min 20 s", "2 d 4 h". */
export function duration(seconds) {
  const size = Math.abs(seconds);
  if (size === 0) {
    return "0 s";
  }
  if (size < 0.000_999_5) {
    return `${digits3.format(seconds * 1e6)} µs`;
  }
  if (size < 0.999_5) {
    return `${digits3.format(seconds * 1e3)} ms`;
  }
  if (size < 60) {
    return `${digits3.format(seconds)} s`;
  }
  const steps = [
    [86_400, "d", 3600, "h"],
    [3600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ];
  const [step, unit, nextStep, nextUnit] = steps.find(([least]) => size >= least);
  const high = Math.floor(size / step);
  const low = Math.floor((size % step) / nextStep);
  return `${seconds < 0 ? "-" : ""}${whole.format(high)} ${unit}${low ? ` ${low} ${nextUnit}` : ""}`;
}

/**
 * A time in the reader's zone: without the date if it is today, without the year if it is this year.
 * @param {string} text RFC 3339
 * @returns {HTMLTimeElement}
 */
export function time(text) {
  const date = new Date(text);
  return timeElement(text, date, Number.isNaN(date.getTime()) ? safe(String(text ?? "")) : shortTime(date));
}

/**
 * How long ago a time was, kept current while it is shown.
 * @param {string} text RFC 3339
 * @returns {HTMLTimeElement}
 */
export function ago(text) {
  const date = new Date(text);
  const element = timeElement(text, date, agoText(date));
  element.dataset.ago = "";
  return element;
}

/** The text with characters that deceive shown as `\u{202e}`. */
export function safe(text) {
  return String(text ?? "").replace(HIDDEN, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

/** A name of at most `max` characters, made safe; of a longer one the middle is left out. */
export function shortName(text, max = 40) {
  const characters = [...safe(text)];
  if (characters.length <= max) {
    return characters.join("");
  }
  const tail = Math.floor((max - 1) / 2);
  const head = characters.slice(0, max - 1 - tail);
  return `${head.join("")}…${characters.slice(characters.length - tail).join("")}`;
}

function timeElement(text, date, shown) {
  const isTime = !Number.isNaN(date.getTime());
  return h(
    "time",
    { datetime: isTime ? text : null, title: isTime ? `${full.format(date)} (${text})` : null },
    shown,
  );
}

function shortTime(date) {
  const now = new Date();
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  if (date.toDateString() === now.toDateString()) {
    return new Intl.DateTimeFormat("en-GB", clock).format(date);
  }
  const year = date.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
  return new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", ...year, ...clock }).format(date);
}

function agoText(date) {
  const seconds = (Date.now() - date.getTime()) / 1000;
  if (Number.isNaN(seconds)) {
    return "–";
  }
  if (Math.abs(seconds) < 5) {
    return "now";
  }
  const steps = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const [step, unit] = steps.find(([least]) => Math.abs(seconds) >= least);
  const n = whole.format(Math.floor(Math.abs(seconds) / step));
  return seconds > 0 ? `${n} ${unit} ago` : `in ${n} ${unit}`;
}

setInterval(() => {
  for (const element of document.querySelectorAll("time[data-ago]")) {
    element.textContent = agoText(new Date(element.dateTime));
  }
}, 30_000);
