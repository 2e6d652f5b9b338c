// One view of a run: its axes, its layers, and what lies near the pointer.

import { Axes, limitsOf } from "explorer/axes";
import { row } from "explorer/message";
import { CanvasPen, SvgPen } from "explorer/pen";

const RINGS = [1, 0.5];

export class Picture {
  constructor(view, canvas) {
    Object.assign(this, { view, canvas, frame: 0, behind: null, handles: null });
  }

  // Limits of all frames, so that nothing jumps while time runs.
  #axes(width, height) {
    const of = (role) => [...this.view.layers, ...(this.behind?.layers ?? [])].flatMap((layer) => (layer.arrays[role] ? [layer.arrays[role].values] : []));
    const points = this.handles?.points ?? [];
    const x = this.view.x_limits ?? limitsOf([...of("x"), points.map((p) => p[0])], this.view.x_scale === "log");
    const y = this.view.y_limits ?? limitsOf([...of("y"), points.map((p) => p[1])], this.view.y_scale === "log");
    return new Axes(this.view, width, height, this.fixed?.[0] ?? x, this.fixed?.[1] ?? y);
  }

  draw(frame) {
    this.frame = frame;
    this.#paint(new CanvasPen(this.canvas));
  }

  svg() {
    const pen = new SvgPen(720, 480);
    this.#paint(pen);
    return String(pen);
  }

  #paint(pen) {
    this.axes = this.#axes(pen.width, pen.height);
    if (!this.view.square && !this.cells) this.axes.draw(pen);
    const { x, y, width, height } = this.axes.box;
    pen.clip(x, y, width, height, () => {
      if (this.behind) for (const layer of this.behind.layers) this.#layer(pen, layer, Math.min(this.frame, this.behind.frames - 1), true);
      if (this.handles) this.#handles(pen);
      for (const layer of this.view.layers) this.#layer(pen, layer, this.frame, false);
    });
  }

  get cells() { return this.view.layers.some((layer) => layer.kind === "cells"); }

  #layer(pen, layer, frame, kept) {
    const of = (role) => row(layer.arrays[role], frame, layer.moving);
    const tone = kept ? "kept" : layer.tone;
    this[`_${layer.kind}`](pen, layer, of, { tone, frame, kept });
  }

  #pairs(layer, of) {
    // Of a moving layer an array that has one axis only, a grid, is the same in every frame.
    const still = (role) => (layer.arrays[role].shape.length === 1 ? layer.arrays[role].values : of(role));
    const xs = still("x"), ys = still("y");
    return Array.from(ys, (y, k) => [this.axes.x(xs[k]), this.axes.y(y)]);
  }

  _curve(pen, layer, of, { tone, kept }) {
    pen.line(this.#pairs(layer, of), tone, { dash: layer.tone === "theory" || kept ? [6, 4] : [], width: 2.5 });
  }

  _dots(pen, layer, of, { tone }) { pen.dots(this.#pairs(layer, of), 4, tone, { alpha: 0.8 }); }

  _history(pen, layer, of, { tone, frame, kept }) {
    const pairs = this.#pairs(layer, of);
    pen.line(pairs, tone, { width: 2, dash: layer.tone === "theory" || kept ? [6, 4] : [] });
    if (!kept) pen.dots([pairs[frame]], 5, tone);
  }

  _levels(pen, layer, of, { tone }) {
    const { x, width } = this.axes.box;
    of("y").forEach((value, k) => {
      const y = this.axes.y(value);
      pen.line([[x, y], [x + width, y]], tone, { width: 1.5, dash: [3, 4] });
      if (layer.names[k]) pen.text(layer.names[k], x + width - 4, y - 8, { align: "right", tone });
    });
  }

  _marks(pen, layer, of, { tone }) {
    const { y, height } = this.axes.box;
    of("x").forEach((value, k) => {
      const x = this.axes.x(value);
      pen.line([[x, y], [x, y + height]], tone, { width: 1.5, dash: [3, 4] });
      if (layer.names[k]) pen.text(layer.names[k], x + 4, y + 10, { align: "left", tone });
    });
  }

  #polar(angle, radius) {
    const { width, height } = this.axes.box;
    const reach = 0.47 * Math.min(width, height);
    const r = reach * (0.12 + 0.88 * radius);
    return [width / 2 + r * Math.cos(angle), height / 2 - r * Math.sin(angle)];
  }

  _rays(pen, layer, of, { tone }) {
    of("angle").forEach((angle, k) => {
      pen.line([this.#polar(angle, 0), this.#polar(angle, 1)], tone, { width: tone === "theory" ? 3 : 1, dash: tone === "theory" ? [8, 4] : [2, 3] });
      if (layer.names[k]) pen.text(layer.names[k], ...this.#polar(angle, 0.72), { tone, size: 13 });
    });
  }

  _neurons(pen, layer, of, { kept }) {
    for (const ring of RINGS) pen.line(Array.from({ length: 91 }, (_, k) => this.#polar(k * Math.PI / 45, ring)), "line", { width: 1 });
    const angles = of("angle"), radii = of("radius"), signs = layer.arrays.sign.values;
    for (const [sign, tone] of [[1, "positive"], [-1, "negative"]]) {
      const places = [];
      signs.forEach((s, j) => { if (s === sign) places.push(this.#polar(angles[j], radii[j])); });
      pen.dots(places, 3, kept ? "kept" : tone, { alpha: 0.6, hollow: sign < 0 });
    }
  }

  _cells(pen, layer, of) {
    const [, rows, columns] = layer.arrays.value.shape, values = of("value");
    const { width, height } = this.axes.box;
    const side = Math.min((width - 50) / columns, (height - 40) / rows), left = (width - side * columns) / 2 + 10;
    for (let j = 0; j < rows; j++) for (let k = 0; k < columns; k++) {
      pen.box(left + k * side, 8 + j * side, side - 2, side - 2, "line", 0.35);
      if (values[j * columns + k] > 0) pen.box(left + k * side, 8 + j * side, side - 2, side - 2, "network", values[j * columns + k]);
    }
    pen.text(this.view.y_label, left - 12, height / 2, { tone: "ink", turn: true });
    pen.text(this.view.x_label, width / 2, 8 + rows * side + 14, { tone: "ink" });
  }

  #handles(pen) {
    const places = this.handles.points.map(([x, y]) => [this.axes.x(x), this.axes.y(y)]);
    pen.dots(places, places.length > 15 ? 4 : 7, "data");
    if (this.handles.chosen >= 0 && places[this.handles.chosen]) pen.dots([places[this.handles.chosen]], 11, "data", { hollow: true });
  }

  // The number nearest to a place on the picture: [distance, label, x, y].
  nearest(left, top) {
    let best = [20, "", 0, 0];
    for (const layer of this.view.layers) {
      if (!layer.arrays.x || !layer.arrays.y) continue;
      const of = (role) => row(layer.arrays[role], this.frame, layer.moving && layer.arrays[role].shape.length > 1);
      const xs = of("x"), ys = of("y");
      ys.forEach((y, k) => {
        const distance = Math.hypot(this.axes.x(xs[k]) - left, this.axes.y(y) - top);
        if (distance < best[0]) best = [distance, layer.label, xs[k], y];
      });
    }
    return best[1] ? best : null;
  }
}
