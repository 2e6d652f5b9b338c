// Two pens with the same strokes: one draws on a canvas, one writes SVG. Colours are names of the style sheet.

export function colour(tone) { return getComputedStyle(document.documentElement).getPropertyValue(`--${tone}`).trim(); }

export class CanvasPen {
  constructor(canvas) {
    const ratio = devicePixelRatio || 1;
    const { width, height } = canvas.getBoundingClientRect();
    this.width = width || 300;
    this.height = height || 200;
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    this.context = canvas.getContext("2d");
    this.context.scale(ratio, ratio);
    this.context.fillStyle = colour("ground");
    this.context.fillRect(0, 0, this.width, this.height);
  }

  line(points, tone, { width = 2, dash = [], alpha = 1 } = {}) {
    const c = this.context;
    c.save();
    c.globalAlpha = alpha;
    c.strokeStyle = colour(tone);
    c.lineWidth = width;
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

  dots(points, radius, tone, { alpha = 1, hollow = false } = {}) {
    const c = this.context;
    c.save();
    c.globalAlpha = alpha;
    c.fillStyle = c.strokeStyle = colour(tone);
    c.lineWidth = 2;
    c.beginPath();
    for (const [x, y] of points) { c.moveTo(x + radius, y); c.arc(x, y, radius, 0, 7); }
    if (hollow) c.stroke(); else c.fill();
    c.restore();
  }

  box(x, y, width, height, tone, alpha) {
    this.context.save();
    this.context.globalAlpha = alpha;
    this.context.fillStyle = colour(tone);
    this.context.fillRect(x, y, width, height);
    this.context.restore();
  }

  text(words, x, y, { align = "center", tone = "muted", size = 12, turn = false } = {}) {
    const c = this.context;
    c.save();
    c.fillStyle = colour(tone);
    c.font = `${size}px system-ui, sans-serif`;
    c.textAlign = align;
    c.textBaseline = "middle";
    c.translate(x, y);
    if (turn) c.rotate(-Math.PI / 2);
    c.fillText(words, 0, 0);
    c.restore();
  }

  clip(x, y, width, height, inside) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    inside();
    this.context.restore();
  }
}

const number = (x) => +x.toFixed(2);
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

export class SvgPen {
  constructor(width, height) {
    Object.assign(this, { width, height, parts: [], clips: 0 });
    this.parts.push(`<rect width="${width}" height="${height}" fill="${colour("ground")}"/>`);
  }

  line(points, tone, { width = 2, dash = [], alpha = 1 } = {}) {
    let path = "", down = false;
    for (const [x, y] of points) {
      if (!Number.isFinite(x + y)) { down = false; continue; }
      path += `${down ? "L" : "M"}${number(x)} ${number(y)}`;
      down = true;
    }
    this.parts.push(`<path d="${path}" fill="none" stroke="${colour(tone)}" stroke-width="${width}" stroke-dasharray="${dash}" opacity="${alpha}"/>`);
  }

  dots(points, radius, tone, { alpha = 1, hollow = false } = {}) {
    const paint = hollow ? `fill="none" stroke="${colour(tone)}" stroke-width="2"` : `fill="${colour(tone)}"`;
    for (const [x, y] of points) this.parts.push(`<circle cx="${number(x)}" cy="${number(y)}" r="${radius}" ${paint} opacity="${alpha}"/>`);
  }

  box(x, y, width, height, tone, alpha) {
    this.parts.push(`<rect x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}" fill="${colour(tone)}" opacity="${alpha}"/>`);
  }

  text(words, x, y, { align = "center", tone = "muted", size = 12, turn = false } = {}) {
    const anchor = { center: "middle", left: "start", right: "end" }[align];
    const rotated = turn ? ` transform="rotate(-90 ${number(x)} ${number(y)})"` : "";
    this.parts.push(`<text x="${number(x)}" y="${number(y)}" text-anchor="${anchor}" dominant-baseline="middle" font-family="sans-serif" font-size="${size}" fill="${colour(tone)}"${rotated}>${escaped(words)}</text>`);
  }

  clip(x, y, width, height, inside) {
    const name = `c${++this.clips}`;
    this.parts.push(`<clipPath id="${name}"><rect x="${x}" y="${y}" width="${width}" height="${height}"/></clipPath><g clip-path="url(#${name})">`);
    inside();
    this.parts.push("</g>");
  }

  toString() {
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${this.width} ${this.height}" width="${this.width}" height="${this.height}">${this.parts.join("")}</svg>`;
  }
}
