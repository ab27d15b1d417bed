/** Where each cell of the map is. All lengths are in pixels of the screen. */

const HEADER = 20;
const GAP = 12;
const LEAST_BLOCK = 110;
const SIZES = { least: 3, most: 26 };
/** Least share of the visible area that all cells together take. */
const LEAST_FILLED = 0.5;
const MOST_ZOOMED = 64;
const ZOOM_STEP = 1.5;

/**
 * @param {Object} options
 * @param {Uint32Array} options.rows in the order of the cells of a group
 * @param {function(number): number} options.groupOf number of a row's group
 * @param {Array<string>} options.groupNames
 * @param {number} options.width, options.height of the area, in pixels of the screen
 * @param {number} options.ratio pixels of the screen for each of CSS
 * @param {number} options.zoom 0, 1, …
 * @param {number} options.capacity
 */
export function layout({ rows, groupOf, groupNames, width, height, ratio, zoom, capacity }) {
  const groups = sortIntoGroups(rows, groupOf, groupNames, capacity);
  const fit = (size) => shelves(groups.list, size, width, ratio);
  // Names of many groups can take all the room: then the map scrolls, rather than that cells become specks.
  const least = Math.max(
    SIZES.least,
    Math.floor(Math.sqrt((LEAST_FILLED * width * height) / (rows.length || 1))),
  );
  let size = Math.round(SIZES.most * ratio);
  while (size > least && fit(size).height > height) {
    size -= 1;
  }
  const isLargest = size * ZOOM_STEP ** zoom >= MOST_ZOOMED * ratio;
  size = Math.max(size, Math.min(Math.round(size * ZOOM_STEP ** zoom), Math.round(MOST_ZOOMED * ratio)));
  return { ...groups, ...fit(size), size, isLargest };
}

/** Puts rows into groups: `order` has them group by group, `positions` the place of each row in `order`. */
function sortIntoGroups(rows, groupOf, groupNames, capacity) {
  const sizes = new Uint32Array(groupNames.length);
  for (let i = 0; i < rows.length; i++) {
    sizes[groupOf(rows[i])] += 1;
  }
  const ids = Array.from(groupNames.keys()).filter((id) => sizes[id] > 0);
  const collator = new Intl.Collator("en", { numeric: true });
  // Nodes without a group come last.
  ids.sort(
    (a, b) =>
      (groupNames[a] === "") - (groupNames[b] === "") || collator.compare(groupNames[a], groupNames[b]),
  );
  const next = new Uint32Array(groupNames.length);
  const list = [];
  let start = 0;
  for (const id of ids) {
    next[id] = start;
    list.push({ name: groupNames[id], start, count: sizes[id], x: 0, y: 0, columns: 1, width: 0 });
    start += sizes[id];
  }
  const order = new Uint32Array(rows.length);
  const positions = new Int32Array(capacity).fill(-1);
  for (let i = 0; i < rows.length; i++) {
    const position = next[groupOf(rows[i])]++;
    order[position] = rows[i];
    positions[rows[i]] = position;
  }
  return { list, order, positions };
}

/** Arranges the groups in as many columns as make the whole lowest. */
function shelves(list, size, width, ratio) {
  const most = Math.max(
    1,
    Math.min(list.length, Math.floor((width + GAP * ratio) / ((LEAST_BLOCK + GAP) * ratio))),
  );
  let best = { height: Infinity, nBlocks: 1 };
  for (let nBlocks = 1; nBlocks <= most; nBlocks++) {
    const height = arrange(list, nBlocks, size, width, ratio, false);
    best = height < best.height ? { height, nBlocks } : best;
  }
  arrange(list, best.nBlocks, size, width, ratio, true);
  return { height: best.height };
}

function arrange(list, nBlocks, size, width, ratio, isFinal) {
  const blockWidth = Math.floor((width - (nBlocks - 1) * GAP * ratio) / nBlocks);
  const columns = Math.max(1, Math.floor(blockWidth / size));
  const header = Math.round(HEADER * ratio);
  let y = 0;
  for (let i = 0; i < list.length; i += nBlocks) {
    let tallest = 0;
    for (let k = i; k < Math.min(i + nBlocks, list.length); k++) {
      const block = list[k];
      tallest = Math.max(tallest, Math.ceil(block.count / columns) * size);
      if (isFinal) {
        const x = Math.round((k - i) * (blockWidth + GAP * ratio));
        Object.assign(block, { x, top: y, y: y + header, columns, width: blockWidth });
      }
    }
    y += header + tallest + Math.round(GAP * ratio);
  }
  return y;
}

/** Block of the cell at `position` in `order`. */
export function blockAt(list, position) {
  let low = 0;
  let high = list.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (list[middle].start <= position) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/** Position in `order` of the cell at a point, or -1. */
export function positionAt({ list, size }, x, y) {
  for (const block of list) {
    const column = Math.floor((x - block.x) / size);
    const line = Math.floor((y - block.y) / size);
    if (column >= 0 && column < block.columns && line >= 0) {
      const index = line * block.columns + column;
      if (index < block.count) {
        return block.start + index;
      }
    }
  }
  return -1;
}
