// A picture of an eviction: victims leave the node for other nodes, or for none.

import { h, s } from "../dom.js";
import { count, plural, safe, shortName } from "../format.js";
import { figure } from "../chart.js";
import { nodeLink, podLink, podName } from "./podwords.js";

const N_SHOWN = 24;
const ROW = 34;
const BOX = 26;
const WIDTH = 760;
/** Width of a wide letter. */
const LETTER = 8;
const COLUMNS = [
  { title: "Node", x: 4, width: 190 },
  { title: "Pods that go", x: 276, width: 210 },
  { title: "Could go to", x: 568, width: 188 },
];
const DASHES = "5 4";

function text(x, y, content, props) {
  return s("text", { x, y, "font-size": 13, fill: "currentColor", ...props }, content);
}

function box(column, y, name, isDashed = false) {
  const { x, width } = COLUMNS[column];
  return s(
    "g",
    null,
    s("title", null, safe(name)),
    s("rect", { x, y: y - BOX / 2, width, height: BOX, rx: 4, fill: "none", stroke: "currentColor",
      "stroke-dasharray": isDashed ? DASHES : null }),
    text(x + 8, y + 5, shortName(name, Math.floor((width - 16) / LETTER))),
  );
}

/** An arrow from the right side of a column to the left side of the next one. */
function arrow(column, y1, y2, isDashed = false) {
  const x1 = COLUMNS[column].x + COLUMNS[column].width;
  const x2 = COLUMNS[column + 1].x - 7;
  const bend = (x1 + x2) / 2;
  const d = `M${x1} ${y1}C${bend} ${y1} ${bend} ${y2} ${x2} ${y2}`;
  const dashes = isDashed ? DASHES : null;
  return s(
    "g",
    null,
    s("path", { d, fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-dasharray": dashes }),
    s("path", { d: `M${x2} ${y2 - 4}L${x2 + 7} ${y2}L${x2} ${y2 + 4}z`, fill: "currentColor" }),
  );
}

function drawing(nodeName, victims, label) {
  const isLooked = victims.some((victim) => victim.elsewhere);
  const targetOf = (victim) => victim.elsewhere?.nodeName ?? "";
  const targets = isLooked ? [...new Set(victims.map(targetOf))].sort((a, b) => (a === "") - (b === "")) : [];
  const nRows = Math.max(victims.length, targets.length, 1);
  const height = ROW * (nRows + 1);
  const at = (i, n) => ROW * (i + 1.5 + (nRows - n) / 2);
  const nodeY = at(0, 1);
  const moves = victims.map((victim, i) => {
    const y = at(i, victims.length);
    const target = targetOf(victim);
    const onward = isLooked && arrow(1, y, at(targets.indexOf(target), targets.length), target === "");
    return [arrow(0, nodeY, y), box(1, y, podName(victim.pod)), onward];
  });
  const ends = targets.map((name, i) => box(2, at(i, targets.length), name || "no other node", name === ""));
  const columns = COLUMNS.slice(0, isLooked ? 3 : 2);
  const titles = columns.map(({ title, x }) => text(x, 18, title, { "font-weight": "bold" }));
  const frame = { viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height };
  const node = box(0, nodeY, nodeName);
  return s("svg", { ...frame, role: "img", "aria-label": label }, titles, node, moves, ends);
}

function target(victim) {
  const { nodeName, unschedulableMessage } = victim.elsewhere ?? {};
  return nodeName ? nodeLink(nodeName) : unschedulableMessage ? "no other node" : "-";
}

/** The picture and its table; `podText` names the pod that comes. */
export function evictionFlow({ podText, chosen }) {
  const all = chosen.victims ?? [];
  const nodeName = chosen.nodeName ?? "";
  const victims = all.slice(0, N_SHOWN);
  const more = all.length > victims.length ? ` (the first ${count(victims.length)} are drawn)` : "";
  const [node, pod] = [nodeName, podText].map((name) => shortName(name, 60));
  const label = `${plural(all.length, "pod")} would leave ${node} for ${pod}${more}`;
  return figure({
    label,
    picture: h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
      drawing(nodeName, victims, label)),
    data: () => ({
      columns: [
        { key: "from", title: "Node", cell: () => nodeLink(nodeName) },
        { key: "pod", title: "Pod that goes", cell: (it) => podLink(it.pod) },
        { key: "to", title: "Could go to", cell: target },
      ],
      rows: all,
    }),
  });
}
