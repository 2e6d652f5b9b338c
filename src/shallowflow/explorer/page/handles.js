// Points that are dragged: by mouse, finger and keys; added, deleted, drawn by hand.

import { toLabels, toPoints, toSteps } from "explorer/strokes";

/**
 * @typedef {import("./types").Pair} Pair @typedef {import("./types").Handles} Handles
 * @typedef {import("./picture").Picture} Picture @typedef {import("./state").State} State
 */

const REACH = 22, DIGITS = 5;

/**
 * A point inside the limits; one that moves in one direction only keeps its other coordinate.
 * @param {Handles} handles @param {Pair} place @param {Pair | null} old
 * @returns {Pair}
 */
export function within(handles, [x, y], old = null) {
  const clip = (/** @type {number} */ value, /** @type {Pair} */ [low, high]) => Math.max(low, Math.min(high, +value.toPrecision(DIGITS)));
  return [handles.vertical && old ? old[0] : clip(x, handles.x_limits), clip(y, handles.y_limits)];
}

/**
 * What a stroke makes of the points, after what the scene says.
 * @param {Handles} handles @param {Pair[]} stroke @param {Pair[]} points
 * @returns {Pair[]}
 */
export function drawn(handles, stroke, points) {
  if (stroke.length < 2) return points;
  const made = handles.vertical ? toLabels(stroke, points)
    : handles.stroke === "steps" ? toSteps(stroke, handles.most)
    : toPoints(stroke, Math.max(points.length, 2));
  return made.map((point, k) => within(handles, point, handles.vertical ? points[k] : null));
}

export class Dragger {
  /** @param {State} state @param {() => void} redraw */
  constructor(state, redraw) {
    this.state = state;
    this.redraw = redraw;
    this.drawing = false;
    this.dragged = false;
    this.chosen = { name: "points", k: -1 };
    /** @type {Picture | null} */
    this.picture = null;
    /** @type {Record<string, Pair[]>} where handles are that the state leaves to chance */
    this.places = {};
  }

  /** @param {string} name */
  declared(name) { return this.state.scene.handles.find((one) => one.name === name) ?? null; }

  /** @param {string} name */
  points(name) {
    const set = this.state.points(name);
    return set.length ? set : this.places[name] ?? [];
  }

  /** @param {Picture} picture */
  attach(picture) {
    const { canvas } = picture;
    this.picture = picture;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    const labels = this.state.scene.handles.map(({ label }) => label).join(", ");
    const keys = "Keys: comma and full stop choose one, arrows move it, Enter adds one, Delete deletes it";
    canvas.setAttribute("aria-label", `${picture.view.title}: drag ${labels}. ${keys}`);
    canvas.onpointerdown = (event) => this.#down(event);
    canvas.onpointermove = (event) => this.#move(event);
    canvas.onpointerup = canvas.onpointercancel = () => this.#up();
    canvas.ondblclick = (event) => { if (picture.axes) this.add(picture.axes.at(event.offsetX, event.offsetY)); };
    canvas.onkeydown = (event) => this.#key(event);
    this.show();
  }

  show() {
    if (!this.picture) return;
    this.picture.handles = this.state.scene.handles.map(({ name, horizontal }) => (
      { name, horizontal, points: this.points(name), chosen: this.chosen.name === name ? this.chosen.k : -1 }));
  }

  /** @param {PointerEvent} event */
  #nearest(event) {
    let best = { name: "points", k: -1 }, least = REACH;
    for (const set of this.picture?.handles ?? []) set.points.forEach((point, k) => {
      const [x, y] = this.picture?.handleAt(set, point) ?? [0, 0];
      const distance = Math.hypot(x - event.offsetX, y - event.offsetY);
      if (distance < least) [best, least] = [{ name: set.name, k }, distance];
    });
    return best;
  }

  /** @param {PointerEvent} event */
  #down(event) {
    const { picture } = this;
    if (!picture?.axes) return;
    if (this.drawing) picture.stroke = [picture.axes.at(event.offsetX, event.offsetY)];
    else this.chosen = this.#nearest(event);
    this.dragged = this.drawing || this.chosen.k >= 0;
    if (this.dragged) {
      picture.canvas.setPointerCapture(event.pointerId);
      // While a point is held the axes stay, or it would run away from the pointer.
      picture.fixed = [picture.axes.xLimits, picture.axes.yLimits];
    }
    this.show();
    this.redraw();
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const { picture } = this;
    if (!this.dragged || !picture?.axes) return;
    const place = picture.axes.at(event.offsetX, event.offsetY);
    if (this.drawing) { picture.stroke.push(place); this.redraw(); } else this.change(place, true);
  }

  #up() {
    const { picture } = this;
    if (!this.dragged || !picture) return;
    this.dragged = false;
    picture.fixed = null;
    const { stroke } = picture, handles = this.declared("points");
    picture.stroke = [];
    if (this.drawing && handles) {
      this.drawing = false;
      this.state.set({ points: drawn(handles, stroke, this.points("points")) });
    } else if (this.state.going) this.#set(this.chosen.name, this.points(this.chosen.name));
  }

  /** @param {string} name @param {Pair[]} points */
  #set(name, points, going = false) { this.state.set({ [name]: points }, going); }

  /** @param {Pair} place @param {boolean} going */
  change(place, going) {
    const { name, k } = this.chosen, handles = this.declared(name);
    if (!handles) return;
    /** @type {Pair[]} */
    const next = this.points(name).map(([x, y]) => [x, y]);
    next[k] = within(handles, place, next[k]);
    this.#set(name, next, going);
  }

  /** @param {string} name @param {number} k */
  choose(name, k) {
    this.chosen = { name, k };
    this.show();
    this.redraw();
  }

  /** @param {Pair | null} place */
  add(place) {
    const { name } = this.chosen, handles = this.declared(name), points = this.points(name);
    if (!handles || points.length >= handles.most) return;
    const last = points[points.length - 1] ?? [0, 0], middle = this.picture?.axes;
    /** @type {Pair} */
    const at = handles.vertical ? [last[0] + 1, place ? place[1] : last[1]]
      : place ?? (middle ? [(middle.xLimits[0] + middle.xLimits[1]) / 2, (middle.yLimits[0] + middle.yLimits[1]) / 2] : last);
    this.chosen = { name, k: points.length };
    this.#set(name, [...points, within(handles, at)]);
  }

  remove() {
    const { name, k } = this.chosen, handles = this.declared(name), points = this.points(name);
    if (!handles || k < 0 || points.length <= Math.max(handles.least, 1)) return;
    const left = points.filter((_, i) => i !== k);
    this.chosen = { name, k: -1 };
    this.#set(name, handles.vertical ? left.map(([, y], i) => [i + 1, y]) : left);
  }

  // Choose the next handle, or the one before it, over all sets.
  #step(/** @type {number} */ by) {
    const all = this.state.scene.handles.flatMap(({ name }) => this.points(name).map((_, k) => ({ name, k })));
    const at = all.findIndex(({ name, k }) => name === this.chosen.name && k === this.chosen.k);
    const next = all[(at + by + all.length) % all.length] ?? all[0];
    if (next) this.choose(next.name, next.k);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    /** @type {Record<string, Pair>} */
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const axes = this.picture?.axes, { name, k } = this.chosen;
    if (event.key === "Delete" || event.key === "Backspace") this.remove();
    else if (event.key === "Enter") this.add(null);
    else if (event.key === "," || event.key === ".") this.#step(event.key === "." ? 1 : -1);
    else if (event.key in arrows && k >= 0 && axes) {
      const [right, up] = arrows[event.key], [x, y] = this.points(name)[k], step = event.shiftKey ? 0.05 : 0.01;
      this.change([x + right * step * (axes.xLimits[1] - axes.xLimits[0]), y + up * step * (axes.yLimits[1] - axes.yLimits[0])], false);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
