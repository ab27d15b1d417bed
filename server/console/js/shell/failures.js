/** Failures that no view has caught. */

import { explainError } from "../api.js";
import { h } from "../dom.js";

const MOST = 3;

/** @param {HTMLElement} place */
export function startFailures(place) {
  const show = (error) => {
    const text = explainError(error);
    const isShown = [...place.children].some((child) => child.dataset.text === text);
    if (text === "" || isShown || place.children.length >= MOST) {
      return;
    }
    const close = h(
      "button",
      { type: "button", class: "plain", on: { click: () => notice.remove() } },
      "Close",
    );
    const notice = h(
      "div",
      { class: "notice error spread", dataset: { text } },
      h("span", null, text),
      close,
    );
    place.append(notice);
  };
  window.addEventListener("error", (event) => event.error && show(event.error));
  window.addEventListener("unhandledrejection", (event) => show(event.reason));
  window.addEventListener("hashchange", () => place.replaceChildren());
}
