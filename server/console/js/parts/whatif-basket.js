// The basket of changes of a what-if question, and its form in the query of an address.

import { joinNames, splitNames } from "./whatif-names.js";
import { pack, unpack } from "./whatif-pack.js";

/** More copies are refused at once: this is the server's default limit on the changes of a session. */
export const MAX_COPIES = 100_000;

/**
 * @typedef {Object} Basket
 * @property {Array<{name: string, n: number}>} add copies of nodes
 * @property {string[]} remove nodes that go, with their pods
 * @property {string[]} cordon nodes that take no more pods
 * @property {Array<{namespace: string, name: string, n: number}>} grow more pods like one of the cluster
 * @property {string} manifest objects that exist as well, as YAML or JSON
 *
 * Another kind of change, such as a policy once the API takes one for a session, is one more field here, one
 * more kind in `whatif-form.js` and a step in `whatif-run.js`.
 */

/** @returns {Basket} */
export function emptyBasket() {
  return { add: [], remove: [], cordon: [], grow: [], manifest: "" };
}

/** Number of the changes; objects of a text count as one. */
export function size(basket) {
  const { add, remove, cordon, grow, manifest } = basket;
  return add.length + remove.length + cordon.length + grow.length + (manifest.trim() ? 1 : 0);
}

const counted = (items) => items.map(({ key, n }) => `${joinNames([key])}*${n}`).join(",");

function uncounted(text) {
  return (text ?? "")
    .split(",")
    .filter(Boolean)
    .flatMap((part) => {
      const [, name, n] = /^(.*?)(?:\*(\d+))?$/s.exec(part);
      const number = Math.min(Number(n ?? 1), MAX_COPIES);
      return number > 0 ? splitNames(name).map((key) => ({ key, n: number })) : [];
    });
}

/**
 * The query of an address that has the basket.
 * @param {Basket} basket
 */
export async function toQuery(basket) {
  const keyOf = ({ namespace, name }) => `${namespace}/${name}`;
  return {
    add: counted(basket.add.map(({ name, n }) => ({ key: name, n }))),
    remove: joinNames(basket.remove),
    cordon: joinNames(basket.cordon),
    grow: counted(basket.grow.map((entry) => ({ key: keyOf(entry), n: entry.n }))),
    manifest: await pack(basket.manifest),
  };
}

/**
 * The basket of an address.
 * @param {URLSearchParams} query
 * @returns {Promise<Basket>}
 */
export async function ofQuery(query) {
  const grow = uncounted(query.get("grow")).flatMap(({ key, n }) => {
    const [namespace, name] = key.includes("/") ? key.split("/") : ["default", key];
    return name ? [{ namespace, name, n }] : [];
  });
  return {
    add: uncounted(query.get("add")).map(({ key, n }) => ({ name: key, n })),
    remove: splitNames(query.get("remove")),
    cordon: splitNames(query.get("cordon")),
    grow,
    manifest: await unpack(query.get("manifest")),
  };
}
