// What a view shows while it waits, and when a call fails.

import { h, replace } from "../dom.js";
import { explainError } from "../api.js";

/** `Loading ...` */
export function loading(text) {
  return h("p", { class: "loading" }, text);
}

/** An error with what can be done; `again` is called by a button. */
export function failure(error, again, hint) {
  const button = again && h("button", { type: "button", on: { click: again } }, "Try again");
  return h(
    "div",
    { class: "notice error", role: "alert" },
    h("p", null, explainError(error)),
    hint && h("p", null, hint),
    button,
  );
}

/** Whether a call ended because its view did. */
export function isAborted(error) {
  return error?.name === "AbortError";
}

/**
 * Shows that `slot` waits, calls `load`, and shows what `draw` makes of the answer, or the error.
 * Returns the answer; undefined if there is none.
 */
export async function fill(slot, { wait, load, draw, hint }) {
  replace(slot, loading(wait));
  try {
    const answer = await load();
    replace(slot, draw(answer));
    return answer;
  } catch (error) {
    if (!isAborted(error)) {
      replace(slot, failure(error, () => fill(slot, { wait, load, draw, hint }), hint?.(error)));
    }
    return undefined;
  }
}
