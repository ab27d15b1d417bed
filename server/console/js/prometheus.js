/** Reads Prometheus' text format, and what two scrapes say together. */

const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)/;

/**
 * @param {string} text
 * @param {number} at milliseconds
 * @returns {{at: number, metrics: Map<string, Array<{id: string, labels: Map<string, string>, value:
 *   number}>>}}
 */
export function parse(text, at = Date.now()) {
  const metrics = new Map();
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : SAMPLE.exec(line);
    if (match) {
      const [, name, id = "", value] = match;
      const sample = { id, labels: labelsOf(id), value: Number(value.replace("Inf", "Infinity")) };
      metrics.has(name) ? metrics.get(name).push(sample) : metrics.set(name, [sample]);
    }
  }
  return { at, metrics };
}

function labelsOf(id) {
  const labels = new Map();
  for (const [, name, value] of id.matchAll(LABEL)) {
    labels.set(
      name,
      value.replace(/\\(.)/g, (_, character) => (character === "n" ? "\n" : character)),
    );
  }
  return labels;
}

/** Samples of a metric; none if the server does not have it. */
export function samples(scrape, name) {
  return scrape?.metrics.get(name) ?? [];
}

/** Value of a metric, the sum over its labels if it has any; undefined if the server does not have it. */
export function value(scrape, name) {
  const found = samples(scrape, name);
  return found.length > 0 ? found.reduce((sum, sample) => sum + sample.value, 0) : undefined;
}

/** Values of a metric by one of its labels. */
export function valuesBy(scrape, name, label) {
  return group(samples(scrape, name), label);
}

/** Growth a second of a counter between two scrapes, by one of its labels, or with the key "" without one. */
export function ratesBy(before, now, name, label, isWanted = () => true) {
  const seconds = before ? (now.at - before.at) / 1000 : 0;
  const grown = growth(before, now, name).filter(isWanted);
  return new Map([...group(grown, label)].map(([key, sum]) => [key, seconds > 0 ? sum / seconds : NaN]));
}

/** Growth a second of a counter as a whole. */
export function rate(before, now, name, isWanted) {
  return ratesBy(before, now, name, null, isWanted).get("");
}

/**
 * Quantiles of a histogram's samples between two scrapes, by one of its labels, or with the key "".
 * @returns {Map<string, Array<number>>} in the order of `shares`; NaN without samples
 */
export function quantilesBy(before, now, name, label, shares) {
  const buckets = new Map();
  for (const { labels, value: n } of before ? growth(before, now, `${name}_bucket`) : []) {
    const key = label ? (labels.get(label) ?? "") : "";
    const bounds = buckets.get(key) ?? new Map();
    const bound = Number(labels.get("le").replace("Inf", "Infinity"));
    bounds.set(bound, (bounds.get(bound) ?? 0) + n);
    buckets.set(key, bounds);
  }
  return new Map(
    [...buckets].map(([key, bounds]) => {
      const sorted = [...bounds].sort(([a], [b]) => a - b);
      return [key, shares.map((share) => quantile(sorted, share))];
    }),
  );
}

/** As Prometheus does it: within a bucket, samples are taken to be spread evenly. */
function quantile(buckets, share) {
  const total = buckets.at(-1)?.[1] ?? 0;
  if (total === 0) {
    return NaN;
  }
  const wanted = share * total;
  let [low, below] = [0, 0];
  for (const [bound, n] of buckets) {
    if (n >= wanted) {
      return bound === Infinity ? low : low + (bound - low) * ((wanted - below) / (n - below || 1));
    }
    [low, below] = [bound, n];
  }
  return low;
}

/** A counter that has become smaller began anew. */
function growth(before, now, name) {
  const earlier = new Map(samples(before, name).map((sample) => [sample.id, sample.value]));
  return samples(now, name).map((sample) => {
    const start = earlier.get(sample.id) ?? 0;
    return { ...sample, value: sample.value >= start ? sample.value - start : sample.value };
  });
}

function group(found, label) {
  const sums = new Map();
  for (const { labels, value: n } of found) {
    const key = label ? (labels.get(label) ?? "") : "";
    sums.set(key, (sums.get(key) ?? 0) + n);
  }
  return sums;
}
