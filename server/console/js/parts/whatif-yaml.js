// Reads YAML as people write it for kubectl: blocks, flows, quoted and block texts, several documents.
// Anchors, aliases and tags are refused, so that nothing is read as something else.

import { Flow, MAX_DEPTH, Scan, YamlError, plain, put } from "./whatif-yaml-flow.js";

const indentOf = (line) => line.length - line.trimStart().length;
const isItem = (text) => text === "-" || text.startsWith("- ");

/** The key that a line begins with, and the rest behind its colon; null for a line without. */
function keyOf(text, line) {
  if (text[0] === '"' || text[0] === "'") {
    const flow = new Flow(text, line);
    const key = flow.quoted(text[0]);
    const rest = /^\s*:(?=\s|$)/.exec(text.slice(flow.at));
    return rest && { key, rest: text.slice(flow.at + rest[0].length).trim() };
  }
  if (/^[{[]/.test(text)) {
    return null;
  }
  const at = text.search(/:(\s|$)/);
  return at < 0 ? null : { key: text.slice(0, at).trimEnd(), rest: text.slice(at + 1).trim() };
}

/** Lines joined to paragraphs; lines that are indented stay as they are. */
function folded(lines) {
  let text = lines[0] ?? "";
  for (let at = 1; at < lines.length; at += 1) {
    const [before, line] = [lines[at - 1], lines[at]];
    const isKept = /^\s/.test(line) || /^\s/.test(before);
    if (line && before && !isKept) {
      text += ` ${line}`;
    } else {
      // An empty line between two paragraphs is one line break, and so is each further one.
      text += line && !before && !isKept ? line : `\n${line}`;
    }
  }
  return text;
}

/** One document, given as its lines. */
class Document {
  constructor(lines, first) {
    this.lines = lines;
    this.first = first;
    this.at = 0;
  }

  get line() {
    return this.first + this.at + 1;
  }

  fail(reason) {
    throw new YamlError(reason, this.line);
  }

  /** Moves to the next line with content; returns its indentation, -1 at the end. */
  next() {
    for (; this.at < this.lines.length; this.at += 1) {
      const line = this.lines[this.at];
      if (/^\s*(#|$)/.test(line)) {
        continue;
      }
      if (/^ *\t/.test(line)) {
        this.fail("a tab cannot indent");
      }
      return indentOf(line);
    }
    return -1;
  }

  text() {
    return new Scan().take(this.lines[this.at].trim());
  }

  whole() {
    const indent = this.next();
    if (indent < 0) {
      return null;
    }
    const value = this.node(indent, 0);
    if (this.next() >= 0) {
      this.fail("this line does not belong to what is before it");
    }
    return value;
  }

  node(indent, depth) {
    if (depth > MAX_DEPTH) {
      this.fail("nested too deeply");
    }
    const text = this.text();
    if (isItem(text)) {
      return this.list(indent, depth);
    }
    if (keyOf(text, this.line)) {
      return this.map(indent, depth);
    }
    return this.value(text, indent - 1, depth);
  }

  list(indent, depth) {
    const list = [];
    while (this.next() === indent && isItem(this.text())) {
      const line = this.lines[this.at];
      const rest = line.slice(indent + 1);
      if (!new Scan().take(rest.trim())) {
        this.at += 1;
        const inner = this.next();
        list.push(inner > indent ? this.node(inner, depth + 1) : null);
        continue;
      }
      // The rest of the line is a node by itself, indented as far as it stands.
      this.lines[this.at] = `${" ".repeat(indent + 1)}${rest}`;
      list.push(this.item(indentOf(this.lines[this.at]), indent, depth + 1));
    }
    return list;
  }

  item(inner, indent, depth) {
    const text = this.text();
    if (isItem(text) || keyOf(text, this.line)) {
      return this.node(inner, depth);
    }
    return this.value(text, indent, depth);
  }

  map(indent, depth) {
    const map = Object.create(null);
    while (this.next() === indent) {
      const line = this.line;
      const found = keyOf(this.text(), line);
      if (!found) {
        this.fail("expected `key: value`");
      }
      if (/^[&*!?]/.test(found.key) || found.key === "<<") {
        this.fail(`\`${found.key}\`: anchors and tags are not read here`);
      }
      put(map, found.key, this.member(found.rest, indent, depth), line);
    }
    if (this.next() > indent) {
      this.fail("indented differently from the lines before it");
    }
    return map;
  }

  member(rest, indent, depth) {
    if (rest) {
      return this.value(rest, indent, depth);
    }
    this.at += 1;
    const inner = this.next();
    // A list may be indented like the key that it belongs to.
    if (inner > indent || (inner === indent && isItem(this.text()))) {
      return this.node(inner, depth + 1);
    }
    return null;
  }

  /** A value that begins with `text` in this line, and may go on in lines indented more than `indent`. */
  value(text, indent, depth) {
    const line = this.line;
    if (/^[&*!%@`]|^\?\s/.test(text)) {
      this.fail(`\`${text[0]}\`: anchors, aliases and tags are not read here`);
    }
    if (/^[|>]/.test(text)) {
      return this.block(text, indent);
    }
    this.at += 1;
    return /^[[{"']/.test(text) ? this.flow(text, line, depth) : this.plain(text, indent, line);
  }

  /** A value in brackets or quotes, which goes on until they are closed. */
  flow(text, line, depth) {
    const scan = new Scan();
    let whole = scan.take(text);
    for (; !scan.isClosed && this.next() >= 0; this.at += 1) {
      whole += ` ${scan.take(this.lines[this.at].trim())}`;
    }
    const flow = new Flow(whole, line);
    const value = flow.value(depth);
    flow.skip();
    if (flow.at < whole.length) {
      flow.fail("something follows the end of the value");
    }
    return value;
  }

  /** A text without quotes, which goes on in lines that are indented more. */
  plain(text, indent, line) {
    const parts = [text];
    for (; this.next() > indent; this.at += 1) {
      parts.push(this.text());
    }
    const wrong = parts.find((part) => isItem(part) || /:(\s|$)/.test(part));
    if (wrong !== undefined) {
      throw new YamlError(`a value cannot hold \`${wrong.slice(0, 40)}\``, line);
    }
    return plain(parts.join(" "));
  }

  /** A block text: `|` keeps line breaks, `>` joins lines. */
  block(head, indent) {
    if (!/^[|>]([1-9][-+]?|[-+][1-9]?)?$/.test(head)) {
      this.fail(`\`${head}\` begins no block of text`);
    }
    this.at += 1;
    const lines = [];
    let inner = Number(/[1-9]/.exec(head)?.[0] ?? 0) + (/[1-9]/.test(head) ? Math.max(indent, 0) : 0);
    for (; this.at < this.lines.length; this.at += 1) {
      const line = this.lines[this.at];
      if (line.trim() && indentOf(line) <= indent) {
        break;
      }
      if (line.trim() && !inner) {
        inner = indentOf(line);
      }
      lines.push(line);
    }
    const body = lines.map((line) => line.slice(inner));
    const text = head[0] === "|" ? body.join("\n") : folded(body);
    if (head.includes("+")) {
      return `${text}\n`;
    }
    const trimmed = text.replace(/\n+$/, "");
    return head.includes("-") || !trimmed ? trimmed : `${trimmed}\n`;
  }
}

/**
 * The documents of a text in YAML or JSON, without empty ones.
 * @param {string} text
 * @returns {unknown[]}
 * @throws {YamlError}
 */
export function parseDocuments(text) {
  if (/^\s*[{[]/.test(text)) {
    try {
      return [JSON.parse(text)];
    } catch {
      // Several values, or YAML that begins like JSON.
    }
  }
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/);
  const documents = [];
  let begin = 0;
  for (let at = 0; at <= lines.length; at += 1) {
    if (at < lines.length && !/^(---|\.\.\.)(\s|$)/.test(lines[at])) {
      continue;
    }
    const document = new Document(lines.slice(begin, at), begin).whole();
    if (document !== null) {
      documents.push(document);
    }
    // What follows `---` in its line belongs to the document.
    if (at < lines.length) {
      lines[at] = lines[at].startsWith("---") ? `   ${lines[at].slice(3)}` : "";
    }
    begin = at;
  }
  return documents;
}
