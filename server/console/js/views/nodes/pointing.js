/** Pointing at cells of the map, with a pointer or with keys. */

import { blockAt, positionAt } from "./layout.js";

export class Pointing {
  /**
   * @param {Object} options
   * @param {HTMLElement} options.element what scrolls and has the focus
   * @param {HTMLElement} options.content what is scrolled
   * @param {HTMLElement} options.cursor the frame around the cell
   * @param {{layout: ?Object, size: ?Object}} options.state
   */
  constructor({ element, content, cursor, state, onPoint, onOpen, onZoom }) {
    Object.assign(this, { element, content, cursor, state, onPoint, onOpen, onZoom, row: -1 });
    content.addEventListener("pointermove", (event) => this.hover(event));
    content.addEventListener("click", (event) => {
      const row = this.rowUnder(event);
      if (row >= 0) {
        onOpen(row);
      }
    });
    element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    element.addEventListener("keydown", (event) => this.press(event));
  }

  /** To be called when cells have moved. */
  place() {
    const position = this.position();
    this.cursor.hidden = position < 0;
    if (position < 0) {
      return;
    }
    const { ratio } = this.state.size;
    const { x, y } = cellAt(this.state.layout, position);
    this.cursor.style.setProperty("--x", `${x / ratio}px`);
    this.cursor.style.setProperty("--y", `${y / ratio}px`);
    this.cursor.style.setProperty("--size", `${this.state.layout.size / ratio}px`);
  }

  /** Scrolls to the cell at a position. */
  reveal(position) {
    if (position < 0) {
      return;
    }
    const { y } = cellAt(this.state.layout, position);
    const { ratio, height } = this.state.size;
    const top = this.element.scrollTop * ratio;
    if (y < top || y > top + height - this.state.layout.size) {
      this.element.scrollTop = (y - height / 3) / ratio;
    }
  }

  position() {
    return this.row < 0 ? -1 : (this.state.layout?.positions[this.row] ?? -1);
  }

  move(row, isByKey) {
    if (row === this.row) {
      return;
    }
    this.row = row;
    this.place();
    if (isByKey) {
      this.cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    this.onPoint(row, isByKey);
  }

  rowUnder(event) {
    if (!this.state.layout) {
      return -1;
    }
    const box = this.content.getBoundingClientRect();
    const { ratio } = this.state.size;
    const [x, y] = [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
    const position = positionAt(this.state.layout, x, y);
    return position < 0 ? -1 : this.state.layout.order[position];
  }

  hover(event) {
    const row = this.rowUnder(event);
    this.content.classList.toggle("is-over", row >= 0);
    if (row >= 0) {
      this.move(row, false);
    }
  }

  /** The wheel alone scrolls, as everywhere. */
  wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.onZoom(event.deltaY < 0 ? 1 : -1);
    }
  }

  press(event) {
    const { layout } = this.state;
    if (!layout || layout.order.length === 0 || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const at = this.position();
    const next = neighbour(layout, at, event.key);
    if (next !== null) {
      this.move(layout.order[next], true);
    } else if (event.key === "Enter" && at >= 0) {
      this.onOpen(this.row);
    } else if (event.key === "+" || event.key === "-") {
      this.onZoom(event.key === "+" ? 1 : -1);
    } else {
      return;
    }
    event.preventDefault();
  }
}

function cellAt({ list, size }, position) {
  const block = list[blockAt(list, position)];
  const index = position - block.start;
  return {
    x: block.x + (index % block.columns) * size,
    y: block.y + Math.floor(index / block.columns) * size,
  };
}

/** Position to which a key leads, or null for another key. */
function neighbour({ list, order }, at, key) {
  const last = order.length - 1;
  const index = at < 0 ? 0 : blockAt(list, at);
  const block = list[index];
  const isStart = at < 0 && /^(Arrow|Page)/.test(key);
  switch (isStart ? "Home" : key) {
    case "ArrowRight":
      return Math.min(last, at + 1);
    case "ArrowLeft":
      return Math.max(0, at - 1);
    case "ArrowDown":
      return below(list, index, at);
    case "ArrowUp":
      return at - block.columns >= block.start ? at - block.columns : Math.max(0, block.start - 1);
    case "PageDown":
      return list[index + 1]?.start ?? last;
    case "PageUp":
      return at > block.start ? block.start : (list[index - 1]?.start ?? 0);
    case "Home":
      return 0;
    case "End":
      return last;
    default:
      return null;
  }
}

/** The cell a line further down; from the last line of a group the first cell of the next one. */
function below(list, index, at) {
  const { start, count, columns } = list[index];
  if (at + columns < start + count) {
    return at + columns;
  }
  const isLastLine = Math.floor((at - start) / columns) === Math.floor((count - 1) / columns);
  return isLastLine ? (list[index + 1]?.start ?? at) : start + count - 1;
}
