// A line drawn by hand becomes points, steps or labels. Pure functions.

/** @typedef {import("./types").Pair} Pair */

/**
 * A stroke as a function of x: rising, one height for each x (the last one drawn).
 * @param {Pair[]} stroke
 * @returns {Pair[]}
 */
export function rising(stroke) {
  const last = new Map(stroke.map(([x, y]) => [x, y]));
  return [...last].sort((a, b) => a[0] - b[0]);
}

/**
 * The height of a stroke at x, straight between its points; null outside.
 * @param {Pair[]} line rising
 * @param {number} x
 */
export function heightAt(line, x) {
  if (!line.length || x < line[0][0] || x > line[line.length - 1][0]) return null;
  const right = line.findIndex(([at]) => at >= x);
  if (right <= 0) return line[0][1];
  const [[x0, y0], [x1, y1]] = [line[right - 1], line[right]];
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

/**
 * As many points as there were, evenly spread along the stroke.
 * @param {Pair[]} stroke
 * @param {number} count
 * @returns {Pair[]}
 */
export function toPoints(stroke, count) {
  const line = rising(stroke);
  const [low, high] = [line[0][0], line[line.length - 1][0]];
  return Array.from({ length: count }, (_, k) => {
    const x = count > 1 ? low + (high - low) * k / (count - 1) : (low + high) / 2;
    return [x, heightAt(line, Math.min(x, high)) ?? line[line.length - 1][1]];
  });
}

/**
 * The labels under a stroke take its height; the others stay.
 * @param {Pair[]} stroke
 * @param {Pair[]} labels
 * @returns {Pair[]}
 */
export function toLabels(stroke, labels) {
  const line = rising(stroke);
  return labels.map(([x, y]) => [x, heightAt(line, x) ?? y]);
}

const CELLS = 60, GAIN = 0.03;

/**
 * A staircase: cells of equal width are merged, the pair that costs least first, until there are at most so many steps and
 * a further merge would cost more than 3 % of the stroke's variance.
 * @param {Pair[]} stroke
 * @param {number} most
 * @returns {Pair[]} where each step starts, and its height; the first starts at 0
 */
export function toSteps(stroke, most) {
  const line = rising(stroke);
  const low = line[0][0], high = line[line.length - 1][0];
  let steps = Array.from({ length: CELLS }, (_, k) => {
    const x = low + (high - low) * (k + 0.5) / CELLS;
    return { start: low + (high - low) * k / CELLS, size: 1, height: heightAt(line, x) ?? 0 };
  });
  const mean = steps.reduce((sum, { height }) => sum + height / CELLS, 0);
  const variance = steps.reduce((sum, { height }) => sum + (height - mean) ** 2, 0) || 1;
  while (steps.length > 2) {
    let best = 0, least = Infinity;
    for (let k = 0; k + 1 < steps.length; k++) {
      const a = steps[k], b = steps[k + 1];
      const cost = a.size * b.size / (a.size + b.size) * (a.height - b.height) ** 2;
      if (cost < least) [best, least] = [k, cost];
    }
    if (steps.length <= most && least > GAIN * variance) break;
    const a = steps[best], b = steps[best + 1], size = a.size + b.size;
    const merged = { start: a.start, size, height: (a.size * a.height + b.size * b.height) / size };
    steps = [...steps.slice(0, best), merged, ...steps.slice(best + 2)];
  }
  return steps.map(({ start, height }, k) => [k ? start : 0, height]);
}
