// Values of YAML inside of a line: flows in brackets, quoted texts, plain texts.

/** How deeply values may be nested. */
export const MAX_DEPTH = 100;

/** A text that cannot be read, with its line from 1. */
export class YamlError extends Error {
  constructor(reason, line) {
    super(`line ${line}: ${reason}`);
    this.line = line;
  }
}

/** The value of a text without quotes. */
export function plain(text) {
  if (/^(~|null|Null|NULL)?$/.test(text)) {
    return null;
  }
  if (/^(true|True|TRUE)$/.test(text)) {
    return true;
  }
  if (/^(false|False|FALSE)$/.test(text)) {
    return false;
  }
  if (/^[-+]?(0|[1-9]\d*)$/.test(text) && Number.isSafeInteger(Number(text))) {
    return Number(text);
  }
  if (/^[-+]?(\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][-+]?\d+)$/.test(text)) {
    return Number(text);
  }
  return text;
}

const isQuote = (letter) => letter === '"' || letter === "'";

/** The brackets and quotes that are open in texts that follow one another. */
export class Scan {
  depth = 0;
  quote = "";

  get isClosed() {
    return this.depth <= 0 && !this.quote;
  }

  /** Takes the next text, and returns it without a comment at its end. */
  take(text) {
    for (let at = 0; at < text.length; at += 1) {
      const letter = text[at];
      if (this.quote) {
        if (letter === "\\" && this.quote === '"') {
          at += 1;
        } else if (letter === this.quote) {
          this.quote = "";
        }
      } else if (isQuote(letter) && (at === 0 || /[\s[{,:]/.test(text[at - 1]))) {
        this.quote = letter;
      } else if (letter === "#" && (at === 0 || /\s/.test(text[at - 1]))) {
        return text.slice(0, at).trimEnd();
      } else {
        this.depth += "{[".includes(letter) - "}]".includes(letter);
      }
    }
    return text.trimEnd();
  }
}

/** Reads values in one line of text. */
export class Flow {
  constructor(text, line) {
    this.text = text;
    this.at = 0;
    this.line = line;
  }

  fail(reason) {
    throw new YamlError(reason, this.line);
  }

  skip() {
    while (/\s/.test(this.text[this.at] ?? "")) this.at += 1;
  }

  value(depth) {
    if (depth > MAX_DEPTH) {
      this.fail("nested too deeply");
    }
    this.skip();
    const letter = this.text[this.at];
    if (letter === "{") {
      return this.map(depth);
    }
    if (letter === "[") {
      return this.list(depth);
    }
    if (isQuote(letter ?? "")) {
      return this.quoted(letter);
    }
    const text = /^[^,\[\]{}]*?(?=\s*(:\s|:$|[,\[\]{}]|$))/.exec(this.text.slice(this.at))[0];
    if (/^[&*!|>%@`]/.test(text)) {
      this.fail(`\`${text[0]}\` is not read here`);
    }
    this.at += text.length;
    return plain(text.trim());
  }

  quoted(quote) {
    const whole = quote === "'" ? /^'((?:[^']|'')*)'/ : /^"(?:[^"\\]|\\.)*"/s;
    const found = whole.exec(this.text.slice(this.at)) ?? this.fail("a quote is not closed");
    this.at += found[0].length;
    if (quote === "'") {
      return found[1].replaceAll("''", "'");
    }
    try {
      const byte = (escape, digits) => (digits ? `\\u00${digits}` : escape === "\\e" ? "\\u001b" : escape);
      return JSON.parse(found[0].replaceAll("\t", "\\t").replace(/\\(?:x([\da-fA-F]{2})|.)/gs, byte));
    } catch {
      return this.fail("an escape in this text is not read here");
    }
  }

  list(depth) {
    const list = [];
    this.at += 1;
    for (;;) {
      this.skip();
      if (this.take("]")) {
        return list;
      }
      list.push(this.value(depth + 1));
      this.skip();
      if (!this.take(",") && this.text[this.at] !== "]") {
        this.fail("expected `,` or `]`");
      }
    }
  }

  map(depth) {
    const map = Object.create(null);
    this.at += 1;
    for (;;) {
      this.skip();
      if (this.take("}")) {
        return map;
      }
      const key = this.value(depth + 1);
      this.skip();
      const value = this.take(":") ? this.member(depth) : null;
      put(map, key, value, this.line);
      this.skip();
      if (!this.take(",") && this.text[this.at] !== "}") {
        this.fail("expected `,` or `}`");
      }
    }
  }

  member(depth) {
    this.skip();
    return /[,}]/.test(this.text[this.at] ?? "") ? null : this.value(depth + 1);
  }

  take(letter) {
    if (this.text[this.at] !== letter) {
      return false;
    }
    this.at += 1;
    return true;
  }
}

/** Sets a key of a map, which has it once. */
export function put(map, key, value, line) {
  if (typeof key === "object" && key !== null) {
    throw new YamlError("a key has to be a text", line);
  }
  if (String(key) in map) {
    throw new YamlError(`\`${key}\` is given twice`, line);
  }
  map[String(key)] = value;
}
