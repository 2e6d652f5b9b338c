// One view of a run: its axes, its layers, and what lies near the pointer.

import { Axes, limitsOf } from "explorer/axes";
import { row } from "explorer/message";
import { CanvasPen, SvgPen } from "explorer/pen";

/**
 * @typedef {import("./types").Pair} Pair @typedef {import("./types").View} View @typedef {import("./types").Layer} Layer
 * @typedef {import("./types").Pen} Pen @typedef {import("./types").Placed} Placed @typedef {import("./types").Near} Near
 * @typedef {{tone: string, frame: number, kept: boolean}} Manner
 */

const RINGS = [1, 0.5], REACH = 20, EDGE = 9;

/**
 * The norm of a neuron from its radius on the picture.
 * @param {number} radius @param {ArrayLike<number>} top the largest norm, and the powers of ten that are shown
 */
export function normOf(radius, top) { return top[0] * 10 ** ((radius - 1) * top[1]); }

export class Picture {
  /** @param {View} view @param {HTMLCanvasElement} canvas @param {HTMLElement} figure */
  constructor(view, canvas, figure) {
    this.view = view;
    this.canvas = canvas;
    this.figure = figure;
    this.frame = 0;
    this.logTime = false;
    /** @type {{layers: Layer[], frames: number} | null} a run that is kept behind this one */
    this.behind = null;
    /** @type {Placed[]} */
    this.handles = [];
    /** @type {Pair[]} what is being drawn by hand */
    this.stroke = [];
    /** @type {[Pair, Pair] | null} limits that stay while something is dragged */
    this.fixed = null;
    /** @type {Axes | null} */
    this.axes = null;
  }

  /**
   * Limits of all frames, so that nothing jumps while time runs.
   * @param {Pen} pen
   */
  #axes(pen) {
    const { view } = this, layers = [...view.layers, ...(this.behind?.layers ?? [])];
    const free = this.handles.filter(({ horizontal }) => !horizontal).flatMap(({ points }) => points);
    /** @param {"x" | "y"} role */
    const all = (role) => [
      ...layers.flatMap((layer) => (layer.arrays[role] ? [layer.arrays[role].values] : [])),
      free.map((point) => point[role === "x" ? 0 : 1]),
    ];
    const logs = { x: view.x_scale === "log" || (view.timed && this.logTime), y: view.y_scale === "log" };
    const x = this.fixed?.[0] ?? view.x_limits ?? limitsOf(all("x"), logs.x);
    const y = this.fixed?.[1] ?? view.y_limits ?? limitsOf(all("y"), logs.y);
    return new Axes(view, pen, x, y, logs);
  }

  /** @param {number} frame */
  draw(frame) {
    this.frame = frame;
    this.#paint(new CanvasPen(this.canvas));
  }

  svg() {
    const pen = new SvgPen(720, 480, this.view.name);
    this.#paint(pen);
    pen.text(this.view.title, 360, 6, { tone: "ink" });
    return pen;
  }

  /** @param {Pen} pen */
  #paint(pen) {
    this.axes = this.#axes(pen);
    if (!this.view.square) this.axes.draw(pen);
    const { x, y, width, height } = this.axes.box;
    pen.clip(x, y, width, height, () => {
      const { behind } = this;
      if (behind) for (const layer of behind.layers) this.#layer(pen, layer, Math.min(this.frame, behind.frames - 1), true);
      for (const one of this.handles) this.#handles(pen, one);
      for (const layer of this.view.layers) this.#layer(pen, layer, this.frame, false);
      if (this.stroke.length) pen.line(this.stroke.map((point) => this.#place(point)), "theory", { width: 3 });
    });
  }

  /** @param {Pen} pen @param {Layer} layer @param {number} frame @param {boolean} kept */
  #layer(pen, layer, frame, kept) {
    this[`_${layer.kind}`](pen, layer, { tone: kept ? "kept" : layer.tone, frame, kept });
  }

  /** @param {Pair} point @returns {Pair} */
  #place([x, y]) { return this.axes ? [this.axes.x(x), this.axes.y(y)] : [0, 0]; }

  /** @param {Layer} layer @param {number} frame @returns {Pair[]} */
  #pairs(layer, frame) {
    const xs = row(layer.arrays.x, frame, layer.moving), ys = row(layer.arrays.y, frame, layer.moving);
    return Array.from(ys, (y, k) => this.#place([xs[k], y]));
  }

  /** @param {Pen} pen @param {Layer} layer @param {Manner} how */
  _curve(pen, layer, { tone, frame, kept }) {
    const dash = layer.tone === "theory" || kept ? [6, 4] : layer.tone === "muted" ? [2, 3] : [];
    pen.line(this.#pairs(layer, frame), tone, { dash, width: 2.5 });
  }

  /** @param {Pen} pen @param {Layer} layer @param {Manner} how */
  _dots(pen, layer, { tone, frame }) { pen.dots(this.#pairs(layer, frame), 4, tone, { alpha: 0.8 }); }

  /** @param {Pen} pen @param {Layer} layer @param {Manner} how */
  _history(pen, layer, { tone, frame, kept }) {
    const pairs = this.#pairs(layer, frame);
    pen.line(pairs, tone, { width: 2, dash: layer.tone === "theory" || kept ? [6, 4] : [] });
    if (!kept && pairs[frame]) pen.dots([pairs[frame]], 5, tone);
  }

  /** @param {Pen} pen @param {Layer} layer @param {Manner} how */
  _levels(pen, layer, { tone }) {
    if (!this.axes) return;
    const { x, y: top, width } = this.axes.box, { unit } = pen;
    layer.arrays.y.values.forEach((value, k) => {
      const [, y] = this.#place([0, value]);
      pen.line([[x, y], [x + width, y]], tone, { width: 1.5, dash: [3, 4] });
      if (layer.names[k]) pen.text(layer.names[k], x + width - 4, y + (y > top + 16 * unit ? -8 : 8) * unit, { align: "right", tone });
    });
  }

  /** @param {Pen} pen @param {Layer} layer @param {Manner} how */
  _marks(pen, layer, { tone }) {
    if (!this.axes) return;
    const { y, height } = this.axes.box;
    layer.arrays.x.values.forEach((value, k) => {
      const [x] = this.#place([value, 1]);
      pen.line([[x, y], [x, y + height]], tone, { width: 1.5, dash: [3, 4] });
      if (layer.names[k]) pen.text(layer.names[k], x + 4, y + 10 * pen.unit, { align: "left", tone });
    });
  }

  /** @param {number} angle @param {number} radius @returns {Pair} */
  #polar(angle, radius) {
    const { width, height } = this.axes?.box ?? { width: 0, height: 0 };
    const r = 0.47 * Math.min(width, height) * (0.12 + 0.88 * radius);
    return [width / 2 + r * Math.cos(angle), height / 2 - r * Math.sin(angle)];
  }

  /** @param {Pen} pen @param {Layer} layer @param {Manner} how */
  _rays(pen, layer, { tone }) {
    const theory = tone === "theory";
    layer.arrays.angle.values.forEach((angle, k) => {
      pen.line([this.#polar(angle, 0), this.#polar(angle, 1)], tone, { width: theory ? 3 : 1, dash: theory ? [8, 4] : [2, 3] });
      if (layer.names[k]) pen.text(layer.names[k], ...this.#polar(angle, 0.72), { tone, size: 13 });
    });
  }

  /** @param {Pen} pen @param {Layer} layer @param {Manner} how */
  _neurons(pen, layer, { frame, kept }) {
    for (const ring of RINGS) pen.line(Array.from({ length: 91 }, (_, k) => this.#polar(k * Math.PI / 45, ring)), "line", { width: 1 });
    const places = this.#neuronPlaces(layer, frame), signs = layer.arrays.sign.values;
    for (const [sign, tone] of /** @type {[number, string][]} */ ([[1, "positive"], [-1, "negative"]])) {
      pen.dots(places.filter((_, j) => signs[j] === sign), 3, kept ? "kept" : tone, { alpha: 0.6, hollow: sign < 0 });
    }
  }

  /** @param {Layer} layer @param {number} frame */
  #neuronPlaces(layer, frame) {
    const radii = row(layer.arrays.radius, frame, true);
    return Array.from(row(layer.arrays.angle, frame, true), (angle, j) => this.#polar(angle, radii[j]));
  }

  /** @param {Pen} pen @param {Layer} layer @param {Manner} how */
  _cells(pen, layer, { frame }) {
    const [, rows, columns] = layer.arrays.value.shape, values = row(layer.arrays.value, frame, true);
    const u = pen.unit, side = Math.min((pen.width - 50 * u) / columns, (pen.height - 40 * u) / rows);
    const left = (pen.width - side * columns) / 2 + 10 * u;
    for (let j = 0; j < rows; j++) for (let k = 0; k < columns; k++) {
      pen.box(left + k * side, 8 + j * side, side - 2, side - 2, "line", 0.35);
      if (values[j * columns + k] > 0) pen.box(left + k * side, 8 + j * side, side - 2, side - 2, "network", values[j * columns + k]);
    }
    pen.text(this.view.y_label, left - 12 * u, pen.height / 2, { tone: "ink", turn: true });
    pen.text(this.view.x_label, pen.width / 2, 8 + rows * side + 14 * u, { tone: "ink" });
  }

  /**
   * Where a handle is drawn: at its point, or on the lower edge.
   * @param {Placed} set @param {Pair} point
   * @returns {Pair}
   */
  handleAt({ horizontal }, point) {
    const [x, y] = this.#place(point), box = this.axes?.box;
    return horizontal && box ? [x, box.y + box.height - EDGE] : [x, y];
  }

  /** @param {Pen} pen @param {Placed} set */
  #handles(pen, set) {
    const places = set.points.map((point) => this.handleAt(set, point));
    if (set.horizontal) {
      for (const [x, y] of places) pen.line([[x - 6, y + 6], [x, y - 6], [x + 6, y + 6], [x - 6, y + 6]], "positive", { width: 2.5 });
    } else {
      pen.dots(places, places.length > 15 ? 4 : 7, "data");
    }
    if (places[set.chosen]) pen.dots([places[set.chosen]], 11, "data", { hollow: true });
  }

  /**
   * The number nearest to a place on the picture, in words.
   * @param {number} left @param {number} top
   * @returns {Near | null}
   */
  nearest(left, top) {
    let best = { distance: REACH, words: "", neuron: -1 };
    for (const layer of this.view.layers) {
      const { x, y, angle, radius } = layer.arrays;
      /** @param {Pair[]} places @param {(k: number) => string} words */
      const look = (places, words, neurons = false) => places.forEach(([a, b], k) => {
        const distance = Math.hypot(a - left, b - top);
        if (distance < best.distance) best = { distance, words: words(k), neuron: neurons ? k : -1 };
      });
      if (x && y) {
        const xs = row(x, this.frame, layer.moving), ys = row(y, this.frame, layer.moving);
        look(this.#pairs(layer, this.frame), (k) => `${layer.label || this.view.y_label}: ${xs[k].toPrecision(6)}, ${ys[k].toPrecision(6)}`);
      } else if (angle && radius) {
        const angles = row(angle, this.frame, true), radii = row(radius, this.frame, true), top = layer.arrays.top.values;
        look(this.#neuronPlaces(layer, this.frame), (k) => {
          const degrees = (angles[k] * 180 / Math.PI).toFixed(2), norm = normOf(radii[k], top).toPrecision(4);
          return `neuron ${k + 1}: ${degrees}°, norm ${norm} (click: all digits)`;
        }, true);
      }
    }
    return best.words ? best : null;
  }
}
