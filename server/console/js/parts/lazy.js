// Parts of a page that are built late, or only when what they show has changed.

import { h, replace } from "../dom.js";

/** `details` whose content is built when it is opened for the first time. */
export function lazyDetails(summary, build, { open = false } = {}) {
  const body = h("div");
  const element = h("details", { open }, h("summary", null, summary), body);
  let isBuilt = false;
  const fill = () => {
    if (!isBuilt && element.open) {
      isBuilt = true;
      replace(body, build());
    }
  };
  element.addEventListener("toggle", fill);
  fill();
  return element;
}

/**
 * An element that is drawn anew only when its data has changed: what a reader has focused or opened stays.
 * Data has to be plain JSON.
 */
export function slot(tag, props, draw) {
  const element = h(tag, props);
  let drawn = "";
  return {
    element,
    update(data) {
      const text = JSON.stringify(data);
      if (text !== drawn) {
        drawn = text;
        replace(element, draw(data));
      }
    },
  };
}

/** The first `n` items, and a button that shows all of them. */
export function firstOf(items, n, draw, noun) {
  const list = h("ul", null, items.slice(0, n).map((item) => h("li", null, draw(item))));
  if (items.length <= n) {
    return list;
  }
  const more = h("button", { type: "button", class: "plain" }, `Show ${items.length - n} more ${noun}`);
  more.addEventListener("click", () => {
    const rest = items.slice(n).map((item) => h("li", { tabindex: "-1" }, draw(item)));
    list.append(...rest);
    more.remove();
    rest[0].focus();
  });
  return h("div", null, list, more);
}
