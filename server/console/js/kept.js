/**
 * What the browser keeps for this page. A browser that is set to keep nothing throws: then nothing is kept.
 */

/** @returns {string} the kept text, or "" */
export function kept(storage, key) {
  try {
    return globalThis[storage].getItem(key) ?? "";
  } catch {
    return "";
  }
}

/** Keeps a text; "" removes it. */
export function keep(storage, key, text) {
  try {
    if (text === "") {
      globalThis[storage].removeItem(key);
    } else {
      globalThis[storage].setItem(key, text);
    }
  } catch {
    // It is only asked for again.
  }
}
