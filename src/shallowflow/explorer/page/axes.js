// From numbers to places on a picture and back: limits, ticks, scales. No drawing except the frame and its labels.

const MARGIN = { left: 62, right: 14, top: 10, bottom: 42 };

// Limits that hold all the numbers, with a little room.
export function limitsOf(arrays, log) {
  let low = Infinity, high = -Infinity;
  for (const values of arrays) for (const value of values) if (Number.isFinite(value) && (!log || value > 0)) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) [low, high] = log ? [0.1, 1] : [0, 1];
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  if (log) return [Math.max(low, high * 1e-18) / 1.3, high * 1.3];
  const room = 0.06 * (high - low);
  return [low - room, high + room];
}

export function ticks([low, high], log, most = 6) {
  if (log) {
    const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
    const stride = Math.max(1, Math.ceil((last - first + 1) / most));
    const found = [];
    for (let k = first; k <= last; k += stride) found.push(10 ** k);
    return found;
  }
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
  return found;
}

const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export function label(value, log) {
  if (!log) return String(+value.toPrecision(6));
  const power = Math.round(Math.log10(value));
  return "10" + (power < 0 ? "⁻" : "") + [...String(Math.abs(power))].map((digit) => POWERS[digit]).join("");
}

export class Axes {
  constructor(view, width, height, xLimits, yLimits) {
    Object.assign(this, { view, xLimits, yLimits });
    this.logs = { x: view.x_scale === "log", y: view.y_scale === "log" };
    this.box = view.square
      ? { x: 0, y: 0, width, height }
      : { x: MARGIN.left, y: MARGIN.top, width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  }

  #share(value, limits, log) {
    const f = log ? Math.log : (x) => x;
    return (f(value) - f(limits[0])) / (f(limits[1]) - f(limits[0]));
  }

  #value(share, limits, log) {
    if (log) return limits[0] * (limits[1] / limits[0]) ** share;
    return limits[0] + share * (limits[1] - limits[0]);
  }

  x(value) { return this.box.x + this.box.width * this.#share(value, this.xLimits, this.logs.x); }

  y(value) { return this.box.y + this.box.height * (1 - this.#share(value, this.yLimits, this.logs.y)); }

  // The numbers at a place on the picture.
  at(left, top) {
    return [
      this.#value((left - this.box.x) / this.box.width, this.xLimits, this.logs.x),
      this.#value(1 - (top - this.box.y) / this.box.height, this.yLimits, this.logs.y),
    ];
  }

  draw(pen) {
    const { x, y, width, height } = this.box;
    for (const value of ticks(this.xLimits, this.logs.x)) {
      pen.line([[this.x(value), y], [this.x(value), y + height]], "line", { width: 1 });
      pen.text(label(value, this.logs.x), this.x(value), y + height + 13);
    }
    for (const value of ticks(this.yLimits, this.logs.y)) {
      pen.line([[x, this.y(value)], [x + width, this.y(value)]], "line", { width: 1 });
      pen.text(label(value, this.logs.y), x - 6, this.y(value), { align: "right" });
    }
    pen.text(this.view.x_label, x + width / 2, y + height + 31, { tone: "ink" });
    pen.text(this.view.y_label, 12, y + height / 2, { tone: "ink", turn: true });
  }
}
