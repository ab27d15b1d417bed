// Contents of table cells that keep their shape on narrow screens.

import { h } from "../dom.js";
import { safe } from "../format.js";

/** A short label that stays on one line; `kind` is `good`, `warn` or `bad`, whose sign the class adds. */
export function tag(kind, text) {
  return h("span", { class: `tag ${kind}`, style: { "white-space": "nowrap" } }, safe(text));
}

/** Running text: a column of it does not become so narrow that rows become tall. */
export function prose(...children) {
  return h("div", { style: { "min-width": "15rem" } }, children);
}
