// The page's pure parts, by `node --test`. No browser.

import assert from "node:assert/strict";
import test from "node:test";

const page = "../../../src/shallowflow/explorer/page/";
const { label, limitsOf, share, ticks, valueAt } = await import(page + "axes.js");
const { inside, kept, placeOf, shown, valueOf } = await import(page + "controls.js");
const { csv, json } = await import(page + "exports.js");
const { drawn, within } = await import(page + "handles.js");
const { meaning, split } = await import(page + "letters.js");
const { header, row, unpack } = await import(page + "message.js");
const { normOf } = await import(page + "picture.js");
const { frameAt, nextEvent, places } = await import(page + "player.js");
const { changed, defaults, merged, readHash, writeHash } = await import(page + "state.js");
const { heightAt, rising, toLabels, toPoints, toSteps } = await import(page + "strokes.js");

const control = { name: "a", label: "a", help: "", value: 1, low: 0, high: 100, log: false, whole: false, bend: 1, choices: [] };
const points = { name: "points", view: "v", label: "", points: [[0, 1]], x_limits: [-1, 1], y_limits: [-2, 2], least: 1, most: 4, vertical: false, horizontal: false, stroke: "points", drawn_by: [], counted_by: "" };
const knots = { ...points, name: "knots", points: [], drawn_by: ["a"], counted_by: "a" };
const scene = { name: "s", title: "", story: "", controls: [control], handles: [points, knots], actions: [], letters: {} };
const near = (a, b, by = 1e-12) => assert.ok(Math.abs(a - b) <= by, `${a} is not ${b}`);

test("ticks lie inside the limits and are round", () => {
  assert.deepEqual(ticks([0, 1], false), [0, 0.2, 0.4, 0.6000000000000001, 0.8, 1]);
  assert.deepEqual(ticks([1e-3, 1e3], true, 3), [1e-3, 1, 1e3]);
  for (const limits of [[0.31, 0.42], [-7, 1e4], [3, 3.0001]]) {
    const found = ticks(limits, false);
    assert.ok(found.length >= 3 && found.every((value) => value >= limits[0] - 1e-12 && value <= limits[1] + 1e-12));
  }
  assert.ok(ticks([0.2, 0.7], true).length >= 3);
});

test("labels", () => {
  assert.equal(label(1e-12, true), "10⁻¹²");
  assert.equal(label(0.2, true), "0.2");
  assert.equal(label(0.30000000000000004, false), "0.3");
});

test("limits hold all numbers; infinite and, on a log scale, negative ones are left out", () => {
  const [low, high] = limitsOf([[1, 5], [NaN, Infinity, 3]], false);
  assert.ok(low < 1 && high > 5 && high < 6);
  assert.deepEqual(limitsOf([[-1, 0, 2, 8]], true), [2 / 1.3, 8 * 1.3]);
  assert.deepEqual(limitsOf([[]], false), [-0.06, 1.06]);
});

test("a place on an axis and its number belong together", () => {
  for (const log of [false, true]) for (const part of [0, 0.3, 1]) near(share(valueAt(part, [2, 50], log), [2, 50], log), part);
});

test("sliders: place and value belong together, also when bent", () => {
  const bent = { ...control, bend: 5, high: 1e5 };
  for (const value of [0, 200, 1e5]) near(valueOf(bent, placeOf(bent, value)), value, 1e-6 * value);
  assert.equal(valueOf({ ...control, low: -300, high: -2, log: true }, 1), -2);
  assert.equal(inside({ ...control, whole: true }, 3.6), 4);
  assert.equal(inside(control, 1e9), 100);
});

test("powers of ten are shown as numbers, however small", () => {
  const log = { ...control, log: true };
  assert.equal(shown(log, -3), 0.001);
  assert.equal(shown(log, -400), "1e-400");
  near(kept(log, "1e-400"), -400);
  near(kept(log, "0.02"), Math.log10(0.02));
  assert.ok(Number.isNaN(kept(log, "-1")));
});

test("an address keeps everything; what is foreign is left out", () => {
  const state = { ...defaults(scene), a: 7, points: [[0.25, -1]] };
  assert.deepEqual(merged(scene, readHash(writeHash(state))), state);
  assert.deepEqual(merged(scene, { a: "7", points: 3, b: 1, knots: {} }), defaults(scene));
  for (const hash of ["", "#", "#%", "#{", "#null"]) assert.equal(readHash(hash), null);
});

test("handles drawn by a control are given up when it changes, and count themselves", () => {
  const now = { ...defaults(scene), knots: [[1, 0]] };
  assert.deepEqual(changed(scene, now, { a: 3 }).knots, []);
  const next = changed(scene, now, { knots: [[1, 0], [2, 0]] });
  assert.deepEqual([next.a, next.knots.length], [2, 2]);
});

test("points stay within their limits; a label keeps its x", () => {
  assert.deepEqual(within(points, [5, -5]), [1, -2]);
  assert.deepEqual(within({ ...points, vertical: true }, [0.7, 1.234567], [0.1, 0]), [0.1, 1.2346]);
});

test("a stroke is a function: rising, the last height wins", () => {
  assert.deepEqual(rising([[1, 0], [0, 1], [1, 5]]), [[0, 1], [1, 5]]);
  assert.equal(heightAt([[0, 0], [2, 4]], 0.5), 1);
  assert.equal(heightAt([[0, 0], [2, 4]], 3), null);
});

test("a stroke becomes points, labels or steps", () => {
  assert.deepEqual(toPoints([[0, 0], [1, 2]], 3), [[0, 0], [0.5, 1], [1, 2]]);
  assert.deepEqual(toLabels([[1.5, 1], [3, 1]], [[1, 9], [2, 9], [3, 9]]), [[1, 9], [2, 1], [3, 1]]);
  const stroke = Array.from({ length: 101 }, (_, k) => [k / 100, k < 40 ? 0 : k < 70 ? 1 : 0.5]);
  const steps = toSteps(stroke, 12);
  assert.equal(steps.length, 3);
  [[0, 0], [0.4, 1], [0.7, 0.5]].forEach(([x, y], k) => { near(steps[k][0], x, 0.03); near(steps[k][1], y, 0.06); });
  assert.ok(toSteps(stroke.map(([x]) => [x, Math.sin(40 * x)]), 12).length <= 12);
  assert.deepEqual(drawn(points, [[0, 0]], [[0, 1]]), [[0, 1]]);
  assert.equal(drawn(points, [[0, 0], [0.5, 9]], [[0, 1], [1, 1]])[1][1], 2);
});

test("letters are found on their own, the longest first", () => {
  const letters = { t: "time", f: "output", "f*": "target", u_j: "position" };
  assert.deepEqual(split("½ ∫ (f − f*)², don't", letters).filter(([, help]) => help).map(([part]) => part), ["f", "f*"]);
  assert.deepEqual(split("time t", letters), [["time ", ""], ["t", "time"]]);
  assert.equal(meaning("f and u_j of f", letters), "f: output; u_j: position");
  assert.deepEqual(split("t", {}), [["t", ""]]);
});

test("clocks: places rise from 0 to 1", () => {
  const times = [0, 1, 2, 10, 100], events = [[1.5, "a"], [20, "b"]];
  for (const clock of ["time", "log time", "event"]) {
    const found = places(times, events, clock, 100);
    assert.equal(found[0], 0);
    near(found[4], 1);
    assert.ok(found.every((place, k) => !k || place > found[k - 1]));
    found.forEach((place, k) => assert.equal(frameAt(found, place), k));
  }
  near(places([0, 1, 2], [], "time", 4)[2], 0.5);
  const run = { times: Float64Array.from(times), events };
  assert.deepEqual(nextEvent(run, 0), [2, events[0]]);
  assert.deepEqual(nextEvent(run, 2), [4, events[1]]);
  assert.deepEqual(nextEvent(run, 4), [4, undefined]);
});

function message() {
  const said = { n: 3, scene: "s", state: { a: 1 }, times: 0, events: [[1, "e"]], sentences: ["w"], code: "c", stage: "whole",
    views: [{ name: "loss", title: "T", x_label: "t", y_label: "L", layers: [{ kind: "history", label: "l", moving: false, arrays: { x: 0, y: 1 } }] },
      { name: "n", title: "N", x_label: "", y_label: "", layers: [{ kind: "dots", label: "d", moving: true, arrays: { y: 2 } }] }],
    arrays: [{ shape: [2], single: false }, { shape: [2], single: false }, { shape: [2, 3], single: true }] };
  let text = JSON.stringify(said);
  text += " ".repeat((8 - (text.length + 4) % 8) % 8);
  const buffer = new ArrayBuffer(4 + text.length + 16 + 16 + 24);
  new DataView(buffer).setUint32(0, text.length, true);
  new Uint8Array(buffer, 4).set(new TextEncoder().encode(text));
  new Float64Array(buffer, 4 + text.length, 4).set([0, 1, 0.5, 0.25]);
  new Float32Array(buffer, 4 + text.length + 32, 6).set([1, 2, 3, 4, 5, 6]);
  return buffer;
}

test("a message is unpacked, and exported as CSV and JSON", () => {
  const run = unpack(message());
  assert.equal(header(message()).n, 3);
  assert.deepEqual([...run.times], [0, 1]);
  const moving = run.views[1].layers[0].arrays.y;
  assert.deepEqual([...row(moving, 1, true)], [4, 5, 6]);
  assert.deepEqual([...row(run.views[0].layers[0].arrays.y, 1, true)], [0.5, 0.25]);
  assert.equal(csv(run), '"time","loss: l"\n0,0.5\n1,0.25\n');
  const told = JSON.parse(json(run));
  assert.deepEqual(told.views[1].layers[0].arrays.y, { shape: [2, 3], values: [1, 2, 3, 4, 5, 6] });
  assert.equal(told.schema, "shallowflow-explorer-1");
});

test("the norm of a neuron from its radius", () => {
  near(normOf(1, [3, 8]), 3);
  near(normOf(0.5, [3, 8]), 3e-4, 1e-15);
});
