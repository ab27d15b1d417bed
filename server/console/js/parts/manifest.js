// An object as text that can be copied.

import { announce, h } from "../dom.js";
import { safe } from "../format.js";

async function copy(pre) {
  try {
    await navigator.clipboard.writeText(pre.textContent);
    announce("Copied");
  } catch {
    // Without a secure connection a page may not write to the clipboard.
    getSelection().selectAllChildren(pre);
    pre.focus();
    announce("The text is selected: copy it with the keyboard");
  }
}

/** The object as JSON with a button that copies it. */
export function manifest(object) {
  const text = JSON.stringify(object, null, 2).split("\n").map(safe).join("\n");
  const region = { tabindex: "0", role: "region", "aria-label": "Manifest" };
  const pre = h("pre", { class: "codelike scroll", ...region }, text);
  return h("div", null, h("button", { type: "button", on: { click: () => copy(pre) } }, "Copy"), pre);
}
