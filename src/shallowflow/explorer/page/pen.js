// Two pens with the same strokes: one draws on a canvas, one writes SVG. Colours are names of the style sheet.

/**
 * @typedef {import("./types").Pair} Pair @typedef {import("./types").Tone} Tone @typedef {import("./types").Stroke} Stroke
 * @typedef {import("./types").Dots} Dots @typedef {import("./types").Words} Words
 */

// Colours are looked up once for a drawing.
function palette() {
  const style = getComputedStyle(document.documentElement);
  /** @type {Map<Tone, string>} */
  const known = new Map();
  return (/** @type {Tone} */ tone) => {
    const found = known.get(tone) ?? style.getPropertyValue(`--${tone}`).trim();
    known.set(tone, found);
    return found;
  };
}

export class CanvasPen {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    const ratio = devicePixelRatio || 1, context = canvas.getContext("2d");
    if (!context) throw new Error("this browser cannot draw");
    const { width, height } = canvas.getBoundingClientRect();
    this.width = width || 300;
    this.height = height || 200;
    // Letters and lines grow with the page's own font: for projectors.
    this.unit = parseFloat(getComputedStyle(document.body).fontSize) / 16 || 1;
    this.colour = palette();
    const [across, down] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (canvas.width !== across) canvas.width = across;
    if (canvas.height !== down) canvas.height = down;
    this.context = context;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.colour("ground");
    context.fillRect(0, 0, this.width, this.height);
  }

  /** @param {Iterable<Pair>} points @param {Tone} tone @param {Stroke} how */
  line(points, tone, { width = 2, dash = [], alpha = 1 } = {}) {
    const c = this.context;
    c.save();
    c.globalAlpha = alpha;
    c.strokeStyle = this.colour(tone);
    c.lineWidth = width * this.unit;
    c.setLineDash(dash);
    c.beginPath();
    let down = false;
    for (const [x, y] of points) {
      if (!Number.isFinite(x + y)) { down = false; continue; }
      if (down) c.lineTo(x, y); else c.moveTo(x, y);
      down = true;
    }
    c.stroke();
    c.restore();
  }

  /** @param {Iterable<Pair>} points @param {number} radius @param {Tone} tone @param {Dots} how */
  dots(points, radius, tone, { alpha = 1, hollow = false } = {}) {
    const c = this.context, r = radius * this.unit;
    c.save();
    c.globalAlpha = alpha;
    c.fillStyle = c.strokeStyle = this.colour(tone);
    c.lineWidth = 2;
    c.beginPath();
    for (const [x, y] of points) { c.moveTo(x + r, y); c.arc(x, y, r, 0, 7); }
    if (hollow) c.stroke(); else c.fill();
    c.restore();
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {Tone} tone @param {number} alpha */
  box(x, y, width, height, tone, alpha) {
    const c = this.context;
    c.save();
    c.globalAlpha = alpha;
    c.fillStyle = this.colour(tone);
    c.fillRect(x, y, width, height);
    c.restore();
  }

  /** @param {string} words @param {number} x @param {number} y @param {Words} how */
  text(words, x, y, { align = "center", tone = "muted", size = 12, turn = false } = {}) {
    const c = this.context;
    c.save();
    c.fillStyle = this.colour(tone);
    c.font = `${size * this.unit}px system-ui, sans-serif`;
    c.textAlign = align;
    c.textBaseline = "middle";
    c.translate(x, y);
    if (turn) c.rotate(-Math.PI / 2);
    c.fillText(words, 0, 0);
    c.restore();
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {() => void} inside */
  clip(x, y, width, height, inside) {
    const c = this.context;
    c.save();
    c.beginPath();
    c.rect(x, y, width, height);
    c.clip();
    inside();
    c.restore();
  }
}

const number = (/** @type {number} */ x) => +x.toFixed(2);
const escaped = (/** @type {string} */ text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const ANCHORS = { center: "middle", left: "start", right: "end" };

export class SvgPen {
  /** @param {number} width @param {number} height @param {string} name for ids, different in every picture of a file */
  constructor(width, height, name) {
    this.width = width;
    this.height = height;
    this.unit = 1;
    this.name = name;
    this.clips = 0;
    this.colour = palette();
    this.parts = [`<rect width="${width}" height="${height}" fill="${this.colour("ground")}"/>`];
  }

  /** @param {Iterable<Pair>} points @param {Tone} tone @param {Stroke} how */
  line(points, tone, { width = 2, dash = [], alpha = 1 } = {}) {
    let path = "", down = false;
    for (const [x, y] of points) {
      if (!Number.isFinite(x + y)) { down = false; continue; }
      path += `${down ? "L" : "M"}${number(x)} ${number(y)}`;
      down = true;
    }
    const dashes = dash.length ? ` stroke-dasharray="${dash}"` : "";
    this.parts.push(`<path d="${path}" fill="none" stroke="${this.colour(tone)}" stroke-width="${width}"${dashes} opacity="${alpha}"/>`);
  }

  /** @param {Iterable<Pair>} points @param {number} radius @param {Tone} tone @param {Dots} how */
  dots(points, radius, tone, { alpha = 1, hollow = false } = {}) {
    const ink = this.colour(tone), paint = hollow ? `fill="none" stroke="${ink}" stroke-width="2"` : `fill="${ink}"`;
    for (const [x, y] of points) this.parts.push(`<circle cx="${number(x)}" cy="${number(y)}" r="${radius}" ${paint} opacity="${alpha}"/>`);
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {Tone} tone @param {number} alpha */
  box(x, y, width, height, tone, alpha) {
    const place = `x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}"`;
    this.parts.push(`<rect ${place} fill="${this.colour(tone)}" opacity="${alpha}"/>`);
  }

  /** @param {string} words @param {number} x @param {number} y @param {Words} how */
  text(words, x, y, { align = "center", tone = "muted", size = 12, turn = false } = {}) {
    const rotated = turn ? ` transform="rotate(-90 ${number(x)} ${number(y)})"` : "";
    const place = `x="${number(x)}" y="${number(y)}" text-anchor="${ANCHORS[align]}" dominant-baseline="middle"`;
    const font = `font-family="sans-serif" font-size="${size}" fill="${this.colour(tone)}"`;
    this.parts.push(`<text ${place} ${font}${rotated}>${escaped(words)}</text>`);
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {() => void} inside */
  clip(x, y, width, height, inside) {
    const id = `${this.name}-${++this.clips}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${x}" y="${y}" width="${width}" height="${height}"/></clipPath><g clip-path="url(#${id})">`);
    inside();
    this.parts.push("</g>");
  }
}

/**
 * Pictures below each other in one SVG file.
 * @param {SvgPen[]} pens
 */
export function svgFile(pens) {
  const width = Math.max(...pens.map((pen) => pen.width));
  let down = 0;
  const parts = pens.map((pen) => {
    const placed = `<g transform="translate(0 ${down})">${pen.parts.join("")}</g>`;
    down += pen.height;
    return placed;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${down}" width="${width}" height="${down}">${parts.join("")}</svg>`;
}
