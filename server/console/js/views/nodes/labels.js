/** Names of the groups above their cells. */

import { h, replace } from "../../dom.js";
import { count, safe } from "../../format.js";

const AT_ONCE = 150;
const drawings = new WeakMap();

/** Draws them some at a time, so that a thousand groups do not hold up a frame. */
export function drawLabels(place, list, ratio) {
  const drawing = {};
  drawings.set(place, drawing);
  replace(place);
  const more = (from) => {
    if (drawings.get(place) === drawing && from < list.length) {
      place.append(...list.slice(from, from + AT_ONCE).map((block) => label(block, ratio)));
      setTimeout(more, 16, from + AT_ONCE);
    }
  };
  more(0);
}

function label(block, ratio) {
  const style = {
    "--x": `${block.x / ratio}px`,
    "--y": `${block.top / ratio}px`,
    "--w": `${block.width / ratio}px`,
  };
  return h(
    "span",
    { title: safe(block.name), style },
    h("b", null, safe(block.name) || "no group"),
    ` ${count(block.count)}`,
  );
}
