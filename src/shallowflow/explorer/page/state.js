// What the user has set: kept in the address, undone and redone.

export class State {
  constructor(scenes, changed) {
    this.scenes = new Map(scenes.map((scene) => [scene.name, scene]));
    this.changed = changed;
    this.past = [];
    this.future = [];
  }

  get scene() { return this.scenes.get(this.now.scene); }

  defaults(name) {
    const scene = this.scenes.get(name);
    const values = Object.fromEntries(scene.controls.map((control) => [control.name, control.value]));
    return { scene: name, ...values, points: scene.handles.points.map((point) => [...point]) };
  }

  // Begin with the address, if it says something sensible, else with what the server was given.
  begin(name, given) {
    this.now = { ...this.defaults(name), ...given };
    const read = readHash(location.hash);
    if (read && this.scenes.has(read.scene)) {
      const known = this.defaults(read.scene);
      for (const key of Object.keys(known)) if (key in read && typeof read[key] === typeof known[key]) known[key] = read[key];
      this.now = known;
    }
  }

  // Change something. A gesture (a drag) is one step of undo: `going` says that it goes on.
  set(change, going = false) { this.#become({ ...this.now, ...change }, going); }

  // Go to a scene as it is at first, or with points of one's own.
  open(name, change = {}) { this.#become({ ...this.defaults(name), ...change }, false); }

  #become(next, going) {
    if (!this.going) this.past.push(structuredClone(this.now));
    this.going = going;
    this.future = [];
    this.now = next;
    this.tell(going);
  }

  undo() { this.#step(this.past, this.future); }

  redo() { this.#step(this.future, this.past); }

  #step(from, to) {
    if (!from.length) return;
    to.push(this.now);
    this.now = from.pop();
    this.tell(false);
  }

  tell(going) {
    if (location.protocol !== "file:") history.replaceState(null, "", writeHash(this.now));
    this.changed(going);
  }

  // What the server needs: everything but the scene's name.
  values() {
    const { scene, ...values } = this.now;
    return values;
  }
}

export function writeHash(state) { return "#" + encodeURIComponent(JSON.stringify(state)); }

export function readHash(hash) {
  try { return JSON.parse(decodeURIComponent(hash.slice(1))); } catch { return null; }
}
