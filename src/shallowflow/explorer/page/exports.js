// Files of a run: pictures, numbers, code, the trajectory, and the page that plays by itself.

import { make } from "explorer/dom";
import { svgFile } from "explorer/pen";

/** @typedef {import("./types").Run} Run @typedef {import("./types").Numbers} Numbers @typedef {import("./picture").Picture} Picture */

/** @type {Record<string, string>} */
export const EXPORTS = {
  PNG: "the pictures as they are now, in one file",
  SVG: "the pictures, scalable",
  CSV: "all numbers that belong to time, a line per frame",
  JSON: "the settings and all numbers, with a schema",
  Python: "the code that makes this run",
  trajectory: "the run, for shallowflow: Trajectory.load",
  HTML: "this page with this run, without a server",
};
export const SCHEMA = "shallowflow-explorer-1";

/** @param {string} name @param {Blob} content */
function save(name, content) {
  const link = make("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * Columns: time, and every array with one number per frame.
 * @param {Run} run
 */
export function csv(run) {
  /** @type {[string, ArrayLike<number>][]} */
  const columns = [["time", run.times]];
  for (const view of run.views) {
    const histories = view.layers.filter((layer) => layer.kind === "history");
    const label = histories.find((layer) => layer.label)?.label ?? "value";
    histories.forEach((layer, k) => columns.push([`${view.name}: ${label}${histories.length > 1 ? ` ${k + 1}` : ""}`, layer.arrays.y.values]));
  }
  const head = columns.map(([name]) => `"${name.replaceAll('"', '""')}"`).join(",");
  const lines = Array.from(run.times, (_, k) => columns.map(([, values]) => values[k]).join(","));
  return [head, ...lines].join("\n") + "\n";
}

/** @param {Run} run */
export function json(run) {
  const numbers = (/** @type {Numbers} */ { shape, values }) => ({ shape, values: Array.from(values) });
  const views = run.views.map(({ name, title, x_label, y_label, layers }) => ({
    name, title, x_label, y_label,
    layers: layers.map(({ kind, label, moving, arrays }) => (
      { kind, label, moving, arrays: Object.fromEntries(Object.entries(arrays).map(([role, array]) => [role, numbers(array)])) })),
  }));
  const { scene, state, events, sentences, code } = run;
  return JSON.stringify({ schema: SCHEMA, scene, state, times: Array.from(run.times), events, sentences, code, views }, null, 1);
}

/** @param {Picture[]} pictures @returns {Promise<Blob>} */
function png(pictures) {
  const canvases = pictures.map(({ canvas }) => canvas), whole = make("canvas");
  whole.width = Math.max(...canvases.map((canvas) => canvas.width));
  whole.height = canvases.reduce((sum, canvas) => sum + canvas.height, 0);
  let down = 0;
  for (const canvas of canvases) {
    whole.getContext("2d")?.drawImage(canvas, 0, down);
    down += canvas.height;
  }
  return new Promise((resolve, reject) => whole.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture could be made")))));
}

/**
 * Ask the server for a file.
 * @param {string} where @param {BodyInit} body
 */
export async function fetched(where, body) {
  const answer = await fetch(where, { method: "POST", body });
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer;
}

/** @param {Run} run @param {object} more */
const asked = (run, more = {}) => JSON.stringify({ n: 1, scene: run.scene, state: run.state, ...more });

/** @type {Record<string, (run: Run, pictures: Picture[]) => Promise<[name: string, content: BlobPart, type: string]>>} */
const MAKERS = {
  PNG: async (_, pictures) => [".png", await png(pictures), "image/png"],
  SVG: async (_, pictures) => [".svg", svgFile(pictures.map((one) => one.svg())), "image/svg+xml"],
  CSV: async (run) => [".csv", csv(run), "text/csv"],
  JSON: async (run) => [".json", json(run), "application/json"],
  Python: async (run) => [".py", run.code, "text/x-python"],
  trajectory: async (run) => [".trajectory", await (await fetched("/export/trajectory", asked(run))).blob(), "application/octet-stream"],
  HTML: async (run) => [".html", await (await fetched("/export/standalone", run.buffer)).blob(), "text/html"],
};

/** @param {string} kind @param {Run} run @param {Picture[]} pictures */
export async function exported(kind, run, pictures) {
  const [ending, content, type] = await MAKERS[kind](run, pictures);
  save(`shallowflow-${run.scene}${ending}`, new Blob([content], { type }));
  for (const one of pictures) one.draw(one.frame);
}

/**
 * All digits of a neuron's weights, as the server computes them.
 * @param {Run} run @param {number} time @param {number} neuron
 * @returns {Promise<Record<string, number | number[]>>}
 */
export async function weights(run, time, neuron) {
  return (await fetched("/export/neuron", asked(run, { time, neuron }))).json();
}
