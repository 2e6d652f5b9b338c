// Points that are dragged: by mouse, finger and arrow keys; added by a double click, deleted by key or button.

const REACH = 22;

// Points inside their limits; one that only moves up and down keeps its x.
export function within(handles, [x, y], old = null) {
  const clip = (value, [low, high]) => Math.max(low, Math.min(high, value));
  return [handles.vertical && old ? old[0] : clip(x, handles.x_limits), clip(y, handles.y_limits)];
}

export class Dragger {
  constructor(state, redraw) { Object.assign(this, { state, redraw, chosen: -1, dragged: -1 }); }

  get declared() { return this.state.scene.handles; }

  get points() { return this.state.now.points; }

  attach(picture) {
    const canvas = picture.canvas;
    this.picture = picture;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `${picture.view.title}: drag ${this.declared.label}; arrow keys move the chosen one, Tab in the table chooses`);
    canvas.onpointerdown = (event) => this.#down(event, canvas);
    canvas.onpointermove = (event) => this.#move(event);
    canvas.onpointerup = canvas.onpointercancel = () => this.#up();
    canvas.ondblclick = (event) => this.add(picture.axes.at(event.offsetX, event.offsetY));
    canvas.onkeydown = (event) => this.#key(event);
    this.#show();
  }

  #show() { this.picture.handles = { points: this.points, chosen: this.chosen }; }

  #nearest(event) {
    const { axes } = this.picture;
    let best = -1, least = REACH;
    this.points.forEach(([x, y], k) => {
      const distance = Math.hypot(axes.x(x) - event.offsetX, axes.y(y) - event.offsetY);
      if (distance < least) [best, least] = [k, distance];
    });
    return best;
  }

  #down(event, canvas) {
    this.chosen = this.dragged = this.#nearest(event);
    if (this.dragged >= 0) {
      canvas.setPointerCapture(event.pointerId);
      // While a point is held the axes stay, or it would run away from the pointer.
      this.picture.fixed = [this.picture.axes.xLimits, this.picture.axes.yLimits];
    }
    this.#show();
    this.redraw();
  }

  #move(event) {
    if (this.dragged < 0) return;
    this.change(this.dragged, this.picture.axes.at(event.offsetX, event.offsetY), true);
  }

  #up() {
    if (this.dragged < 0) return;
    this.dragged = -1;
    this.picture.fixed = null;
    this.state.set({ points: this.points }, false);
  }

  change(k, place, going) {
    const next = this.points.map((point) => [...point]);
    next[k] = within(this.declared, place.map((value) => +value.toPrecision(5)), next[k]);
    this.state.set({ points: next }, going);
  }

  choose(k) { this.chosen = k; this.#show(); this.redraw(); }

  add(place) {
    if (this.points.length >= this.declared.most) return;
    const last = this.points[this.points.length - 1];
    const [x, y] = place ?? [(this.declared.vertical ? last[0] + 1 : last[0]), last[1]];
    const at = this.declared.vertical ? [last[0] + 1, y] : [x, y].map((value) => +value.toPrecision(5));
    this.chosen = this.points.length;
    this.state.set({ points: [...this.points, within(this.declared, at)] });
  }

  remove() {
    if (this.chosen < 0 || this.points.length <= this.declared.least) return;
    const next = this.points.filter((_, k) => k !== this.chosen);
    if (this.declared.vertical) next.forEach((point, k) => { next[k] = [k + 1, point[1]]; });
    this.chosen = -1;
    this.state.set({ points: next });
  }

  #key(event) {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.key === "Delete" || event.key === "Backspace") this.remove();
    else if (event.key in arrows && this.chosen >= 0) {
      const { xLimits, yLimits } = this.picture.axes, [right, up] = arrows[event.key], [x, y] = this.points[this.chosen];
      const step = event.shiftKey ? 0.05 : 0.01;
      this.change(this.chosen, [x + right * step * (xLimits[1] - xLimits[0]), y + up * step * (yLimits[1] - yLimits[0])], false);
      event.preventDefault();
      event.stopPropagation();
    }
  }
}
