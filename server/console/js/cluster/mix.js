/** The most frequent requests of pods, and what they can use of a node. */

/**
 * @param {Array<{share: number, requests: Object}>} mix
 * @param {Array<string>} resources
 * @returns {Array<{share: number, requests: Array<{name: string, index: number, amount: number}>}>}
 */
export function compileMix(mix, resources) {
  return (mix ?? []).map(({ share, requests }) => ({
    share,
    requests: Object.entries(requests)
      .filter(([, asked]) => asked > 0)
      .map(([name, asked]) => ({ name, index: resources.indexOf(name), amount: asked })),
  }));
}

/**
 * Share of a node's idle amount of a resource that the mix cannot use there; NaN if no pod of the mix asks
 * for it or the node has none of it.
 */
export function fragmentation(mix, resource, row, store) {
  const index = store.resources.indexOf(resource);
  if (index < 0 || !(store.allocatable[index][row] > 0)) {
    return NaN;
  }
  if (store.allocatable[index][row] <= store.requested[index][row]) {
    return 0;
  }
  let asking = 0;
  let unusable = 0;
  for (const entry of mix) {
    if (entry.requests.some((one) => one.index === index)) {
      asking += entry.share;
      unusable += howMany(entry, row, store) > 0 ? 0 : entry.share;
    }
  }
  return asking > 0 ? unusable / asking : NaN;
}

/** Number of pods with the requests of an entry of the mix that the node has room for. */
export function howMany({ requests }, row, store) {
  let most = Math.max(0, store.allowed[row] - store.pods[row]);
  for (const { index, amount } of requests) {
    const free = index < 0 ? 0 : store.allocatable[index][row] - store.requested[index][row];
    most = Math.min(most, Math.floor(free / amount));
  }
  return Math.max(0, most);
}
