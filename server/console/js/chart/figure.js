/** A picture with a caption, and with a table that a button shows. */

import { h, replace } from "../dom.js";
import { table } from "../table.js";

/** Number of patterns that style.css has: `.fill-1` and so on. */
const PATTERNS = 8;

/** Class of the colour and pattern of the key at `index`. */
export function fillClass(index) {
  return `fill-${(index % PATTERNS) + 1}`;
}

/**
 * @param {Object} options
 * @param {string} options.label what the picture shows
 * @param {Node} options.picture
 * @param {function(): {columns: Array, rows: Array}} options.data the same as a table, asked for when it is
 *   shown
 * @param {boolean} options.isOpen whether the table is shown at first
 * @param {function(boolean)=} options.onToggle
 * @returns {HTMLElement & {refresh: function()}} `refresh` takes the data anew if the table is shown
 */
export function figure({ label, picture, data, isOpen = false, onToggle }) {
  let shown = null;
  const place = h("div", { hidden: true });
  const button = h("button", { type: "button", class: "plain small", on: { click: () => toggle(!shown) } });
  const element = h(
    "figure",
    null,
    h("figcaption", { class: "spread" }, h("span", null, label), button),
    picture,
    place,
  );

  function toggle(isShown) {
    shown = isShown ? table({ label, ...data() }) : null;
    replace(place, shown);
    place.hidden = !isShown;
    button.textContent = isShown ? "Hide table" : "Show as table";
    button.setAttribute("aria-expanded", String(isShown));
    onToggle?.(isShown);
  }

  element.refresh = () => shown?.update(data().rows);
  toggle(isOpen);
  return element;
}

/** Names of the keys beside their patterns. */
export function legend(keys, swatch = (index) => h("span", { class: `swatch ${fillClass(index)}` })) {
  return h(
    "ul",
    { class: "legend" },
    keys.map((key, index) => h("li", null, swatch(index, key), key.name)),
  );
}
