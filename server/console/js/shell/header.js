/** The bar above each view: navigation, search, state of the connection. */

import { events, streamState } from "../api.js";
import { h, href, link, replace } from "../dom.js";

const NAV = [
  ["pending", "Why pending"],
  ["nodes", "Nodes"],
  ["what-if", "What if"],
  ["drain", "Drain"],
  ["preemption", "Preemption"],
  ["decisions", "Decisions"],
  ["policies", "Policies"],
  ["service", "Service"],
];
/** Views that belong to another one's entry. */
const PARENTS = new Map([
  ["pod", "pending"],
  ["node", "nodes"],
  ["decision", "decisions"],
]);
const STATES = new Map([
  ["live", ["●", "live"]],
  ["reconnecting", ["◌", "reconnecting"]],
  ["paused", ["◌", "paused"]],
  ["closed", ["◌", "connecting"]],
]);

/** @returns {function(string)} to be told the name of the view that is shown */
export function startHeader() {
  const entries = NAV.map(([view, text]) => ({ view, element: link(text, view) }));
  replace(
    document.getElementById("nav"),
    h(
      "ul",
      null,
      entries.map(({ element }) => h("li", null, element)),
    ),
  );
  startFind(document.getElementById("find"));
  startConnection(document.getElementById("connection"));
  return (view) => {
    for (const entry of entries) {
      const isCurrent = entry.view === (PARENTS.get(view) ?? view);
      if (isCurrent) {
        entry.element.setAttribute("aria-current", "page");
        entry.element.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else {
        entry.element.removeAttribute("aria-current");
      }
    }
  };
}

function startFind(form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = form.elements.namedItem("q").value.trim();
    const slash = text.indexOf("/");
    if (slash > 0 && slash < text.length - 1) {
      location.hash = href("pod", text.slice(0, slash), text.slice(slash + 1));
    } else if (text !== "") {
      location.hash = href("find", { query: { q: text } });
    }
  });
}

function startConnection(element) {
  streamState((state) => {
    const [sign, text] = STATES.get(state);
    element.dataset.state = state;
    replace(element, h("span", { "aria-hidden": "true" }, sign), ` ${text}`);
  });
  // Without a subscriber there is no stream to tell the state of.
  events({});
}
