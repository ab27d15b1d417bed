/** A share as a small bar with its number. */

import { h } from "../dom.js";
import { percent } from "../format.js";

/**
 * @param {number} share of 1; more than 1 fills the bar and is said by the number
 * @param {{label: string, text?: string}} options `text` replaces the share's number
 * @returns {HTMLElement}
 */
export function meter(share, { label, text = percent(share) }) {
  const shown = Math.max(0, Math.min(1, share || 0));
  return h(
    "span",
    {
      class: share > 1 ? "meter over" : "meter",
      role: "meter",
      "aria-label": label,
      "aria-valuemin": "0",
      "aria-valuemax": "100",
      "aria-valuenow": Math.round(shown * 100),
      "aria-valuetext": text,
    },
    h("span", { class: "meter-bar" }, h("span", { class: "meter-part", style: { "--share": shown } })),
    h("span", { class: "meter-text" }, text),
  );
}
