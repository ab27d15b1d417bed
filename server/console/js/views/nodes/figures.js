/** What the map can show by colour: shares from 0 to 1, or states. */

import { cluster } from "../../cluster.js";
import { amount, count, percent, safe } from "../../format.js";
import { CORDONED, FLAGS } from "./flags.js";

/** Number of colours of a scale of shares, and the step of a node without a share. */
export const STEPS = 32;
export const NO_VALUE = STEPS;
/** Step of the first state. */
const FIRST_STATE = STEPS + 1;

/** @returns {Array<{key: string, name: string, states: ?Array, step: function(number): number}>} */
export function figures() {
  const resources = cluster.resources.map((resource) => ({
    key: resource,
    name: `${safe(resource)} requested`,
    share: (row) => cluster.requested(resource, row) / cluster.allocatable(resource, row),
    text: (row) => requestedText(resource, row),
    free: (row) => cluster.allocatable(resource, row) - cluster.requested(resource, row),
  }));
  const fragmented = cluster.resources.map((resource) => ({
    key: `frag:${resource}`,
    name: `${safe(resource)} idle, but of no use`,
    share: (row) => cluster.fragmentation(resource, row),
    text: (row) => percent(cluster.fragmentation(resource, row)),
    free: (row) => cluster.allocatable(resource, row) - cluster.requested(resource, row),
  }));
  const pods = {
    key: "pods",
    name: "pods of allowed",
    share: (row) => cluster.pods(row) / cluster.allowedPods(row),
    text: (row) => `${count(cluster.pods(row))} of ${count(cluster.allowedPods(row))}`,
    free: (row) => cluster.allowedPods(row) - cluster.pods(row),
  };
  return [
    ...[...resources, pods, ...fragmented].map(scale),
    state("conditions", "conditions", FLAGS),
    state("cordoned", "cordoned or not", [CORDONED]),
  ];
}

function requestedText(resource, row) {
  const all = cluster.allocatable(resource, row);
  return all > 0
    ? `${amount(resource, cluster.requested(resource, row))} of ${amount(resource, all)}`
    : `no ${safe(resource)}`;
}

/** The figure of that key; the first one if there is none. */
export function figureOf(key) {
  const all = figures();
  return all.find((figure) => figure.key === key) ?? all[0];
}

function scale(figure) {
  return { ...figure, states: null, step: (row) => stepOf(figure.share(row)) };
}

function stepOf(share) {
  return share >= 0 && share < Infinity ? Math.min(STEPS - 1, Math.floor(share * STEPS)) : NO_VALUE;
}

/** A figure of states: the first one that a node has counts, and a node without any has the last step. */
function state(key, name, flags) {
  const states = [...flags, { bit: 0, name: "none of these", colour: "--map-plain", pattern: 0 }];
  const indexOf = (row) => {
    const bits = cluster.flags(row);
    for (let i = 0; i < flags.length; i++) {
      if (bits & flags[i].bit) {
        return i;
      }
    }
    return flags.length;
  };
  return {
    key,
    name,
    states,
    share: indexOf,
    free: indexOf,
    text: (row) => states[indexOf(row)].name,
    step: (row) => FIRST_STATE + indexOf(row),
  };
}
