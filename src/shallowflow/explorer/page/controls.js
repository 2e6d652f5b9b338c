// Sliders, number fields and choices, made from what a scene declares.

function make(tag, attributes = {}, parent = null) {
  const made = Object.assign(document.createElement(tag), attributes);
  parent?.append(made);
  return made;
}

// Powers of ten are shown as numbers and kept as exponents.
export const shown = (control, value) => (control.log ? +(10 ** value).toPrecision(4) || `1e${Math.round(value)}` : value);
export const kept = (control, text) => (control.log ? Math.log10(Number(text)) : Number(text));

export function fill(form, scene, state, set) {
  form.replaceChildren();
  for (const control of scene.controls) {
    const line = make("div", { className: "control", title: control.help }, form);
    const id = `control-${control.name}`;
    make("label", { textContent: control.label, htmlFor: id }, line);
    const now = state[control.name];
    if (control.choices.length) {
      const select = make("select", { id, title: control.help }, line);
      for (const word of control.choices) make("option", { value: word, textContent: word, selected: word === now }, select);
      select.onchange = () => set({ [control.name]: select.value });
      continue;
    }
    const step = control.whole ? 1 : "any";
    const range = make("input", { type: "range", min: control.low, max: control.high, step, value: now, ariaLabel: control.help }, line);
    const field = make("input", { type: "number", id, step: "any", value: shown(control, now), title: control.help }, line);
    const change = (value, going) => {
      if (!Number.isFinite(value)) return;
      const inside = Math.max(control.low, Math.min(control.high, control.whole ? Math.round(value) : value));
      range.value = inside;
      field.value = shown(control, inside);
      set({ [control.name]: inside }, going);
    };
    range.oninput = () => change(Number(range.value), true);
    range.onchange = () => change(Number(range.value), false);
    field.onchange = () => change(kept(control, field.value), false);
  }
}

// Every point as two number fields.
export function fillTable(table, points, chosen, change, choose) {
  table.replaceChildren();
  points.forEach((point, k) => point.forEach((value, axis) => {
    const name = `point ${k + 1}, ${axis ? "y" : "x"}`;
    const field = make("input", { type: "number", step: "any", value, ariaLabel: name }, table);
    if (k === chosen) field.style.outline = "2px solid var(--network)";
    field.onfocus = () => choose(k);
    field.onchange = () => {
      const next = points.map((p) => [...p]);
      next[k][axis] = Number(field.value);
      change(next);
    };
  }));
}

export function buttons(parent, names, press) {
  parent.replaceChildren();
  for (const [name, title] of Object.entries(names)) make("button", { textContent: name, title, type: "button", onclick: () => press(name) }, parent);
}

export function options(select, words, now) {
  select.replaceChildren();
  for (const word of words) make("option", { value: word, textContent: word, selected: word === now }, select);
}
