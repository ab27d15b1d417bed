/** All nodes in columns: a row is a number, and each figure an array with an entry for each row. */

import { compileMix } from "./mix.js";
import { readColumns } from "./columns.js";

export const GROUPS = ["zone", "pool", "rack", "instanceType"];
const GONE = 32768;

/** Creates an empty store, or the one that a buffer of all nodes describes. */
export function storeOf(buffer) {
  const read = buffer && readColumns(buffer);
  const rows = read?.column("row") ?? [];
  let capacity = 64;
  for (const row of rows) {
    capacity = Math.max(capacity, row + 1);
  }
  const store = {
    generation: read?.header.generation ?? 0,
    resources: read?.header.resources ?? [],
    capacity: 0,
    alive: new Uint8Array(0),
    names: [],
    byName: new Map(),
    flags: new Uint16Array(0),
    pods: new Uint32Array(0),
    allowed: new Uint32Array(0),
    groups: new Map(
      GROUPS.map((key) => [key, { ids: new Uint32Array(0), names: [""], index: new Map([["", 0]]) }]),
    ),
    allocatable: [],
    requested: [],
    mix: compileMix(read?.header.mix, read?.header.resources ?? []),
    /** Grows when nodes come, go or move to another group. */
    shape: 1,
  };
  grow(store, capacity);
  if (read) {
    write(store, read);
  }
  return store;
}

/**
 * Applies the buffer of an event.
 * @returns {?Uint32Array} the rows that changed; null if the event is older than the store
 */
export function applyChange(store, buffer) {
  const read = readColumns(buffer);
  return read.header.generation <= store.generation ? null : write(store, read);
}

function grow(store, capacity) {
  const longer = (array) => {
    const next = new array.constructor(capacity);
    next.set(array);
    return next;
  };
  for (const key of ["alive", "flags", "pods", "allowed"]) {
    store[key] = longer(store[key]);
  }
  for (const group of store.groups.values()) {
    group.ids = longer(group.ids);
  }
  for (const columns of [store.allocatable, store.requested]) {
    store.resources.forEach((_, index) => (columns[index] = longer(columns[index] ?? new Float32Array(0))));
  }
  store.capacity = capacity;
}

function write(store, { header, column, names }) {
  const rows = column("row");
  const last = rows.reduce((most, row) => Math.max(most, row), 0);
  const more = header.resources.filter((resource) => !store.resources.includes(resource));
  store.resources = [...store.resources, ...more];
  if (last >= store.capacity || more.length > 0) {
    grow(store, last >= store.capacity ? last * 2 : store.capacity);
  }
  writeNodes(store, rows, names, column("flags"));
  for (const key of GROUPS) {
    writeGroup(store, key, rows, column(key), header.strings[key]);
  }
  scatter(store.flags, rows, column("flags"));
  scatter(store.pods, rows, column("pods"));
  scatter(store.allowed, rows, column("allowedPods"));
  header.resources.forEach((resource, i) => {
    const index = store.resources.indexOf(resource);
    scatter(store.allocatable[index], rows, column(`allocatable.${i}`));
    scatter(store.requested[index], rows, column(`requested.${i}`));
  });
  // What none of these nodes has is not sent.
  store.resources.forEach((resource, index) => {
    if (!header.resources.includes(resource)) {
      const none = new Float32Array(rows.length);
      scatter(store.allocatable[index], rows, none);
      scatter(store.requested[index], rows, none);
    }
  });
  return rows;
}

function scatter(target, rows, values) {
  for (let i = 0; i < rows.length; i++) {
    target[rows[i]] = values[i];
  }
}

function writeNodes(store, rows, names, flags) {
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i];
    const isAlive = flags[i] & GONE ? 0 : 1;
    if (store.alive[row] === isAlive && (store.names[row] === names[i] || !isAlive)) {
      continue;
    }
    if (store.byName.get(store.names[row]) === row) {
      store.byName.delete(store.names[row]);
    }
    store.alive[row] = isAlive;
    store.names[row] = names[i];
    if (isAlive) {
      store.byName.set(names[i], row);
    }
    store.shape += 1;
  }
}

function writeGroup(store, key, rows, values, strings) {
  const group = store.groups.get(key);
  const ids = strings.map((name) => {
    if (!group.index.has(name)) {
      group.index.set(name, group.names.length);
      group.names.push(name);
    }
    return group.index.get(name);
  });
  for (let i = 0; i < rows.length; i++) {
    if (group.ids[rows[i]] !== ids[values[i]]) {
      group.ids[rows[i]] = ids[values[i]];
      store.shape += 1;
    }
  }
}
