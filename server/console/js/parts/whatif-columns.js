// Columns of tables by what is in them: a text, a number, a pod, a node.

import { count, safe } from "../format.js";
import { prose } from "./cells.js";
import { nodeLink, podLink, podName, withCode } from "./podwords.js";

/** A column whose cells are made by `cell`. */
export const column = (title, cell, sort, more) => ({ key: title, title, cell, sort, ...more });

/** A column of short texts; a dash for none. */
export const texts = (title, text) => column(title, (row) => safe(text(row) || "-"), text);

/** A column of sentences, in which parts between backticks are code. */
export const sentences = (title, text) =>
  column(title, (row) => (text(row) ? prose(withCode(text(row))) : "-"), text);

/** A column of numbers. */
export const numbers = (title, number, show = count) =>
  column(title, (row) => show(number(row)), number, { numeric: true });

/** A column of links to nodes. */
export const nodes = (title, name) => column(title, (row) => nodeLink(name(row)), (row) => name(row) ?? "");

/** A column of links to pods. */
export const pods = (title, key) => column(title, (row) => podLink(key(row)), (row) => podName(key(row)));
