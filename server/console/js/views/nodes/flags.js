/** What is the matter with a node, as the server's bits say it. */

/** Worst first: the map shows one of them. `pattern` is a number for tiles.js. */
export const FLAGS = [
  { bit: 4, name: "unreachable", tone: "bad", colour: "--bad", pattern: 1 },
  { bit: 2, name: "not ready", tone: "bad", colour: "--fill-4", pattern: 2 },
  { bit: 128, name: "fenced", tone: "bad", colour: "--fill-6", pattern: 3 },
  { bit: 8, name: "memory pressure", tone: "warn", colour: "--fill-2", pattern: 4 },
  { bit: 16, name: "disk pressure", tone: "warn", colour: "--fill-7", pattern: 5 },
  { bit: 32, name: "PID pressure", tone: "warn", colour: "--warn", pattern: 6 },
  { bit: 64, name: "network unavailable", tone: "warn", colour: "--fill-3", pattern: 7 },
  { bit: 256, name: "other taint", tone: "", colour: "--fill-8", pattern: 8 },
];
export const CORDONED = { bit: 1, name: "cordoned", tone: "warn", colour: "--fill-2", pattern: 0 };
export const NOT_READY = 2 | 4;
export const PRESSURE = 8 | 16 | 32 | 64;

/** The filters that the view has, by their word in the address. */
export const FILTERS = new Map([
  ["cordoned", { name: "Cordoned", bits: CORDONED.bit }],
  ["notready", { name: "Not ready", bits: NOT_READY }],
  ["pressure", { name: "Under pressure", bits: PRESSURE }],
]);

/** Flags of which a node needs one to pass the filters; 0 without filters. */
export function filterBits(only) {
  return [...only].reduce((bits, key) => bits | FILTERS.get(key).bits, 0);
}

/** Names of a node's flags, with their tones. */
export function flagsOf(bits) {
  return [CORDONED, ...FLAGS].filter((flag) => bits & flag.bit);
}
