// What the user has set: kept in the address, undone and redone.

/**
 * @typedef {import("./types").Scene} Scene @typedef {import("./types").Settings} Settings
 * @typedef {import("./types").Values} Values @typedef {import("./types").Pair} Pair @typedef {import("./types").Look} Look
 */

/**
 * Every control and every handle of a scene as declared.
 * @param {Scene} scene
 * @returns {Settings}
 */
export function defaults(scene) {
  const values = Object.fromEntries(scene.controls.map((control) => [control.name, control.value]));
  const places = Object.fromEntries(scene.handles.map(({ name, points }) => [name, points.map((point) => [...point])]));
  return /** @type {Settings} */ ({ scene: scene.name, ...values, ...places });
}

/**
 * What an address says of a scene, over its defaults; what is unknown or of another type is left out.
 * @param {Scene} scene
 * @param {Record<string, unknown>} read
 */
export function merged(scene, read) {
  const known = defaults(scene);
  for (const key of Object.keys(known)) {
    const value = read[key];
    if (key in read && typeof value === typeof known[key] && Array.isArray(value) === Array.isArray(known[key])) {
      known[key] = /** @type {any} */ (value);
    }
  }
  return known;
}

/**
 * Handles that some controls draw anew are given up when one of these changes; a control that counts handles follows them.
 * @param {Scene} scene
 * @param {Settings} now
 * @param {Values} change
 * @returns {Settings}
 */
export function changed(scene, now, change) {
  const next = { ...now, ...change };
  for (const { name, drawn_by, counted_by } of scene.handles) {
    if (!(name in change) && drawn_by.some((control) => control in change)) next[name] = [];
    const placed = /** @type {Pair[]} */ (next[name]);
    if (name in change && counted_by && placed.length) next[counted_by] = placed.length;
  }
  return /** @type {Settings} */ (next);
}

/** @param {object} state */
export function writeHash(state) { return "#" + encodeURIComponent(JSON.stringify(state)); }

/** @param {string} hash @returns {any} */
export function readHash(hash) {
  try { return JSON.parse(decodeURIComponent(hash.slice(1))); } catch { return null; }
}

export class State {
  /** @param {Scene[]} scenes @param {(going: boolean) => void} told */
  constructor(scenes, told) {
    this.scenes = new Map(scenes.map((scene) => [scene.name, scene]));
    this.told = told;
    /** @type {Settings[]} */
    this.past = [];
    /** @type {Settings[]} */
    this.future = [];
    this.going = false;
    /** @type {Look} */
    this.look = {};
    /** @type {Settings | null} */
    this.kept = null;
    this.now = defaults(scenes[0]);
  }

  /** @param {string} name @returns {Scene} */
  named(name) {
    const found = this.scenes.get(name);
    if (!found) throw new Error(`there is no scene ${name}`);
    return found;
  }

  get scene() { return this.named(this.now.scene); }

  /** @param {string} name @returns {Pair[]} */
  points(name) { return /** @type {Pair[]} */ (this.now[name] ?? []); }

  /**
   * Begin with the address, if it says something sensible, else with what the server was given.
   * @param {string} name @param {Values} given @param {string} hash
   */
  begin(name, given, hash) {
    this.now = { ...defaults(this.named(name)), ...given, scene: name };
    const read = readHash(hash);
    const scene = read && this.scenes.get(read.scene);
    if (!scene || scene.name === "saved") return;
    this.now = merged(scene, read);
    if (read.look && typeof read.look === "object") this.look = read.look;
    if (read.kept?.scene === scene.name) this.kept = merged(scene, read.kept);
  }

  /**
   * Change something. A gesture (a drag) is one step of undo: `going` says that it goes on.
   * @param {Values} change
   */
  set(change, going = false) { this.#become(changed(this.scene, this.now, change), going); }

  /**
   * Go to a scene as it is at first, or with points of one's own.
   * @param {string} name @param {Values} change
   */
  open(name, change = {}) { this.#become({ ...defaults(this.named(name)), ...change, scene: name }, false); }

  /** @param {Settings} next @param {boolean} going */
  #become(next, going) {
    if (!this.going) this.past.push(structuredClone(this.now));
    this.going = going;
    this.future = [];
    this.now = next;
    this.tell(going);
  }

  undo() { this.#step(this.past, this.future); }

  redo() { this.#step(this.future, this.past); }

  /** @param {Settings[]} from @param {Settings[]} to */
  #step(from, to) {
    const next = from.pop();
    if (!next) return;
    to.push(this.now);
    this.now = next;
    this.tell(false);
  }

  /** @param {boolean} going */
  tell(going) {
    this.write();
    this.told(going);
  }

  // The address holds what is set, what is kept behind it, and how it is looked at.
  write() {
    if (location.protocol === "file:") return;
    const kept = this.kept ? { kept: this.kept } : {};
    history.replaceState(null, "", writeHash({ ...this.now, ...kept, look: this.look }));
  }

  // What the server needs: everything but the scene's name.
  values(settings = this.now) {
    const { scene, ...values } = settings;
    return values;
  }
}
