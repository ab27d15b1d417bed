/** Shows the view that the part of the address after `#/` names. */

import { explainError } from "../api.js";
import { h, href, link, replace } from "../dom.js";
import { safe } from "../format.js";

const HOME = "pending";
const VIEWS = new Set([
  "pending",
  "pod",
  "nodes",
  "node",
  "what-if",
  "drain",
  "preemption",
  "decisions",
  "decision",
  "policies",
  "service",
  "find",
]);

let current = null;

/**
 * @param {HTMLElement} main where views are shown
 * @param {function(string)} onRoute told the name of each view before it is shown
 */
export function startRouter(main, onRoute) {
  const show = (isFirst) => {
    const route = parse(location.hash);
    onRoute(route.view);
    enter(main, route);
    if (!isFirst) {
      main.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
  };
  window.addEventListener("hashchange", () => show(false));
  show(true);
}

function parse(hash) {
  const [path, ...rest] = hash.replace(/^#\/?/, "").split("?");
  const query = new URLSearchParams(rest.join("?"));
  try {
    const [view, ...parts] = path
      .split("/")
      .filter((part) => part !== "")
      .map(decodeURIComponent);
    return { view: view ?? HOME, parts, query };
  } catch {
    return { view: "", parts: [], query };
  }
}

async function enter(main, route) {
  leave();
  const visit = { controller: new AbortController(), unmount: null };
  current = visit;
  const root = h("div", { class: "view" }, h("p", { class: "loading" }, "Loading the page"));
  replace(main, root);
  try {
    await mount(root, route, visit);
  } catch (error) {
    if (!visit.controller.signal.aborted) {
      document.title = "Berth";
      replace(
        root,
        failure(error, () => enter(main, route)),
      );
    }
  }
}

function leave() {
  const left = current;
  current = null;
  left?.controller.abort();
  left?.unmount?.();
}

async function mount(root, { view, parts, query }, visit) {
  if (!VIEWS.has(view)) {
    document.title = "No such page · Berth";
    replace(root, h("h1", null, "No such page"), h("p", null, link("Why pods are pending", HOME)));
    return;
  }
  const module = await import(`../views/${view === "what-if" ? "whatif" : view}.js`);
  const { signal } = visit.controller;
  if (signal.aborted) {
    return;
  }
  document.title = [...(parts.length > 0 ? [safe(parts.join("/"))] : []), module.title, "Berth"].join(" · ");
  replace(root);
  const setQuery = (next, { replace: isReplaced = true } = {}) => {
    if (!signal.aborted) {
      const address = href(view, ...parts, { query: next });
      history[isReplaced ? "replaceState" : "pushState"](null, "", address);
    }
  };
  const unmount = await module.mount(root, { parts, query, setQuery, signal });
  if (signal.aborted) {
    unmount?.();
  } else {
    visit.unmount = unmount ?? null;
  }
}

function failure(error, again) {
  return [
    h("h1", null, "This page could not be shown"),
    h("div", { class: "notice error" }, explainError(error)),
    h("p", null, h("button", { type: "button", on: { click: again } }, "Try again")),
  ];
}
