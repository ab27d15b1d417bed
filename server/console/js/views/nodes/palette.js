/** The map's colours as pixels, from the custom properties of style.css in the current scheme. */

import { h } from "../../dom.js";
import { STEPS } from "./figures.js";

const RAMP = ["--map-low", "--map-middle", "--map-high"];

/**
 * @param {?Array<{colour: string}>} states of a figure of states
 * @returns {{page: number, ink: number, steps: Uint32Array}} pixels as ImageData has them; `steps` has the
 *   scale, the colour of no value, and those of the states
 */
export function palette(states) {
  const names = [
    "--surface",
    "--text",
    "--map-none",
    ...RAMP,
    ...(states ?? []).map((state) => state.colour),
  ];
  const colours = resolve(names);
  const canvas = h("canvas", { width: STEPS + names.length, height: 1 });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const gradient = context.createLinearGradient(0, 0, STEPS, 0);
  RAMP.forEach((_, i) => gradient.addColorStop(i / (RAMP.length - 1), colours[3 + i]));
  context.fillStyle = gradient;
  context.fillRect(0, 0, STEPS, 1);
  colours.forEach((colour, i) => {
    context.fillStyle = colour;
    context.fillRect(STEPS + i, 0, 1, 1);
  });
  const pixels = new Uint32Array(context.getImageData(0, 0, canvas.width, 1).data.buffer);
  const [page, ink, none] = pixels.subarray(STEPS);
  const steps = Uint32Array.of(
    ...pixels.subarray(0, STEPS),
    none,
    ...pixels.subarray(STEPS + 3 + RAMP.length),
  );
  return { page, ink, steps };
}

function resolve(names) {
  const probe = h("span", { hidden: true });
  document.body.append(probe);
  const colours = names.map((name) => {
    probe.style.setProperty("color", `var(${name})`);
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return colours;
}

/** The two pixels mixed: `share` of the second. */
export function mixed(a, b, share) {
  const part = (shift) =>
    Math.round(((a >>> shift) & 255) * (1 - share) + ((b >>> shift) & 255) * share) << shift;
  return (part(0) | part(8) | part(16) | 0xff000000) >>> 0;
}

/** Black or white, whichever is seen better on the pixel. */
export function contrasting(pixel) {
  const light = 0.299 * (pixel & 255) + 0.587 * ((pixel >>> 8) & 255) + 0.114 * ((pixel >>> 16) & 255);
  return light > 140 ? 0xff000000 : 0xffffffff;
}
