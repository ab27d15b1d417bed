/** The nodes of the cluster, kept current while anybody has them open. */

import { events, get } from "./api.js";
import { applyChange, storeOf } from "./cluster/store.js";
import { fragmentation, howMany } from "./cluster/mix.js";

/** How long to wait for the stream, so that the nodes are not loaded again when it opens. */
const WAIT_FOR_STREAM = 1500;
/** How long the nodes are kept current after everybody has closed them, for the next view. */
const KEPT_FOR = 20_000;

let store = storeOf(null);
let rows = { shape: 0, list: new Uint32Array(0) };
let isLoaded = false;
let users = 0;
let stream = null;
let loading = null;
let missed = [];
let timer = 0;
let ready = Promise.withResolvers();
const listeners = new Map([
  ["change", new Set()],
  ["counts", new Set()],
]);

/** The nodes. A row is a number that means the same node while it exists. */
export const cluster = {
  counts: null,

  /** Keeps the nodes current until the result is closed. */
  open() {
    users += 1;
    if (!stream) {
      start();
    }
    let isOpen = true;
    const close = () => {
      if (isOpen) {
        isOpen = false;
        users -= 1;
        setTimeout(() => users === 0 && stop(), KEPT_FOR);
      }
    };
    return { close };
  },

  /** Done when the nodes are there; fails if they cannot be loaded. */
  get ready() {
    return ready.promise;
  },

  /** Loads all nodes anew. */
  reload: load,

  /**
   * Calls a function with the changed rows, or null if all may have changed (`change`), or with the last
   * counts (`counts`).
   * @returns {function()} ends that
   */
  on(event, listener) {
    listeners.get(event).add(listener);
    return () => listeners.get(event).delete(listener);
  },

  /** Rows of all nodes. */
  nodes() {
    if (rows.shape !== store.shape) {
      const list = new Uint32Array(store.byName.size);
      let n = 0;
      for (let row = 0; row < store.capacity; row++) {
        if (store.alive[row] && n < list.length) {
          list[n++] = row;
        }
      }
      rows = { shape: store.shape, list };
    }
    return rows.list;
  },

  /** Row of the node of that name, or null. */
  node: (name) => store.byName.get(name) ?? null,
  /** A number that changes when nodes come, go or move to another group, and at each load. */
  get shape() {
    return store.shape;
  },
  get capacity() {
    return store.capacity;
  },
  get resources() {
    return store.resources;
  },
  get mix() {
    return store.mix;
  },
  isNode: (row) => store.alive[row] === 1,
  name: (row) => store.names[row],
  group: (key, row) => store.groups.get(key).names[store.groups.get(key).ids[row]],
  /** Number of the row's group, and the names by these numbers. */
  groups: (key) => store.groups.get(key),
  flags: (row) => store.flags[row],
  pods: (row) => store.pods[row],
  allowedPods: (row) => store.allowed[row],
  allocatable: (resource, row) => store.allocatable[store.resources.indexOf(resource)]?.[row] ?? 0,
  requested: (resource, row) => store.requested[store.resources.indexOf(resource)]?.[row] ?? 0,
  fragmentation: (resource, row) => fragmentation(store.mix, resource, row, store),
  /** Number of pods like an entry of the mix that fit on the node by its resources. */
  room: (entry, row) => howMany(entry, row, store),
};

function tell(event, value) {
  listeners.get(event).forEach((listener) => listener(value));
}

function start() {
  stream = events({
    onOpen: load,
    onResync: load,
    onNodes: change,
    onCounts(counts) {
      cluster.counts = counts;
      tell("counts", counts);
    },
  });
  timer = setTimeout(() => !loading && !isLoaded && load(), WAIT_FOR_STREAM);
}

function stop() {
  stream?.close();
  stream = null;
  clearTimeout(timer);
  isLoaded = false;
  ready = Promise.withResolvers();
}

/** Loads all nodes; a load that is asked for during another one follows it. */
function load() {
  const mine = (loading ?? Promise.resolve()).then(loadOnce).finally(() => {
    loading = loading === mine ? null : loading;
  });
  loading = mine;
  return mine;
}

async function loadOnce() {
  missed = [];
  try {
    const next = storeOf(await get("/console/nodes", { as: "buffer" }));
    next.shape += store.shape;
    store = next;
    missed.forEach((buffer) => applyChange(store, buffer));
    isLoaded = true;
    ready.resolve();
    tell("change", null);
  } catch (error) {
    if (!isLoaded) {
      ready.promise.catch(() => undefined);
      ready.reject(error);
      ready = Promise.withResolvers();
      ready.promise.catch(() => undefined);
    }
  } finally {
    missed = null;
  }
}

function change(buffer) {
  // What comes during a load is newer than it, or is ignored by its generation.
  missed?.push(buffer);
  const changed = isLoaded ? applyChange(store, buffer) : null;
  if (changed) {
    tell("change", changed);
  }
}
