// What answers a question: the cluster's size, its shares by resource and zone, its pending pods by cause.

const ZONE = "topology.kubernetes.io/zone";
const PAGE = 5000;
const MAX_PENDING = 10_000;
const MAX_GROUPS = 1000;

/** The name of the number of pods among resources. */
const PODS = "pods";

function add(sums, resource, allocatable, requested) {
  const sum = sums.get(resource) ?? { allocatable: 0, requested: 0 };
  sum.allocatable += allocatable;
  sum.requested += requested;
  sums.set(resource, sum);
}

function addNode(sums, node) {
  const { allocatable = {}, requested = {} } = node;
  for (const resource of new Set([...Object.keys(allocatable), ...Object.keys(requested)])) {
    add(sums, resource, allocatable[resource] ?? 0, requested[resource] ?? 0);
  }
  add(sums, PODS, node.allowedPods ?? 0, node.nPods ?? 0);
}

/** The share of a sum that is requested; NaN for nothing of nothing. */
export function shareOf(sum) {
  return sum ? sum.requested / sum.allocatable : NaN;
}

/**
 * Measures the cluster of a session.
 * @param {Session} session of `whatif-session.js`
 * @returns {Promise<{cluster: Object, nodes: Map<string, Object>, resources: Map<string, Object>,
 *   zones: Map<string, Map<string, Object>>, nInUse: number, pending: Object}>}
 */
export async function measure(session) {
  const cluster = await session.call("/v1/get-cluster");
  const { items } = await session.list("/v1/list-nodes", "nodes", { pageSize: PAGE });
  const [nodes, resources, zones] = [new Map(), new Map(), new Map()];
  let nInUse = 0;
  for (const node of items) {
    const zone = node.labels?.[ZONE] ?? "";
    if (!zones.has(zone)) {
      zones.set(zone, new Map());
    }
    nodes.set(node.name, node);
    addNode(resources, node);
    addNode(zones.get(zone), node);
    nInUse += node.nPods > 0 ? 1 : 0;
  }
  const pending = await session.call("/v1/list-pending", {
    withoutRemedies: true,
    maxPods: MAX_PENDING,
    maxGroups: MAX_GROUPS,
  });
  return { cluster, nodes, resources, zones, nInUse, pending };
}
