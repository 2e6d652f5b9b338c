// Sliders, number fields and choices, made from what a scene declares; and every point as number fields.

import { make, options } from "explorer/dom";
import { explain } from "explorer/letters";

/**
 * @typedef {import("./types").Control} Control @typedef {import("./types").Scene} Scene @typedef {import("./types").Pair} Pair
 * @typedef {import("./types").Values} Values @typedef {import("./types").Settings} Settings
 * @typedef {(change: Values, going?: boolean) => void} Set
 */

/**
 * Powers of ten are shown as numbers and kept as exponents.
 * @param {Control} control @param {number} value
 */
export const shown = (control, value) => (control.log ? +(10 ** value).toPrecision(4) || `1e${Math.round(value)}` : value);
/** @param {Control} control @param {string} text */
export const kept = (control, text) => (control.log ? logarithm(text) : Number(text));

// Also of numbers below the smallest double: "1e-400".
function logarithm(/** @type {string} */ text) {
  const parts = /^\s*([0-9.]+)(?:[eE]([-+]?\d+))?\s*$/.exec(text);
  return parts ? Math.log10(Number(parts[1])) + Number(parts[2] ?? 0) : NaN;
}

/**
 * The slider's place for a value, in [0, 1], and back.
 * @param {Control} control @param {number} value
 */
export const placeOf = ({ low, high, bend }, value) => ((value - low) / (high - low)) ** (1 / bend);
/** @param {Control} control @param {number} place */
export const valueOf = ({ low, high, bend, log }, place) => {
  const value = low + (high - low) * place ** bend;
  return place >= 1 ? high : log ? +value.toFixed(3) : +value.toPrecision(4);
};

/** @param {Control} control @param {number} value */
export const inside = ({ low, high, whole }, value) => Math.max(low, Math.min(high, whole ? Math.round(value) : value));

/** @param {HTMLElement} form @param {Scene} scene @param {Settings} state @param {Set} set */
export function fill(form, scene, state, set) {
  form.replaceChildren();
  for (const control of scene.controls) {
    const line = make("div", { className: "control", title: control.help }, form), id = `control-${control.name}`;
    explain(make("label", { htmlFor: id }, line), control.label, scene.letters);
    if (control.choices.length) {
      const select = make("select", { id, title: control.help }, line);
      options(select, control.choices, String(state[control.name]));
      select.onchange = () => set({ [control.name]: select.value });
    } else number(line, control, id, Number(state[control.name]), set);
  }
}

/** @param {HTMLElement} line @param {Control} control @param {string} id @param {number} now @param {Set} set */
function number(line, control, id, now, set) {
  const range = make("input", { type: "range", min: "0", max: "1", step: "any", value: String(placeOf(control, now)) });
  range.ariaLabel = control.help;
  const field = make("input", { type: "text", inputMode: "decimal", id, value: String(shown(control, now)), title: control.help });
  const change = (/** @type {number} */ value, going = false) => {
    const next = inside(control, Number.isFinite(value) ? value : now);
    range.value = String(placeOf(control, next));
    field.value = String(shown(control, next));
    set({ [control.name]: next }, going);
  };
  range.oninput = () => change(valueOf(control, Number(range.value)), true);
  range.onchange = () => change(valueOf(control, Number(range.value)));
  field.onchange = () => change(kept(control, field.value));
  if (control.name !== "seed") { line.append(range, field); return; }
  const again = () => change(Math.floor(control.low + Math.random() * (control.high - control.low + 1)));
  line.append(make("button", { id: "again", type: "button", textContent: "new seed", title: "Another random start", onclick: again }), field);
}

/**
 * Every point of every set as number fields.
 * @param {HTMLElement} table @param {Scene} scene @param {(name: string) => Pair[]} pointsOf
 * @param {Set} set @param {(name: string, k: number) => void} choose
 */
export function fillTable(table, scene, pointsOf, set, choose) {
  table.replaceChildren();
  for (const { name, horizontal, vertical } of scene.handles) {
    const points = pointsOf(name);
    points.forEach((point, k) => point.forEach((value, axis) => {
      const fixed = (axis === 1 && horizontal) || (axis === 0 && vertical);
      const field = make("input", { type: "number", step: "any", value: String(value), disabled: fixed }, table);
      field.ariaLabel = `${name.replace(/s$/, "")} ${k + 1}, ${axis ? "y" : "x"}`;
      field.onfocus = () => choose(name, k);
      field.onchange = () => {
        const typed = Number(field.value);
        set({ [name]: points.map(([x, y], i) => (i !== k ? [x, y] : axis ? [x, typed] : [typed, y])) });
      };
    }));
  }
}

/** @param {HTMLElement} parent @param {Record<string, string>} names @param {(name: string) => void} press */
export function buttons(parent, names, press) {
  parent.replaceChildren();
  for (const [name, title] of Object.entries(names)) {
    make("button", { textContent: name, title, type: "button", onclick: () => press(name) }, parent);
  }
}
