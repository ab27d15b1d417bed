/** Figures over the last minutes, kept while the page is open. */

const KEPT = 600_000;
/** A longer time without figures is a gap in the line. */
const GAP = 8000;

const series = new Map();

/** Adds a value to the line `name` of a chart. */
export function remember(chart, name, at, value) {
  const lines = series.get(chart) ?? new Map();
  const points = lines.get(name) ?? [];
  if (points.length > 0 && at - points.at(-1)[0] > GAP) {
    points.push([at - 1, NaN]);
  }
  points.push([at, value]);
  while (points[0][0] < at - KEPT) {
    points.shift();
  }
  lines.set(name, points);
  series.set(chart, lines);
}

/**
 * Lines of a chart in the order in which they came, so that each keeps its colour; at most `most`, the
 * largest ones.
 */
export function linesOf(chart, most = 8) {
  const lines = [...(series.get(chart) ?? [])].map(([name, points]) => ({ name, points }));
  const size = ({ points }) => points.reduce((sum, [, value]) => sum + (value || 0), 0);
  const largest = new Set([...lines].sort((a, b) => size(b) - size(a)).slice(0, most));
  return lines.filter((line) => largest.has(line));
}
