/**
 * Pictures of numbers. Each has a table with the same data, and no colour stands alone: a pattern or dash is
 * beside it.
 */

export { bars } from "./chart/bars.js";
export { figure } from "./chart/figure.js";
export { lines } from "./chart/lines.js";
export { meter } from "./chart/meter.js";
export { timeline } from "./chart/timeline.js";
