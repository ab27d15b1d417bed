/**
 * Elements without HTML text: what comes from the cluster only ever becomes a text node or an attribute's
 * value.
 */

const SVG = "http://www.w3.org/2000/svg";
/** Addresses that a link may have: parts of this page, paths of this server, and files made in this page. */
const ALLOWED_HREF = /^(#|\/(?!\/)|blob:)/;

/**
 * Creates an HTML element.
 * @param {string} tag
 * @param {?Object} props `class`, `dataset`, `on` (listeners), `style` (custom properties and others);
 *   booleans set or omit an attribute, everything else is set as one
 * @param {...*} children nodes, strings and numbers; null, undefined and false are skipped, arrays flattened
 * @returns {HTMLElement}
 */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/**
 * Creates an SVG element, as `h` does for HTML.
 * @returns {SVGElement}
 */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/**
 * Address of a view; the last part may be `{query: {key: value} | URLSearchParams}`.
 * @param {...*} parts
 * @returns {string}
 */
export function href(...parts) {
  const last = parts.at(-1);
  const query = last !== null && typeof last === "object" ? last.query : null;
  const path = (query ? parts.slice(0, -1) : parts).map((part) => encodeURIComponent(part)).join("/");
  const text = query ? queryText(query) : "";
  return `#/${path}${text && `?${text}`}`;
}

/**
 * Link to a view.
 * @param {string|Node} text
 * @param {...*} parts see `href`
 * @returns {HTMLAnchorElement}
 */
export function link(text, ...parts) {
  return h("a", { href: href(...parts) }, text);
}

/** Replaces all children of an element. */
export function replace(parent, ...children) {
  parent.replaceChildren(...nodes(children));
}

/** Tells users of screen readers what an action has changed. */
export function announce(text) {
  const region = document.getElementById("announcements");
  region.textContent = "";
  // An unchanged text is not read again: the empty one has to be there for a moment.
  setTimeout(() => (region.textContent = text), 50);
}

function queryText(query) {
  const entries = query instanceof URLSearchParams ? query : Object.entries(query);
  const pairs = new URLSearchParams();
  for (const [key, value] of entries) {
    if (value !== null && value !== undefined && value !== "" && value !== false) {
      pairs.append(key, value);
    }
  }
  return pairs.toString();
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    setProp(element, name, value);
  }
  element.append(...nodes(children));
  return element;
}

function setProp(element, name, value) {
  if (value === null || value === undefined || value === false) {
    return;
  }
  if (name === "on") {
    for (const [event, listener] of Object.entries(value)) {
      element.addEventListener(event, listener);
    }
  } else if (name === "style") {
    for (const [property, text] of Object.entries(value)) {
      element.style.setProperty(property, String(text));
    }
  } else if (name === "dataset") {
    Object.assign(element.dataset, value);
  } else if (/^on/i.test(name) || /^(src|srcdoc|srcset|action|formaction)$/i.test(name)) {
    throw new Error(`the attribute ${name} is not allowed`);
  } else if (name === "href" && !ALLOWED_HREF.test(value)) {
    throw new Error("a link has to stay in this page");
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}
