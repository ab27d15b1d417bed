// What a pod requests in all, as Kubernetes counts it: its containers, or an init container that needs more.

const SUFFIXES = new Map([
  ["n", 1e-9], ["u", 1e-6], ["m", 1e-3], ["", 1],
  ["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12], ["P", 1e15], ["E", 1e18],
  ["Ki", 2 ** 10], ["Mi", 2 ** 20], ["Gi", 2 ** 30], ["Ti", 2 ** 40], ["Pi", 2 ** 50], ["Ei", 2 ** 60],
]);

/** A quantity as a number: `500m` is 0.5; NaN for text that is none. */
export function quantity(text) {
  const match = /^([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+)|([a-zA-Z]*))$/.exec(String(text).trim());
  const size = match && (match[2] === undefined ? SUFFIXES.get(match[3]) : 10 ** Number(match[2]));
  return size === undefined || size === null ? NaN : Number(match[1]) * size;
}

/** Requests by resource, in milli-units of cpu and whole units of others. */
function requestsOf(resources) {
  const amounts = new Map();
  const { requests = {}, limits = {} } = resources ?? {};
  for (const [resource, text] of [...Object.entries(limits), ...Object.entries(requests)]) {
    const n = quantity(text);
    if (Number.isFinite(n)) {
      amounts.set(resource, resource === "cpu" ? Math.ceil(n * 1000) : Math.ceil(n));
    }
  }
  return amounts;
}

function add(sum, amounts) {
  for (const [resource, n] of amounts) {
    sum.set(resource, (sum.get(resource) ?? 0) + n);
  }
  return sum;
}

function most(a, b) {
  const result = new Map(a);
  for (const [resource, n] of b) {
    result.set(resource, Math.max(result.get(resource) ?? 0, n));
  }
  return result;
}

/** Init containers run one after the other; those that restart always stay beside the rest. */
function initNeeds(containers) {
  let sidecars = new Map();
  let needs = new Map();
  for (const { resources, restartPolicy } of containers) {
    const own = requestsOf(resources);
    if (restartPolicy === "Always") {
      sidecars = add(sidecars, own);
      needs = most(needs, sidecars);
    } else {
      needs = most(needs, add(new Map(sidecars), own));
    }
  }
  return { sidecars, needs };
}

/** A pod's requests as a map from resource to amount. */
export function podRequests(pod) {
  const spec = pod?.spec ?? {};
  const { sidecars, needs } = initNeeds(spec.initContainers ?? []);
  const beside = (sum, container) => add(sum, requestsOf(container.resources));
  const running = (spec.containers ?? []).reduce(beside, new Map(sidecars));
  const whole = most(running, needs);
  for (const [resource, n] of requestsOf(spec.resources)) {
    whole.set(resource, n);
  }
  return add(whole, requestsOf({ requests: spec.overhead }));
}
