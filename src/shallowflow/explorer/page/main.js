// The page: scenes, pictures, player and settings put together.

import { buttons, fill, fillTable } from "explorer/controls";
import { button, element, make, options } from "explorer/dom";
import { EXPORTS, exported, fetched, weights } from "explorer/exports";
import { Dragger } from "explorer/handles";
import { explain, fillLetters, meaning } from "explorer/letters";
import { fromBase64, unpack } from "explorer/message";
import { Picture } from "explorer/picture";
import { CLOCKS, Player, SPEEDS } from "explorer/player";
import { Line } from "explorer/socket";
import { State } from "explorer/state";

/** @typedef {import("./types").Run} Run @typedef {import("./types").Action} Action @typedef {import("./types").View} View */

const $ = (/** @type {string} */ id) => element(id, HTMLElement);
const input = (/** @type {string} */ id) => element(id, HTMLInputElement);
const select = (/** @type {string} */ id) => element(id, HTMLSelectElement);
const data = JSON.parse($("data").textContent ?? "");
const alone = Boolean(data.run);
/** @type {Run | null} */
let run = null;
/** @type {Run | null} a run that is kept behind the next ones */
let kept = null;
/** @type {Picture[]} */
let pictures = [];
/** @type {Line | null} */
let line = null;
/** @type {(() => void) | null} what the next run that arrives is followed by */
let then = null;

const state = new State(data.scenes, changed);
const dragger = new Dragger(state, redraw);
const player = new Player(showTime);

function showTime() {
  if (!run) return;
  input("scrub").value = String(player.place);
  $("play").textContent = player.playing ? "❚❚" : "▶";
  const t = run.times[player.frame], letters = state.named(run.scene).letters;
  $("time").textContent = `${"τ" in letters ? "τ" : "t"} = ${t.toPrecision(5)}  (frame ${player.frame + 1} of ${run.times.length})`;
  redraw();
}

function redraw() {
  for (const picture of pictures) picture.draw(player.frame);
  if (!run) return;
  document.body.dataset.seen = String(run.n);
  if (run.stage === "whole") document.body.dataset.drawn = String(run.n);
}

// Something was set: settings that are not being moved are filled anew, and the server is asked.
function changed(/** @type {boolean} */ going) {
  dragger.show();
  if (!going) settings();
  redraw();
  if (state.now.scene !== "saved") line?.ask(state.now.scene, state.values(), going);
}

function settings() {
  const { scene } = state;
  explain($("story"), scene.story, scene.letters);
  fillLetters($("meanings"), scene.letters);
  for (const one of $("scenes").children) one.ariaCurrent = String(one instanceof HTMLElement && one.dataset.name === scene.name);
  fill($("controls"), scene, state.now, (change, going) => state.set(change, going));
  buttons($("actions"), Object.fromEntries(scene.actions.map(({ label, help }) => [label, help])), (label) => {
    const action = scene.actions.find((one) => one.label === label);
    if (action) act(action);
  });
  table();
  for (const id of ["draw", "add", "remove"]) button(id).disabled = alone || !scene.handles.length;
  pressed("draw", dragger.drawing);
}

function table() {
  fillTable($("table"), state.scene, (name) => dragger.points(name), (change) => state.set(change), (name, k) => dragger.choose(name, k));
}

function pressed(/** @type {string} */ id, /** @type {boolean} */ on) { button(id).ariaPressed = String(on); }

// A button of the scene: it sets something, from the moment that is shown.
function act(/** @type {Action} */ action) {
  if (!run) return;
  /** @type {Record<string, number>} */
  const change = { ...action.sets };
  const moment = Math.min(run.times[player.frame], Number(state.now[action.now] ?? Infinity));
  if (action.now) change[action.now] = moment;
  for (const [name, more] of Object.entries(action.adds)) change[name] = Number(state.now[name]) + more;
  then = () => {
    if (action.then === "end") return player.seek(1);
    player.toFrame(run ? run.times.findIndex((t) => t >= moment) : 0);
    player.toggle(true);
  };
  state.set(change);
}

function received(/** @type {ArrayBuffer} */ buffer) {
  const fresh = unpack(buffer);
  const same = run && run.scene === fresh.scene && String(run.views.map(({ name }) => name)) === String(fresh.views.map(({ name }) => name));
  run = fresh;
  if (state.kept && !kept && run.stage === "whole" && line?.asked === 1) return keepFirst(run);
  dragger.places = run.places;
  if (!same) layout();
  run.views.forEach((view, k) => { pictures[k].view = view; });
  legends();
  behind();
  dragger.show();
  if (run.stage === "whole") { if (!dragger.dragged && !$("table").contains(document.activeElement)) table(); words(run); }
  player.load(run);
  status(run.stage === "whole" ? "ready" : run.stage === "preview" ? "a preview; the exact run is being computed" : "the first part; computing");
  if (run.stage === "whole" && then) { const act = then; then = null; act(); }
}

// An address with two runs: the one behind has come first.
function keepFirst(/** @type {Run} */ first) {
  kept = first;
  run = null;
  pressed("keep", true);
  line?.ask(state.now.scene, state.values());
}

function words(/** @type {Run} */ shown) {
  const { letters } = state.named(shown.scene);
  $("words").replaceChildren();
  for (const sentence of shown.sentences) explain(make("p", {}, $("words")), sentence, letters);
  $("code").textContent = shown.code;
}

// A figure for every view.
function layout() {
  if (!run) return;
  if (kept && kept.scene !== run.scene) keep(null);
  pictures = run.views.map((view) => {
    const figure = make("figure"), canvas = make("canvas");
    make("figcaption", {}, figure);
    canvas.dataset.view = view.name;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", view.title);
    figure.append(canvas);
    const picture = new Picture(view, canvas, figure);
    picture.logTime = player.clock === "log time";
    canvas.addEventListener("pointermove", (event) => hover(picture, event));
    canvas.addEventListener("pointerleave", () => { $("hover").hidden = true; });
    canvas.addEventListener("click", (event) => click(picture, event));
    return picture;
  });
  $("views").replaceChildren(...pictures.map((one) => one.figure));
  const mine = pictures.find((one) => one.view.name === state.scene.handles[0]?.view);
  if (!mine) dragger.picture = null;
  else if (!alone) dragger.attach(mine);
  else mine.handles = [{ name: "points", points: /** @type {any} */ (run.state.points ?? []), chosen: -1, horizontal: false }];
}

// What is drawn, named and explained.
function legends() {
  const { letters } = state.named(run?.scene ?? state.now.scene);
  for (const { figure, view } of pictures) {
    const caption = figure.querySelector("figcaption"), now = view.title + view.layers.map(({ label }) => label);
    if (!caption || caption.dataset.now === now) continue;
    caption.dataset.now = now;
    explain(caption, view.title, letters);
    for (const layer of view.layers.filter((one) => one.label)) {
      const small = make("small", {}, caption), mark = make("i");
      mark.style.borderColor = `var(--${layer.tone})`;
      if (layer.tone === "theory") mark.style.borderStyle = "dashed";
      explain(make("span", {}, small), layer.label, letters);
      small.prepend(mark);
    }
  }
}

function keep(/** @type {Run | null} */ one) {
  kept = one;
  state.kept = one && { scene: one.scene, ...one.state };
  state.write();
  pressed("keep", Boolean(kept));
  behind();
}

function behind() {
  const old = kept && run && kept.scene === run.scene ? kept : null;
  pictures.forEach((one) => {
    const view = old?.views.find(({ name }) => name === one.view.name);
    one.behind = old && view ? { layers: view.layers, frames: old.times.length } : null;
  });
}

function hover(/** @type {Picture} */ picture, /** @type {PointerEvent} */ event) {
  const near = picture.nearest(event.offsetX, event.offsetY);
  const text = near?.words ?? meaning(picture.axes?.labelAt(event.offsetX, event.offsetY) ?? "", state.scene.letters);
  const box = $("hover");
  box.hidden = !text || dragger.dragged;
  box.textContent = text;
  box.style.left = `${Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${event.clientY + 12}px`;
}

// A neuron that is clicked says all its digits.
function click(/** @type {Picture} */ picture, /** @type {MouseEvent} */ event) {
  const near = picture.nearest(event.offsetX, event.offsetY), at = player.frame;
  if (!run || alone || !run.keeps || run.scene === "saved" || near === null || near.neuron < 0) return;
  weights(run, run.times[at], near.neuron).then((found) => {
    status(`neuron ${near.neuron + 1}: ${Object.entries(found).map(([name, values]) => `${name} = ${values}`).join(", ")}`);
  }).catch(trouble);
}

function status(/** @type {string} */ text, bad = false) {
  $("status").textContent = text;
  $("status").className = bad ? "bad" : "";
}

function trouble(/** @type {Error} */ error) { status(error.message, true); }

// A table becomes points of the scene "free"; any other file must be a trajectory.
async function open(/** @type {File} */ file) {
  const answer = await fetched(`/open?name=${encodeURIComponent(file.name)}`, file);
  if (answer.headers.get("content-type")?.includes("json")) {
    const { points } = await answer.json();
    state.open("free", { points });
  } else {
    state.open("saved");
    received(await answer.arrayBuffer());
  }
}

function setClock(/** @type {string} */ clock) {
  for (const one of pictures) one.logTime = clock === "log time";
  player.setClock(clock);
}

// How a run is looked at is kept in the address once it rests.
let later = 0;
function looked() {
  clearTimeout(later);
  later = setTimeout(() => {
    state.look = { ...state.look, place: +player.place.toFixed(4), clock: player.clock, speed: select("speed").value };
    state.write();
  }, 200);
}

function theme(/** @type {string} */ name) {
  document.documentElement.dataset.theme = name;
  redraw();
}

function wire() {
  for (const scene of data.scenes.filter((/** @type {View} */ { name }) => alone || name !== "saved")) {
    const one = make("button", { textContent: scene.title, onclick: () => state.open(scene.name), disabled: alone }, $("scenes"));
    one.dataset.name = scene.name;
  }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  theme(state.look.theme ?? (dark.matches ? "dark" : "light"));
  dark.onchange = () => theme(dark.matches ? "dark" : "light");
  options(select("speed"), Object.keys(SPEEDS), state.look.speed ?? "1");
  options(select("clock"), CLOCKS, state.look.clock ?? CLOCKS[0]);
  player.speed = SPEEDS[select("speed").value] ?? 1;
  player.clock = select("clock").value || CLOCKS[0];
  player.place = Number(state.look.place ?? 0) || 0;
  select("speed").onchange = () => { player.speed = SPEEDS[select("speed").value]; looked(); };
  select("clock").onchange = () => { setClock(select("clock").value); looked(); };
  input("scrub").oninput = () => { player.seek(Number(input("scrub").value)); looked(); };
  /** @type {Record<string, () => void>} */
  const presses = {
    theme: () => {
      state.look.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      theme(state.look.theme);
      state.write();
    },
    play: () => { player.toggle(); looked(); },
    rewind: () => { player.seek(0); looked(); },
    next: () => { const event = player.next(); status(event ? `t = ${event[0].toPrecision(5)}: ${event[1]}` : "no further event"); looked(); },
    undo: () => state.undo(),
    redo: () => state.redo(),
    reset: () => { then = null; state.open(state.now.scene); },
    keep: () => { keep(kept ? null : run); redraw(); },
    draw: () => { dragger.drawing = !dragger.drawing; pressed("draw", dragger.drawing); },
    add: () => dragger.add(null),
    remove: () => dragger.remove(),
  };
  for (const [id, press] of Object.entries(presses)) button(id).onclick = press;
  input("open").onchange = () => { const [file] = input("open").files ?? []; if (file) open(file).catch(trouble); input("open").value = ""; };
  const offered = Object.fromEntries(Object.entries(EXPORTS).filter(([kind]) => !alone || !["trajectory", "HTML"].includes(kind)));
  buttons($("exports"), offered, (kind) => { if (run) exported(kind, run, pictures).catch(trouble); });
  $("controls").onsubmit = () => false;
  addEventListener("resize", redraw);
  addEventListener("keydown", keys);
}

function keys(/** @type {KeyboardEvent} */ event) {
  const { target } = event;
  if (target instanceof HTMLSelectElement || (target instanceof HTMLInputElement && target.type !== "range")) return;
  const name = (event.ctrlKey || event.metaKey ? "Ctrl-" : "") + event.key;
  const press = (/** @type {string} */ id) => () => button(id).click();
  /** @type {Record<string, () => void>} */
  const acts = {
    " ": press("play"), Home: press("rewind"), n: press("next"), "Ctrl-z": press("undo"), "Ctrl-y": press("redo"),
    ArrowRight: () => player.toFrame(player.frame + 1), ArrowLeft: () => player.toFrame(player.frame - 1),
  };
  const moves = target instanceof HTMLInputElement && name.startsWith("Arrow");
  if (!run || !acts[name] || moves || (target instanceof HTMLButtonElement && name === " ")) return;
  acts[name]();
  event.preventDefault();
}

state.begin(data.scene, data.state, location.hash);
if (alone) state.now = { ...state.now, ...unpack(fromBase64(data.run)).state };
wire();
settings();
if (alone) {
  received(fromBase64(data.run));
  for (const field of document.querySelectorAll("#controls *, #edit *, #actions *, #table input")) if ("disabled" in field) field.disabled = true;
  status("a recorded run: play it, scrub it, export it");
} else {
  line = new Line({ run: received, error: (text) => status(text, true), status });
  const first = state.kept ?? state.now;
  line.ask(first.scene, state.values(first));
}
