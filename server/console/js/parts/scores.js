// Scores of the nodes that could take a pod, by plugin.

import { h, replace } from "../dom.js";
import { count, plural, safe } from "../format.js";
import { bars } from "../chart.js";
import { table } from "../table.js";
import { prose } from "./cells.js";
import { nodeLink } from "./podwords.js";
import { bestFirst } from "./verdicts.js";

const N_FIRST = 10;
const N_MORE = 40;

/** Plugins that scored, in the order of kube-scheduler. */
function pluginsOf(verdicts) {
  const scores = verdicts.flatMap((verdict) => verdict.scores ?? []);
  return [...new Set(scores.map((score) => score.plugin ?? ""))];
}

function barOf(verdict, chosen) {
  const mark = verdict.nodeName === chosen ? "→ " : "";
  return {
    name: `${mark}${safe(verdict.nodeName ?? "")}`,
    nodeName: verdict.nodeName ?? "",
    parts: (verdict.scores ?? []).map(({ plugin = "", raw = 0, weighted = 0 }) => ({
      key: plugin,
      value: weighted,
      title: `${safe(plugin)}: ${count(weighted)} (${count(raw)} before normalising and weight)`,
    })),
  };
}

function picture(shown, chosen, onSelect) {
  const keys = pluginsOf(shown).map((plugin) => ({ key: plugin, name: safe(plugin) }));
  return bars({
    label: "Scores of the best nodes by plugin",
    rows: shown.map((verdict) => barOf(verdict, chosen)),
    keys,
    format: count,
    onSelect: onSelect && ((row) => onSelect(row.nodeName)),
  });
}

function drawn(placement) {
  const nBest = placement?.nBestNodes ?? 0;
  const among = nBest > 1 ? `, drawn among ${plural(nBest, "node")} with the highest score` : "";
  return placement?.nodeName ? h("p", null, "→ is the chosen node", among, ".") : null;
}

/** The ranking: a stacked bar for each of the best nodes, the chosen one first. */
export function ranking({ verdicts, placement, onSelect }) {
  const chosen = placement?.nodeName;
  const best = bestFirst(verdicts, chosen);
  if (best.length === 0) {
    return null;
  }
  if (!best.some((verdict) => verdict.scores?.length)) {
    return h("p", null, nodeLink(best[0].nodeName), " is the only feasible node, so nothing is scored.");
  }
  const slot = h("div");
  const more = h("button", { type: "button" });
  let n = N_FIRST;
  const draw = () => {
    replace(slot, picture(best.slice(0, n), chosen, onSelect));
    more.hidden = n >= best.length;
    const nMore = Math.max(0, Math.min(N_MORE, best.length - n));
    more.textContent = `Show ${count(nMore)} more of ${plural(best.length, "feasible node")}`;
  };
  more.addEventListener("click", () => {
    n += N_MORE;
    draw();
  });
  draw();
  return h("div", null, drawn(placement), slot, more);
}

/** How each score of one node came about. */
export function scoreTable(scores) {
  const basis = (pick) => (score) => {
    const it = score.basis;
    return it ? count(pick(it) ?? 0) : "-";
  };
  const lines = (score) => (score.basis?.lines ?? []).map((line) => h("div", null, safe(line)));
  return table({
    label: "Scores by plugin",
    columns: [
      { key: "plugin", title: "Plugin", cell: (score) => safe(score.plugin ?? "") },
      { key: "raw", title: "Raw", cell: (score) => count(score.raw ?? 0), numeric: true },
      { key: "normalized", title: "Of 100", cell: basis((it) => it.normalized), numeric: true },
      { key: "weight", title: "Weight", cell: basis((it) => it.weight), numeric: true },
      { key: "weighted", title: "Score", cell: (score) => count(score.weighted ?? 0), numeric: true },
      { key: "from", title: "From", cell: (score) => prose(lines(score)) },
    ],
    rows: scores,
  });
}
