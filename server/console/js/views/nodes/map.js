/** The map of all nodes: a cell for each, in groups. */

import { announce, h } from "../../dom.js";
import { cluster } from "../../cluster.js";
import { plural } from "../../format.js";
import { blockAt, layout } from "./layout.js";
import { drawLabels } from "./labels.js";
import { figureOf } from "./figures.js";
import { filterBits, NOT_READY } from "./flags.js";
import { MARK, tiles } from "./tiles.js";
import { Painter } from "./painter.js";
import { Pointing } from "./pointing.js";
import { sortByName, sortByNumber } from "./order.js";

const RELAYOUT_AFTER = 1000;
const REORDER_AFTER = 10_000;
const LABEL =
  "Map of nodes: arrow keys move, Enter opens a node, plus and minus change the size of the cells";

export class NodeMap {
  /**
   * @param {Object} options
   * @param {{color: string, group: string, sort: string, q: string, only: Set<string>, zoom: number}}
   *   options.settings
   * @param {function(number, boolean)} options.onPoint gets the row that is pointed at, and whether by
   *   keyboard
   * @param {function(number)} options.onOpen gets the row that is chosen
   * @param {function(number)} options.onZoom gets steps, 1 or -1
   * @param {AbortSignal} options.signal
   */
  constructor({ settings, onPoint, onOpen, onZoom, signal }) {
    Object.assign(this, { settings, signal, matches: null, size: null, layout: null, sorted: null });
    Object.assign(this, { ranked: cluster.nodes(), rankedShape: 0, drawnAt: 0, later: 0 });
    this.canvas = h("canvas", { role: "img", dataset: { frames: "0", longestFrame: "0" } });
    this.labels = h("div", { class: "map-labels", "aria-hidden": "true" });
    const cursor = h("div", { class: "map-cursor", hidden: true });
    this.content = h("div", { class: "map-content" }, this.canvas, this.labels, cursor);
    this.element = h(
      "div",
      {
        class: "map",
        tabindex: "0",
        role: "application",
        "aria-label": LABEL,
        "aria-roledescription": "map of nodes",
      },
      this.content,
    );
    this.painter = new Painter(this.canvas);
    this.pointer = new Pointing({
      element: this.element,
      content: this.content,
      cursor,
      state: this,
      onPoint,
      onOpen,
      onZoom,
    });
    this.watch();
    this.rank();
  }

  /** Shows other settings; the number of nodes that a search finds is announced. */
  update(next) {
    const before = this.settings;
    const keepsPlaces =
      next.sort === "name" &&
      ["group", "sort", "zoom"].every((key) => next[key] === before[key]) &&
      filterBits(next.only) === filterBits(before.only);
    this.settings = next;
    if (next.q !== before.q) {
      this.search();
      announce(next.q ? `${plural(this.hits(), "node")} found` : "");
    }
    if (keepsPlaces) {
      this.repaint();
    } else {
      this.relayout();
    }
    if (next.q !== before.q && this.hits() > 0) {
      this.pointer.reveal(this.layout?.order.findIndex((row) => this.matches[row]) ?? -1);
    }
  }

  /** Whether cells cannot become larger. */
  isLargest() {
    return Boolean(this.layout?.isLargest);
  }

  /** Number of nodes that the search finds. */
  hits() {
    return this.matches?.reduce((n, one) => n + one, 0) ?? 0;
  }

  watch() {
    const resized = new ResizeObserver(([{ contentRect }]) => this.resize(contentRect));
    resized.observe(this.element);
    this.element.addEventListener("scroll", () => this.layout && this.painter.redraw(this.top()), {
      passive: true,
    });
    document.addEventListener("themechange", () => this.repaint(), { signal: this.signal });
    const off = cluster.on("change", (rows) => this.change(rows));
    this.signal.addEventListener("abort", () => {
      off();
      resized.disconnect();
      this.painter.stop();
      clearTimeout(this.later);
    });
  }

  resize(box) {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.floor(box.width * ratio);
    const height = Math.floor(box.height * ratio);
    if (width === 0 || height === 0 || (width === this.size?.width && height === this.size.height)) {
      return;
    }
    this.size = { width, height, ratio };
    this.painter.resize(width, height);
    this.content.style.setProperty("--width", `${width / ratio}px`);
    this.content.style.setProperty("--view", `${height / ratio}px`);
    this.relayout();
    this.painter.paintNow();
  }

  change(rows) {
    if (rows === null) {
      this.rank();
      return;
    }
    this.painter.refresh(rows);
    const isOther = cluster.shape !== this.rankedShape;
    const isOld = this.settings.sort !== "name" && performance.now() - this.drawnAt > REORDER_AFTER;
    if (this.later === 0 && (isOther || isOld || filterBits(this.settings.only))) {
      this.later = setTimeout(() => (isOther ? this.rank() : this.relayout()), RELAYOUT_AFTER);
    }
  }

  /** Orders the nodes by name, then places them. */
  async rank() {
    const shape = cluster.shape;
    const rows = await sortByName(cluster.nodes(), cluster.name, this.signal).catch(() => null);
    if (rows && !this.signal.aborted) {
      Object.assign(this, { ranked: rows, rankedShape: shape });
      this.search();
      this.relayout();
    }
  }

  search() {
    const text = this.settings.q.toLowerCase();
    this.matches = text === "" ? null : new Uint8Array(cluster.capacity);
    for (const row of text === "" ? [] : cluster.nodes()) {
      this.matches[row] = cluster.name(row).toLowerCase().includes(text) ? 1 : 0;
    }
  }

  relayout() {
    clearTimeout(this.later);
    this.later = 0;
    if (!this.size || this.signal.aborted) {
      return;
    }
    const groups = cluster.groups(this.settings.group);
    this.drawnAt = performance.now();
    this.layout = layout({
      ...this.size,
      rows: this.rows(),
      groupOf: (row) => groups?.ids[row] ?? 0,
      groupNames: groups?.names ?? [""],
      zoom: this.settings.zoom,
      capacity: cluster.capacity,
    });
    this.content.style.setProperty("--height", `${Math.max(this.layout.height / this.size.ratio, 1)}px`);
    drawLabels(this.labels, this.layout.list, this.size.ratio);
    this.repaint();
    this.pointer.place();
  }

  /** Rows that the filters leave, in the order of the settings. */
  rows() {
    const { only, sort, color } = this.settings;
    const bits = filterBits(only);
    const rows = bits ? this.ranked.filter((row) => cluster.flags(row) & bits) : this.ranked;
    if (sort === "name") {
      return rows;
    }
    const figure = figureOf(color);
    const id = [figure.key, sort, bits, this.rankedShape, rows.length].join();
    if (this.sorted?.id !== id || performance.now() - this.sorted.at > REORDER_AFTER) {
      const by = sort === "share" ? figure.share : figure.free;
      this.sorted = { id, at: performance.now(), rows: sortByNumber(rows, by) };
    }
    return this.sorted.rows;
  }

  repaint() {
    if (!this.layout) {
      return;
    }
    const figure = figureOf(this.settings.color);
    const { list, size, order } = this.layout;
    this.painter.show({
      layout: this.layout,
      tiles: tiles(figure, size),
      lookOf: this.looks(figure),
      top: this.top(),
      capacity: cluster.capacity,
      blockOf: (position) => blockAt(list, position),
    });
    this.canvas.setAttribute(
      "aria-label",
      `Map of ${plural(order.length, "node")} in ${plural(list.length, "group")}, ` +
        `coloured by ${figure.name}. The same is in the table.`,
    );
  }

  looks(figure) {
    return (row) => {
      const flags = cluster.flags(row);
      const marks =
        (flags & 1 ? MARK.cordoned : 0) | (flags & NOT_READY && !figure.states ? MARK.notReady : 0);
      const { matches } = this;
      return figure.step(row) | marks | (matches === null ? 0 : matches[row] ? MARK.match : MARK.dimmed);
    };
  }

  /** The line of the map that is at the top, in pixels of the screen. */
  top() {
    return Math.round(this.element.scrollTop * this.size.ratio);
  }
}
