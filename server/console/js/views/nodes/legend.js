/** What the map's colours and patterns mean. */

import { h } from "../../dom.js";
import { CORDONED } from "./flags.js";
import { MARK, tiles } from "./tiles.js";
import { NO_VALUE, STEPS } from "./figures.js";

const SIZE = 17;

/** @param {{states: ?Array}} figure */
export function legend(figure) {
  const swatches = tiles(figure, SIZE);
  const entry = (look, text) => h("li", null, swatch([swatches.of(look)]), text);
  const plain = figure.states ? STEPS + figure.states.length : Math.floor(STEPS / 3);
  const marks = [entry(plain | MARK.cordoned, CORDONED.name)];
  if (figure.states) {
    const states = figure.states
      .filter((state) => state !== CORDONED)
      .map((state) => entry(STEPS + 1 + figure.states.indexOf(state), state.name));
    return h("ul", { class: "legend" }, states, marks);
  }
  const scale = swatch(Array.from({ length: STEPS / 2 }, (_, i) => swatches.of(i * 2 + 1)));
  return h(
    "ul",
    { class: "legend" },
    h("li", { class: "ramp" }, "0 %", scale, "100 %"),
    entry(NO_VALUE, "has none"),
    marks,
    entry(plain | MARK.notReady, "not ready or unreachable"),
  );
}

function swatch(images) {
  const canvas = h("canvas", {
    class: "tile",
    width: (SIZE - 1) * images.length,
    height: SIZE - 1,
    "aria-hidden": "true",
  });
  const context = canvas.getContext("2d");
  images.forEach((pixels, i) => {
    context.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), SIZE, SIZE), i * (SIZE - 1), 0);
  });
  return canvas;
}
