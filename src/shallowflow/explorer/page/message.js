// A run as the server sends it: length of the header, header, arrays (see explorer/scene.py, `packed`).

export function unpack(buffer) {
  const view = new DataView(buffer);
  const length = view.getUint32(0, true);
  const run = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  const arrays = run.arrays.map(({ shape, single }) => {
    const size = shape.reduce((a, b) => a * b, 1);
    const values = single ? new Float32Array(buffer, at, size) : new Float64Array(buffer, at, size);
    at += 8 * Math.ceil((single ? 4 : 8) * size / 8);
    return { shape, values };
  });
  const named = (roles) => Object.fromEntries(Object.entries(roles).map(([role, k]) => [role, arrays[k]]));
  run.times = arrays[run.times].values;
  for (const shown of run.views) for (const layer of shown.layers) layer.arrays = named(layer.arrays);
  return run;
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
}

// The numbers of an array that belong to a frame: a row of one that moves, else all of it.
export function row(array, frame, moving) {
  const width = array.values.length / array.shape[0];
  const whole = !moving || array.shape.length < 2 && width === 1;
  return whole ? array.values : array.values.subarray(frame * width, (frame + 1) * width);
}
