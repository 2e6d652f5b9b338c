// A run as the server sends it: length of the header, header, arrays (see explorer/scene.py, `packed`).

/** @typedef {import("./types").Run} Run @typedef {import("./types").Numbers} Numbers */

/** @param {ArrayBuffer} buffer @returns {Run} */
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const run = header(buffer);
  let at = 4 + length;
  /** @type {Numbers[]} */
  const arrays = run.arrays.map((/** @type {{shape: number[], single: boolean}} */ { shape, single }) => {
    const size = shape.reduce((a, b) => a * b, 1);
    const values = single ? new Float32Array(buffer, at, size) : new Float64Array(buffer, at, size);
    at += 8 * Math.ceil((single ? 4 : 8) * size / 8);
    return { shape, values };
  });
  run.times = arrays[run.times].values;
  for (const view of run.views) for (const layer of view.layers) {
    layer.arrays = Object.fromEntries(Object.entries(layer.arrays).map(([role, k]) => [role, arrays[k]]));
  }
  run.buffer = buffer;
  return run;
}

/**
 * What a message says of itself, without its numbers.
 * @param {ArrayBuffer} buffer
 */
export function header(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  return JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
}

/** @param {string} text */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
}

/**
 * The numbers of an array that belong to a frame: a row of one that moves, else all of it.
 * @param {Numbers} array @param {number} frame @param {boolean} moving
 */
export function row(array, frame, moving) {
  if (!moving || array.shape.length < 2) return array.values;
  const width = array.values.length / array.shape[0];
  return array.values.subarray(frame * width, (frame + 1) * width);
}
