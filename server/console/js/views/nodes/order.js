/** Orders of many nodes, computed without keeping the page from anything else for long. */

const SLICE = 5;

/**
 * Compares names as people order them: node-9 before node-10.
 * @returns {number}
 */
export function compareNames(a, b) {
  const least = Math.min(a.length, b.length);
  for (let i = 0; i < least; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) {
      return (isDigit(x) && isDigit(y)) ||
        (i > 0 && isDigit(a.charCodeAt(i - 1)) && (isDigit(x) || isDigit(y)))
        ? compareNumbers(a, b, i)
        : x - y;
    }
  }
  return a.length - b.length;
}

function isDigit(code) {
  return code >= 48 && code <= 57;
}

/** Names that differ first inside of a number at `i`: the number with more digits is larger. */
function compareNumbers(a, b, i) {
  let end = i;
  while (isDigit(a.charCodeAt(end)) && isDigit(b.charCodeAt(end))) {
    end += 1;
  }
  return isDigit(a.charCodeAt(end)) - isDigit(b.charCodeAt(end)) || a.charCodeAt(i) - b.charCodeAt(i);
}

/**
 * Sorts rows by name, with breaks.
 * @param {Uint32Array} rows
 * @param {function(number): string} nameOf
 * @param {AbortSignal} signal
 * @returns {Promise<Uint32Array>}
 */
export async function sortByName(rows, nameOf, signal) {
  let from = rows.slice();
  let to = new Uint32Array(rows.length);
  let until = performance.now() + SLICE;
  for (let width = 1; width < rows.length; width *= 2) {
    for (let start = 0; start < rows.length; start += 2 * width) {
      merge(
        from,
        to,
        start,
        Math.min(start + width, rows.length),
        Math.min(start + 2 * width, rows.length),
        nameOf,
      );
      if (performance.now() > until) {
        await nextTask();
        until = performance.now() + SLICE;
        signal.throwIfAborted();
      }
    }
    [from, to] = [to, from];
  }
  return from;
}

function merge(from, to, start, middle, end, nameOf) {
  let left = start;
  let right = middle;
  for (let i = start; i < end; i++) {
    const takesLeft =
      left < middle && (right >= end || compareNames(nameOf(from[left]), nameOf(from[right])) <= 0);
    to[i] = takesLeft ? from[left++] : from[right++];
  }
}

function nextTask() {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/**
 * Orders rows by a number, largest first; equal ones keep their order.
 * @returns {Uint32Array}
 */
export function sortByNumber(rows, numberOf) {
  const n = rows.length;
  const values = Float64Array.from(rows, (row) => {
    const value = numberOf(row);
    return Number.isFinite(value) ? value : -1;
  });
  const most = values.reduce((a, b) => Math.max(a, b), 0) || 1;
  // One number holds the value in 4,095 steps and the position, so that no function compares.
  const keys = values.map((value, i) => Math.round((1 - Math.max(0, value) / most) * 4095) * n + i).sort();
  return Uint32Array.from(keys, (key) => rows[key % n]);
}
