/**
 * Paints cells into pixels of its own, and puts what has changed on the canvas, a few milliseconds a frame.
 * Copying blocks of pixels costs the same in every browser and on every graphics card; drawing 50,000
 * rectangles does not.
 */

const DRAWING = 6;
const PUTTING = 4;
const BAND = 64;
const REMEMBERED = 5000;

export class Painter {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
    this.frames = { n: 0, at: new Float64Array(512), took: new Float64Array(512) };
    this.request = 0;
    this.changed = { queue: new Uint32Array(0), n: 0 };
    this.report = setInterval(() => this.tellFrames(), 1000);
  }

  stop() {
    clearInterval(this.report);
    cancelAnimationFrame(this.request);
    this.scene = null;
  }

  /** Size of the canvas in pixels of the screen. */
  resize(width, height) {
    Object.assign(this.canvas, { width, height });
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    const n = Math.ceil(height / BAND);
    this.bands = { left: new Int32Array(n), right: new Int32Array(n), next: 0 };
  }

  /**
   * What to paint: cells of a layout, with tiles for the look of each row, from the line `top` on.
   * @param {{layout: Object, tiles: Object, lookOf: function(number): number, top: number, capacity: number}}
   *   scene
   */
  show(scene) {
    this.scene = scene;
    if (this.changed.queue.length < scene.capacity) {
      this.changed.queue = new Uint32Array(scene.capacity);
      this.isQueued = new Uint8Array(scene.capacity);
      this.looks = new Uint16Array(scene.capacity);
    }
    this.redraw();
  }

  /** Paints everything again, from another line on. */
  redraw(top = this.scene.top) {
    this.scene.top = top;
    this.pass = { block: 0, index: 0, isCleared: false };
    this.wake();
  }

  /** Paints these rows again, if they look different now. */
  refresh(rows) {
    const { queue } = this.changed;
    for (let i = 0; i < rows.length; i++) {
      if (rows[i] < queue.length && !this.isQueued[rows[i]]) {
        this.isQueued[rows[i]] = 1;
        queue[this.changed.n++] = rows[i];
      }
    }
    this.wake();
  }

  /** Paints at once, before the browser shows an empty canvas. */
  paintNow() {
    if (this.scene) {
      cancelAnimationFrame(this.request);
      this.frame();
    }
  }

  wake() {
    if (this.scene && this.request === 0) {
      this.request = requestAnimationFrame(() => this.frame());
    }
  }

  frame() {
    const start = performance.now();
    this.request = 0;
    const isDrawn = this.drawAll(start + DRAWING) && this.drawChanged(start + DRAWING);
    const isPut = this.put(Math.max(performance.now(), start + DRAWING) + PUTTING);
    if (!isDrawn || !isPut) {
      this.wake();
    }
    const slot = this.frames.n++ % this.frames.at.length;
    this.frames.at[slot] = start;
    this.frames.took[slot] = performance.now() - start;
  }

  /** Draws the visible cells; returns whether all are there. */
  drawAll(until) {
    const { pass, scene } = this;
    if (!pass) {
      return true;
    }
    if (!pass.isCleared) {
      pass.isCleared = true;
      this.pixels.fill(scene.tiles.page);
      this.touchAll();
    }
    const { list, size, order } = scene.layout;
    for (; pass.block < list.length; pass.block++, pass.index = 0) {
      const block = list[pass.block];
      const firstLine = Math.max(0, Math.floor((scene.top - block.y) / size));
      const lastLine = Math.ceil((scene.top + this.canvas.height - block.y) / size);
      const end = Math.min(block.count, Math.max(0, lastLine) * block.columns);
      pass.index = Math.max(pass.index, firstLine * block.columns);
      for (; pass.index < end; pass.index++) {
        this.drawCell(order[block.start + pass.index], block, pass.index, scene);
        if ((pass.index & 255) === 255 && performance.now() > until) {
          pass.index += 1;
          return false;
        }
      }
    }
    this.pass = null;
    return true;
  }

  drawChanged(until) {
    const { changed, scene } = this;
    const { positions, list } = scene.layout;
    while (changed.n > 0) {
      const row = changed.queue[--changed.n];
      this.isQueued[row] = 0;
      const position = positions[row] ?? -1;
      if (position >= 0 && this.looks[row] !== scene.lookOf(row)) {
        const block = list[scene.blockOf(position)];
        this.drawCell(row, block, position - block.start, scene);
      }
      if ((changed.n & 63) === 0 && performance.now() > until) {
        return changed.n === 0;
      }
    }
    return true;
  }

  drawCell(row, block, index, { layout, tiles, lookOf, top }) {
    const look = lookOf(row);
    this.looks[row] = look;
    const { size } = layout;
    const x = block.x + (index % block.columns) * size;
    const y = block.y + Math.floor(index / block.columns) * size - top;
    const tile = tiles.of(look);
    const { width, height } = this.canvas;
    const end = Math.min(size, height - y);
    const columns = Math.min(size, width - x);
    for (let line = Math.max(0, -y); line < end; line++) {
      const to = (y + line) * width + x;
      const from = line * size;
      for (let k = 0; k < columns; k++) {
        this.pixels[to + k] = tile[from + k];
      }
    }
    if (end > 0 && y + size > 0) {
      this.touch(x, Math.max(0, y), x + columns, y + end - 1);
    }
  }

  touch(left, top, right, bottom) {
    const { bands } = this;
    for (let band = Math.floor(top / BAND); band <= Math.floor(bottom / BAND); band++) {
      const isClean = bands.right[band] === 0;
      bands.left[band] = isClean ? left : Math.min(bands.left[band], left);
      bands.right[band] = Math.max(bands.right[band], right);
    }
  }

  touchAll() {
    this.bands.left.fill(0);
    this.bands.right.fill(this.canvas.width);
  }

  /** Puts changed bands on the canvas, going on where the last frame ended; returns whether all are there. */
  put(until) {
    const { bands } = this;
    const n = bands.right.length;
    for (let i = 0; i < n; i++) {
      const band = (bands.next + i) % n;
      if (bands.right[band] === 0) {
        continue;
      }
      if (performance.now() > until) {
        bands.next = band;
        return false;
      }
      const width = bands.right[band] - bands.left[band];
      this.context.putImageData(this.image, 0, 0, bands.left[band], band * BAND, width, BAND);
      bands.right[band] = 0;
    }
    return true;
  }

  /** The number of frames, and the longest of the last seconds, for who measures. */
  tellFrames() {
    const { n, at, took } = this.frames;
    let longest = 0;
    for (let i = 0; i < Math.min(n, at.length); i++) {
      longest = at[i] > performance.now() - REMEMBERED ? Math.max(longest, took[i]) : longest;
    }
    this.canvas.dataset.frames = String(n);
    this.canvas.dataset.longestFrame = longest.toFixed(1);
  }
}
