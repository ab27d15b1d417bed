// Everything known about one node for a pod: what each plugin compared, and how each score came about.

import { h } from "../dom.js";
import { amount, count, safe } from "../format.js";
import { meter } from "../chart.js";
import { table } from "../table.js";
import { prose, tag } from "./cells.js";
import { comparison, holders, shortBy } from "./comparison.js";
import { nodeLink } from "./podwords.js";
import { scoreTable } from "./scores.js";

function metTag(isMet) {
  return isMet ? tag("good", "met") : tag("bad", "not met");
}

/** The verdict in a sentence. */
function headline(verdict) {
  const rejection = verdict.rejection;
  if (!rejection) {
    const score = verdict.totalScore === undefined ? "" : `, score ${count(verdict.totalScore)}`;
    return [nodeLink(verdict.nodeName), ` could take the pod${score}.`];
  }
  const by = rejection.plugin ? `refused by ${safe(rejection.plugin)}` : "left out by a PreFilter result";
  const reasons = (rejection.reasons ?? []).map(safe).join(", ");
  const sole = rejection.isSole ? " Nothing else is in the way." : " Other plugins refuse it too.";
  const eviction = rejection.code === "Unschedulable"
    ? " Evicting pods of lower priority may help."
    : " Evicting pods does not help.";
  return [nodeLink(verdict.nodeName), ` is ${by}: ${reasons}.${rejection.plugin ? sole : ""}${eviction}`];
}

function inUse({ resource: it }) {
  const allocatable = it.allocatable ?? 0;
  if (allocatable <= 0) {
    return "-";
  }
  const share = Math.min(1, Math.max(0, (allocatable - (it.free ?? 0)) / allocatable));
  return meter(share, { label: `${safe(it.resource ?? "")} in use` });
}

function resourceTable(checks) {
  const of = (pick) => ({ resource: it }) => amount(it.resource, pick(it) ?? 0);
  const short = ({ resource: it }) =>
    (shortBy(it) > 0 ? h("strong", null, amount(it.resource, shortBy(it))) : "-");
  const held = ({ resource: it }) => prose(holders(it.holders, it.nHolders, it.resource));
  return table({
    label: "Resources that the pod asks for",
    columns: [
      { key: "met", title: "Met", cell: (it) => metTag(it.met) },
      { key: "resource", title: "Resource", cell: (it) => safe(it.resource.resource ?? it.kind ?? "") },
      { key: "asked", title: "Asks", cell: of((it) => it.asked), numeric: true },
      { key: "free", title: "Free", cell: of((it) => it.free), numeric: true },
      { key: "allocatable", title: "Of", cell: of((it) => it.allocatable), numeric: true },
      { key: "short", title: "Short by", cell: short, numeric: true },
      { key: "use", title: "In use", cell: inUse },
      { key: "held", title: "Held by", cell: held },
    ],
    rows: checks,
  });
}

function otherTable(checks, constraints) {
  return table({
    label: "Everything else that was compared",
    columns: [
      { key: "met", title: "Met", cell: (it) => metTag(it.met), sort: (it) => Number(Boolean(it.met)) },
      { key: "plugin", title: "Plugin", cell: (it) => safe(it.plugin ?? ""), sort: (it) => it.plugin ?? "" },
      { key: "compared", title: "Compared", cell: (it) => prose(comparison(it, constraints)) },
    ],
    rows: checks,
  });
}

/** The verdict on one node of an explanation that names the node. */
export function nodeAccount(verdict, constraints) {
  const checks = verdict.checks?.length ? verdict.checks : verdict.rejection?.comparisons ?? [];
  const resources = checks.filter((it) => it.resource);
  const others = checks.filter((it) => !it.resource);
  return h(
    "div",
    null,
    h("p", null, headline(verdict)),
    resources.length > 0 ? [h("h3", null, "Resources"), resourceTable(resources)] : null,
    others.length > 0 ? [h("h3", null, "Everything else"), otherTable(others, constraints)] : null,
    verdict.scores?.length ? [h("h3", null, "Scores"), scoreTable(verdict.scores)] : null,
  );
}
