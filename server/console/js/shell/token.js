/** Asks for the token that the server wants. */

import { h, replace } from "../dom.js";
import { onUnauthorized } from "../http.js";

/** Opens a dialog whenever a call is refused with 401. */
export function startToken() {
  onUnauthorized(ask);
}

const ASKS =
  "The server answers only callers with a token. The role reader is enough to look at everything here.";

function ask(isRefused) {
  const input = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const close = (value) => () => dialog.close(value);
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "token-title" }, "A token is needed"),
    h("p", null, isRefused ? "The server has refused the token. Enter another one." : ASKS),
    h("label", { for: "token" }, "Token"),
    input,
    h(
      "div",
      { class: "row" },
      h("button", { type: "submit", class: "primary" }, "Use token"),
      h("button", { type: "button", on: { click: close("") } }, "Cancel"),
    ),
  );
  const dialog = h("dialog", { "aria-labelledby": "token-title" }, form);
  return new Promise((resolve, reject) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.close("use");
    });
    dialog.addEventListener("close", () => {
      const token = input.value.trim();
      dialog.remove();
      replace(dialog);
      if (dialog.returnValue === "use" && token) {
        resolve(token);
      } else {
        reject(new Error("no token was given"));
      }
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
