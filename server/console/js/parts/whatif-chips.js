// A list of what a question holds, each entry with a button that leaves it out.

import { announce, h, replace } from "../dom.js";

/**
 * @param {HTMLElement} place gets the focus when an entry is gone
 * @param {Array<{text: string, drop: function(), edit?: function()}>} entries
 * @param {{empty: string, onChange: function()}} options
 */
export function showEntries(place, entries, { empty, onChange }) {
  const leaveOut = (drop) => () => {
    drop();
    announce("Left out");
    onChange();
    place.focus();
  };
  const button = (text, click, label) =>
    h("button", { type: "button", class: "plain small", "aria-label": label, on: { click } }, text);
  const item = ({ text, drop, edit }) => h("li", null, h("span", { class: "row" }, h("span", null, text),
    edit && button("Edit", edit), button("Leave out", leaveOut(drop), `Leave out: ${text}`)));
  const none = h("p", { class: "muted" }, empty);
  replace(place, entries.length === 0 ? none : h("ul", { class: "legend" }, entries.map(item)));
}
