// Names of nodes: which there are, and a field to enter some.

import { cluster } from "../cluster.js";
import { h, replace } from "../dom.js";
import { safe } from "../format.js";

const MAX_SUGGESTIONS = 30;
/** Keys of `cluster.group`, with their words. */
export const GROUPS = new Map([
  ["zone", "zone"],
  ["pool", "pool"],
  ["rack", "rack"],
  ["instanceType", "instance type"],
]);

let nFields = 0;

/** The nodes of the cluster, as long as it is open. Without an answer of the server there are none. */
export function knownNodes() {
  const opened = cluster.open();
  const rows = () => [...cluster.nodes()];
  return {
    ready: Promise.resolve(cluster.ready).catch(() => undefined),
    close: () => opened.close(),
    /** At most `max` names that have `text` in them, those first that begin with it. */
    matching(text, max = MAX_SUGGESTIONS) {
      const [first, other] = [[], []];
      for (const row of rows()) {
        const name = cluster.name(row);
        const at = name.indexOf(text);
        if (at >= 0) {
          (at === 0 ? first : other).push(name);
        }
        if (first.length >= max) {
          break;
        }
      }
      return [...first, ...other].slice(0, max);
    },
    /** The values of a kind of group, each with its number of nodes. */
    groups(key) {
      const counts = new Map();
      for (const row of rows()) {
        const value = cluster.group(key, row);
        if (value) {
          counts.set(value, (counts.get(value) ?? 0) + 1);
        }
      }
      return [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
    },
    /** The names of the nodes of a group. */
    inGroup(key, value) {
      return rows()
        .filter((row) => cluster.group(key, row) === value)
        .map((row) => cluster.name(row));
    },
  };
}

/** The names in a text, with commas or spaces between them. */
function namesIn(text) {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}

/** Names with commas between them, for an address. */
export function joinNames(names) {
  return names.map((name) => name.replace(/[%,\s]/g, encodeURIComponent)).join(",");
}

/** The names in a part of an address, each once. */
export function splitNames(text) {
  const decode = (part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      // Somebody wrote the address by hand.
      return part;
    }
  };
  return [...new Set((text ?? "").split(",").filter(Boolean).map(decode))];
}

/**
 * A field for one or several names of nodes that suggests those of the cluster.
 * @param {{label: string, nodes: ReturnType<typeof knownNodes>, several?: boolean, value?: string}} options
 */
export function nameField({ label, nodes, several = true, value = "" }) {
  nFields += 1;
  const list = h("datalist", { id: `node-names-${nFields}` });
  const input = h("input", {
    type: "text",
    list: list.id,
    autocomplete: "off",
    spellcheck: "false",
    size: several ? "36" : "26",
    placeholder: several ? "node-1, node-2" : "node-1",
    value,
  });
  const suggest = () => {
    const [, before, last] = /^(.*[\s,])?([^\s,]*)$/s.exec(input.value);
    const prefix = several ? (before ?? "") : "";
    replace(
      list,
      nodes.matching(last).map((name) => h("option", { value: prefix + name }, safe(name))),
    );
  };
  input.addEventListener("input", suggest);
  input.addEventListener("focus", suggest);
  return {
    element: h("label", null, label, input, list),
    input,
    names: () => namesIn(input.value),
    clear() {
      input.value = "";
    },
  };
}
