// Verdicts of nodes, grouped and ordered. Nothing here builds elements: there can be thousands of verdicts.

/** What the first refusing plugin found missing on a node. */
export function missingOn(verdict) {
  return verdict.rejection?.comparisons ?? [];
}

/** Whether one thing alone is in the pod's way on the node. */
export function isOneAway(verdict) {
  return Boolean(verdict.rejection?.isSole) && missingOn(verdict).length === 1;
}

/** How much of what is asked for is missing, where that is a number: 0 to 1 for each resource. */
function shortfall(verdict) {
  return missingOn(verdict).reduce((sum, { resource }) => {
    const asked = resource?.asked ?? 0;
    return asked > 0 ? sum + Math.min(1, (asked - (resource.free ?? 0)) / asked) : sum + 1;
  }, 0);
}

function distance(verdict) {
  const rejection = verdict.rejection;
  const nMissing = missingOn(verdict).length || rejection?.reasons?.length || 1;
  return [rejection?.isSole ? 0 : 1, nMissing, shortfall(verdict)];
}

function byDistance(a, b) {
  const i = a.distance.findIndex((part, k) => part !== b.distance[k]);
  return i < 0 ? compareText(a.verdict.nodeName, b.verdict.nodeName) : a.distance[i] - b.distance[i];
}

/** Order of names, also of absent ones. */
function compareText(a = "", b = "") {
  return a < b ? -1 : Number(a > b);
}

/** Refused nodes, those that miss least first. */
export function nearestFirst(verdicts) {
  return verdicts
    .map((verdict) => ({ verdict, distance: distance(verdict) }))
    .sort(byDistance)
    .map(({ verdict }) => verdict);
}

/** Feasible nodes, the chosen one first, then by total score. */
export function bestFirst(verdicts, chosen) {
  const rank = (verdict) => (verdict.nodeName === chosen ? 1 : 0);
  return verdicts
    .filter((verdict) => verdict.feasible)
    .sort((a, b) => rank(b) - rank(a) || (b.totalScore ?? 0) - (a.totalScore ?? 0)
      || compareText(a.nodeName, b.nodeName));
}

/** Comparisons of a node that belong to a reason: of `Insufficient cpu` the one of cpu, of others all. */
export function comparisonsFor(verdict, reason) {
  const all = missingOn(verdict);
  const kind = reason === "Too many pods" ? "pods" : reason.replace(/^Insufficient /, "");
  const own = all.filter((it) => it.resource && it.kind === kind);
  return own.length > 0 ? own : all;
}

/** Refused nodes by plugin and reason, the group with most nodes first. */
export function refusals(verdicts) {
  const groups = new Map();
  for (const verdict of verdicts) {
    const rejection = verdict.rejection;
    if (!rejection) {
      continue;
    }
    const reasons = rejection.reasons?.length ? rejection.reasons : ["No reason is given"];
    for (const reason of reasons) {
      const id = JSON.stringify([rejection.plugin ?? "", reason]);
      if (!groups.has(id)) {
        groups.set(id, { plugin: rejection.plugin ?? "", reason, verdicts: [], nOneAway: 0, nEvictable: 0 });
      }
      const group = groups.get(id);
      group.verdicts.push(verdict);
      group.nOneAway += isOneAway(verdict) ? 1 : 0;
      group.nEvictable += rejection.code === "Unschedulable" ? 1 : 0;
    }
  }
  return [...groups.values()].sort((a, b) => b.verdicts.length - a.verdicts.length);
}

/** What the nodes of a group miss: for each kind and subject, what they have instead and how often. */
export function thingsMissing(group) {
  const things = new Map();
  for (const verdict of group.verdicts) {
    for (const it of comparisonsFor(verdict, group.reason)) {
      const id = JSON.stringify([it.kind, it.subject]);
      if (!things.has(id)) {
        const { kind = "", subject = "" } = it;
        things.set(id, { kind, subject, n: 0, roomiest: null, found: new Map() });
      }
      count(things.get(id), verdict, it);
    }
  }
  return [...things.values()].sort((a, b) => b.n - a.n);
}

function count(thing, verdict, comparison) {
  thing.n += 1;
  const { resource } = comparison;
  if (resource) {
    if (!thing.roomiest || (resource.free ?? 0) > (thing.roomiest.resource.free ?? 0)) {
      thing.roomiest = { nodeName: verdict.nodeName, resource };
    }
  } else if (comparison.found) {
    // Who holds devices differs from node to node; what there is comes before.
    const [found] = comparison.found.split("; ");
    thing.found.set(found, (thing.found.get(found) ?? 0) + 1);
  }
}
