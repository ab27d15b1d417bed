/** Cells of the map as blocks of pixels, made once for each look that a cell can have. */

import { contrasting, mixed, palette } from "./palette.js";

/** A look is a step of the palette and these marks. */
export const MARK = { cordoned: 64, notReady: 128, match: 256, dimmed: 512 };
const LOOKS = 1024;

/**
 * @param {{states: ?Array}} figure
 * @param {number} size of a cell in pixels, the gap included
 * @returns {{page: number, size: number, of: function(number): Uint32Array}}
 */
export function tiles(figure, size) {
  const { page, ink, steps } = palette(figure.states);
  const made = new Array(LOOKS).fill(null);
  const firstState = steps.length - (figure.states?.length ?? 0);
  const draw = (look) => {
    const step = look & 63;
    const base = look & MARK.dimmed ? mixed(steps[step], page, 0.8) : steps[step];
    const strong = look & MARK.dimmed ? mixed(contrasting(steps[step]), page, 0.8) : contrasting(steps[step]);
    const pattern = figure.states?.[step - firstState]?.pattern ?? 0;
    return tile(size, { page, ink, base, strong, pattern, look });
  };
  return { page, size, of: (look) => (made[look] ??= draw(look)) };
}

function tile(size, { page, ink, base, strong, pattern, look }) {
  const inner = size > 3 ? size - 1 : size;
  const pixels = new Uint32Array(size * size).fill(page);
  const ring = inner >= 5 && look & MARK.match ? Math.max(1, Math.round(inner / 8)) : 0;
  for (let y = 0; y < inner; y++) {
    for (let x = 0; x < inner; x++) {
      const edge = Math.min(x, y, inner - 1 - x, inner - 1 - y);
      const isMarked =
        (look & MARK.cordoned && isHatched(x, y, inner)) ||
        (look & MARK.notReady && isCrossed(x, y, inner)) ||
        isPatterned(pattern, x, y, inner);
      pixels[y * size + x] = edge < ring ? ink : isMarked ? strong : base;
    }
  }
  return pixels;
}

/** Cordoned: lines from lower left to upper right. */
function isHatched(x, y, inner) {
  const period = Math.max(2, Math.round(inner / 3.2));
  return (x + y) % period < Math.max(1, Math.round(period / 4));
}

/** Not ready: a thick line from upper left to lower right, or the upper half of a small cell. */
function isCrossed(x, y, inner) {
  return inner < 5 ? y < inner / 2 : Math.abs(x - y) <= Math.max(1, inner / 10);
}

/** Patterns of states, beside their colours. */
function isPatterned(pattern, x, y, inner) {
  const middle = (inner - 1) / 2;
  const far = Math.max(Math.abs(x - middle), Math.abs(y - middle));
  const thick = Math.max(0.6, inner / 9);
  switch (pattern) {
    case 1:
      return Math.abs(x - middle) < thick || Math.abs(y - middle) < thick;
    case 2:
      return Math.abs(x - y) < thick || Math.abs(x + y - inner + 1) < thick;
    case 3:
      return Math.abs(far - inner / 3) < thick / 1.5;
    case 4:
      return Math.abs(y - middle) < thick;
    case 5:
      return Math.abs(x - middle) < thick;
    case 6:
      return far < inner / 5;
    case 7:
      return y > middle && x > middle;
    case 8:
      return x < inner / 4 && y < inner / 4;
    default:
      return false;
  }
}
