// The page: scenes, pictures, player and settings put together.

import { buttons, fill, fillTable, options } from "explorer/controls";
import { EXPORTS, exported } from "explorer/exports";
import { Dragger } from "explorer/handles";
import { fromBase64, unpack } from "explorer/message";
import { Picture } from "explorer/picture";
import { CLOCKS, Player, SPEEDS } from "explorer/player";
import { Line } from "explorer/socket";
import { State } from "explorer/state";

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const alone = Boolean(data.run);
let run = null, kept = null, pictures = [], line = null;

const state = new State(data.scenes, (going) => changed(going));
const dragger = new Dragger(state, () => redraw());
const player = new Player((frame, place) => {
  $("scrub").value = place;
  $("play").textContent = player.playing ? "❚❚" : "▶";
  $("time").textContent = `t = ${run.times[frame].toPrecision(5)}  (frame ${frame + 1} of ${run.times.length})`;
  redraw();
});

function redraw() {
  for (const picture of pictures) picture.draw(player.frame);
  if (run) document.body.dataset.drawn = run.n;
}

// Something was set: settings that are not being moved are filled anew, and the server is asked.
function changed(going) {
  dragger.picture && dragger.attach(dragger.picture);
  if (!going) settings();
  redraw();
  line?.ask(state.now.scene, state.values());
}

function settings() {
  const scene = state.scene;
  $("story").textContent = scene.story;
  for (const button of $("scenes").children) button.ariaCurrent = String(button.dataset.name === scene.name);
  fill($("controls"), scene, state.now, (change, going) => state.set(change, going));
  fillTable($("table"), state.now.points, dragger.chosen, (points) => state.set({ points }), (k) => dragger.choose(k));
  for (const id of ["add", "remove", "open"]) $(id).disabled = alone;
}

function received(buffer) {
  const fresh = unpack(buffer);
  const same = run && run.scene === fresh.scene && run.views.length === fresh.views.length;
  run = fresh;
  if (!same) { player.place = 0; kept = null; $("keep").ariaPressed = "false"; layout(); }
  run.views.forEach((view, k) => { pictures[k].view = view; pictures[k].behind = kept && { layers: kept.views[k].layers, frames: kept.times.length }; });
  $("words").replaceChildren(...run.sentences.map((text) => Object.assign(document.createElement("p"), { textContent: text })));
  $("code").textContent = run.code;
  player.load(run);
  status("ready");
}

// A figure for every view, with a legend that names what is drawn.
function layout() {
  pictures = run.views.map((view) => {
    const figure = document.createElement("figure"), caption = document.createElement("figcaption"), canvas = document.createElement("canvas");
    caption.textContent = view.title;
    for (const layer of view.layers.filter((one) => one.label)) {
      const mark = Object.assign(document.createElement("i"), { title: layer.label });
      mark.style.borderColor = `var(--${layer.tone})`;
      caption.append(Object.assign(document.createElement("small"), {}));
      caption.lastChild.append(mark, layer.label);
    }
    canvas.dataset.view = view.name;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", view.title);
    figure.append(caption, canvas);
    const picture = new Picture(view, canvas);
    canvas.addEventListener("pointermove", (event) => hover(picture, event));
    canvas.addEventListener("pointerleave", () => { $("hover").hidden = true; });
    return Object.assign(picture, { figure });
  });
  $("views").replaceChildren(...pictures.map((one) => one.figure));
  const mine = pictures.find((one) => one.view.name === state.scene.handles.view);
  if (mine && !alone) dragger.attach(mine);
  else if (mine) mine.handles = { points: run.state.points, chosen: -1 };
}

function hover(picture, event) {
  const found = picture.axes && picture.nearest(event.offsetX, event.offsetY);
  $("hover").hidden = !found || dragger.dragged >= 0;
  if (!found) return;
  $("hover").textContent = `${found[1]}: ${found[2].toPrecision(6)}, ${found[3].toPrecision(6)}`;
  $("hover").style.left = `${event.clientX + 14}px`;
  $("hover").style.top = `${event.clientY + 10}px`;
}

function status(text, bad = false) {
  $("status").textContent = text;
  $("status").className = bad ? "bad" : "";
}

async function readCsv(file) {
  if (file.size > 2 ** 20) return status("the file is larger than 1 MB", true);
  const rows = (await file.text()).split(/\r?\n/).map((row) => row.split(/[,;\t]/).map(Number)).filter((row) => row.length >= 2 && row.every(Number.isFinite));
  const most = data.scenes.find((scene) => scene.name === "free").handles.most;
  if (rows.length < 1 || rows.length > most) return status(`the file must have 1 to ${most} lines of two numbers, it has ${rows.length}`, true);
  state.open("free", { points: rows.map((row) => row.slice(0, 2)) });
}

function wire() {
  for (const scene of data.scenes) {
    const button = Object.assign(document.createElement("button"), { textContent: scene.title, onclick: () => state.open(scene.name) });
    button.dataset.name = scene.name;
    $("scenes").append(button);
  }
  options($("speed"), Object.keys(SPEEDS), "1");
  options($("clock"), CLOCKS, "time");
  $("speed").onchange = () => { player.speed = SPEEDS[$("speed").value]; };
  $("clock").onchange = () => player.setClock($("clock").value);
  $("play").onclick = () => { player.toggle(); $("play").textContent = player.playing ? "❚❚" : "▶"; };
  $("rewind").onclick = () => player.seek(0);
  $("next").onclick = () => { const event = player.next(); status(event ? `t = ${event[0].toPrecision(5)}: ${event[1]}` : "no further event"); };
  $("scrub").oninput = () => player.seek(Number($("scrub").value));
  $("undo").onclick = () => state.undo();
  $("redo").onclick = () => state.redo();
  $("reset").onclick = () => state.open(state.now.scene);
  $("keep").onclick = () => { kept = kept ? null : run; $("keep").ariaPressed = String(Boolean(kept)); run.views.forEach((_, k) => { pictures[k].behind = kept && { layers: kept.views[k].layers, frames: kept.times.length }; }); redraw(); };
  $("add").onclick = () => dragger.add(null);
  $("remove").onclick = () => dragger.remove();
  $("open").onchange = () => readCsv($("open").files[0]);
  const offered = Object.fromEntries(Object.entries(EXPORTS).filter(([kind]) => !alone || !["trajectory", "HTML"].includes(kind)));
  buttons($("exports"), offered, (kind) => exported(kind, run, pictures).catch((error) => status(error.message, true)));
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").onchange = redraw;
  addEventListener("keydown", keys);
}

function keys(event) {
  if (/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) && event.target.type !== "range") return;
  const pressed = (event.ctrlKey || event.metaKey ? "Ctrl-" : "") + event.key;
  const acts = { " ": () => $("play").click(), Home: () => player.seek(0), n: () => $("next").click(), ArrowRight: () => player.toFrame(player.frame + 1), ArrowLeft: () => player.toFrame(player.frame - 1), "Ctrl-z": () => state.undo(), "Ctrl-y": () => state.redo() };
  if (!run || !acts[pressed] || (event.target.tagName === "BUTTON" && pressed === " ")) return;
  acts[pressed]();
  event.preventDefault();
}

state.begin(data.scene, data.state);
wire();
if (alone) {
  const buffer = fromBase64(data.run);
  run = unpack(buffer);
  state.now = { scene: data.scene, ...run.state };
  settings();
  run = null;
  received(buffer);
  for (const field of document.querySelectorAll("#controls *, #edit button, #table input")) field.disabled = true;
  status("a recorded run: play it, scrub it, export it");
} else {
  settings();
  line = new Line({ run: received, error: (text) => status(text, true), status });
  line.ask(state.now.scene, state.values());
}
