// Time: frames played, scrubbed, stepped from event to event.

/** @typedef {import("./types").Run} Run @typedef {import("./types").Moment} Moment */

export const CLOCKS = ["time", "log time", "event"];
/** @type {Record<string, number>} */
export const SPEEDS = { "¼": 0.25, "½": 0.5, "1": 1, "2": 2, "4": 4 };
const SECONDS = 8;

/**
 * Where each frame lies on the slider, from 0 to 1, by the chosen clock; `end`: the time that is 1.
 * @param {ArrayLike<number>} times @param {Moment[]} events @param {string} clock @param {number} end
 * @returns {number[]}
 */
export function places(times, events, clock, end) {
  const last = end || 1, all = Array.from(times);
  if (clock === "log time") {
    const first = all.find((t) => t > 0) ?? 1;
    return all.map((t) => (t <= 0 ? 0 : (1 + Math.log(t / first)) / (1 + Math.log(Math.max(last / first, 1)))));
  }
  if (clock === "event" && events.length) {
    const share = 0.001, sum = events.length + share;
    let before = 0;
    return all.map((t) => {
      while (before < events.length && events[before][0] <= t) before++;
      return (before + share * t / last) / sum;
    });
  }
  return all.map((t) => t / last);
}

/**
 * The last frame at or before a place.
 * @param {number[]} found @param {number} place
 */
export function frameAt(found, place) {
  let frame = 0;
  while (frame + 1 < found.length && found[frame + 1] <= place + 1e-12) frame++;
  return frame;
}

/**
 * The first frame at or after the first event later than a frame, and that event.
 * @param {Run} run @param {number} frame
 * @returns {[number, Moment | undefined]}
 */
export function nextEvent(run, frame) {
  const event = run.events.find(([time]) => time > run.times[frame] * (1 + 1e-12));
  const then = event ? run.times.findIndex((t) => t >= event[0]) : -1;
  return [then < 0 ? run.times.length - 1 : then, event];
}

export class Player {
  /** @param {() => void} show */
  constructor(show) {
    this.show = show;
    this.clock = CLOCKS[0];
    this.speed = 1;
    this.place = 0;
    this.frame = 0;
    this.playing = false;
    /** @type {number[]} */
    this.places = [0];
    /** @type {Run | null} */
    this.run = null;
  }

  /** @param {Run} run */
  load(run) {
    this.run = run;
    this.#count();
    this.seek(this.place);
  }

  /** @param {string} clock */
  setClock(clock) {
    this.clock = clock;
    if (!this.run) return;
    this.#count();
    this.toFrame(this.frame);
  }

  #count() {
    if (this.run) this.places = places(this.run.times, this.run.events, this.clock, this.run.end);
  }

  /** @param {number} place */
  seek(place) {
    this.place = Math.max(0, Math.min(1, place));
    this.frame = frameAt(this.places, this.place);
    this.show();
  }

  /** @param {number} frame */
  toFrame(frame) {
    this.frame = Math.max(0, Math.min(this.places.length - 1, frame));
    this.place = this.places[this.frame];
    this.show();
  }

  // Step to the next event; the event.
  next() {
    if (!this.run) return undefined;
    const [frame, event] = nextEvent(this.run, this.frame);
    this.toFrame(frame);
    return event;
  }

  toggle(playing = !this.playing) {
    this.playing = playing;
    if (!playing) return this.show();
    if (this.place >= 1) this.seek(0);
    let before = performance.now();
    /** @param {number} now */
    const tick = (now) => {
      if (!this.playing) return;
      if (this.place >= 1) this.playing = false;
      this.seek(this.place + this.speed * Math.max(now - before, 0) / (1000 * SECONDS));
      before = now;
      if (this.playing) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }
}
