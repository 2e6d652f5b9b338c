// From numbers to places on a picture and back: limits, ticks, scales. No drawing except the frame and its labels.

/** @typedef {import("./types").Pair} Pair @typedef {import("./types").View} View @typedef {import("./types").Pen} Pen */

const MARGIN = { left: 62, right: 14, top: 10, bottom: 42 };

/**
 * Limits that hold all the numbers, with a little room.
 * @param {ArrayLike<number>[]} arrays
 * @param {boolean} log
 * @returns {Pair}
 */
export function limitsOf(arrays, log) {
  let low = Infinity, high = -Infinity;
  for (const values of arrays) for (let k = 0; k < values.length; k++) {
    const value = values[k];
    if (!Number.isFinite(value) || (log && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) [low, high] = log ? [0.1, 1] : [0, 1];
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  if (log) return [Math.max(low, high * 1e-18) / 1.3, high * 1.3];
  const room = 0.06 * (high - low);
  return [low - room, high + room];
}

/**
 * @param {Pair} limits
 * @param {boolean} log
 * @returns {number[]}
 */
export function ticks([low, high], log, most = 6) {
  /** @type {number[]} */
  const found = [];
  if (log) {
    const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
    const stride = Math.max(1, Math.ceil((last - first + 1) / most));
    for (let k = first; k <= last; k += stride) found.push(10 ** k);
    if (found.length > 1) return found;
    found.length = 0;
  }
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= raw) ?? 10);
  for (let k = Math.ceil(low / step); k * step <= high; k++) if (!log || k > 0) found.push(k * step);
  return found;
}

const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** @param {number} value @param {boolean} log */
export function label(value, log) {
  const power = Math.round(Math.log10(value));
  if (!log || Math.abs(value / 10 ** power - 1) > 1e-9) return String(+value.toPrecision(6));
  return "10" + (power < 0 ? "⁻" : "") + [...String(Math.abs(power))].map((digit) => POWERS[Number(digit)]).join("");
}

/** @param {number} value @param {Pair} limits @param {boolean} log */
export function share(value, [low, high], log) {
  return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

/** @param {number} part @param {Pair} limits @param {boolean} log */
export function valueAt(part, [low, high], log) {
  return log ? low * (high / low) ** part : low + part * (high - low);
}

export class Axes {
  /**
   * @param {View} view @param {Pen} pen @param {Pair} xLimits @param {Pair} yLimits
   * @param {{x: boolean, y: boolean}} logs
   */
  constructor(view, pen, xLimits, yLimits, logs) {
    this.view = view;
    this.xLimits = xLimits;
    this.yLimits = yLimits;
    this.logs = logs;
    this.unit = pen.unit;
    const { left, right, top, bottom } = MARGIN, u = pen.unit;
    this.box = view.square
      ? { x: 0, y: 0, width: pen.width, height: pen.height }
      : { x: u * left, y: u * top, width: pen.width - u * (left + right), height: pen.height - u * (top + bottom) };
  }

  /** @param {number} value */
  x(value) { return this.box.x + this.box.width * share(value, this.xLimits, this.logs.x); }

  /** @param {number} value */
  y(value) { return this.box.y + this.box.height * (1 - share(value, this.yLimits, this.logs.y)); }

  /**
   * The numbers at a place on the picture.
   * @param {number} left @param {number} top
   * @returns {Pair}
   */
  at(left, top) {
    return [
      valueAt((left - this.box.x) / this.box.width, this.xLimits, this.logs.x),
      valueAt(1 - (top - this.box.y) / this.box.height, this.yLimits, this.logs.y),
    ];
  }

  /**
   * The label of the axis that lies at a place outside the box.
   * @param {number} left @param {number} top
   */
  labelAt(left, top) {
    if (this.view.square) return "";
    return left < this.box.x ? this.view.y_label : top > this.box.y + this.box.height ? this.view.x_label : "";
  }

  /** @param {Pen} pen */
  draw(pen) {
    const { x, y, width, height } = this.box, u = this.unit;
    for (const value of ticks(this.xLimits, this.logs.x, Math.max(3, Math.floor(width / (75 * u))))) {
      pen.line([[this.x(value), y], [this.x(value), y + height]], "line", { width: 1 });
      pen.text(label(value, this.logs.x), this.x(value), y + height + 13 * u);
    }
    for (const value of ticks(this.yLimits, this.logs.y)) {
      pen.line([[x, this.y(value)], [x + width, this.y(value)]], "line", { width: 1 });
      pen.text(label(value, this.logs.y), x - 6 * u, this.y(value), { align: "right" });
    }
    pen.text(this.view.x_label, x + width / 2, y + height + 31 * u, { tone: "ink" });
    pen.text(this.view.y_label, 12 * u, y + height / 2, { tone: "ink", turn: true });
  }
}
