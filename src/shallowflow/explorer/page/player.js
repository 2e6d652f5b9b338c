// Time: frames played, scrubbed, stepped from event to event.

export const CLOCKS = ["time", "log time", "event"];
export const SPEEDS = { "¼": 0.25, "½": 0.5, "1": 1, "2": 2, "4": 4 };
const SECONDS = 8;

// Where each frame lies on the slider, from 0 to 1, by the chosen clock.
export function places(times, events, clock) {
  const last = times[times.length - 1] || 1;
  if (clock === "log time") {
    const first = times.find((t) => t > 0) ?? 1;
    return Array.from(times, (t) => (t <= 0 ? 0 : (1 + Math.log(t / first)) / (1 + Math.log(last / first))));
  }
  if (clock === "event" && events.length) {
    return Array.from(times, (t) => (events.filter(([at]) => at <= t).length + 0.001 * t / last) / (events.length + 0.001));
  }
  return Array.from(times, (t) => t / last);
}

// The last frame at or before a place.
export function frameAt(found, place) {
  let frame = 0;
  while (frame + 1 < found.length && found[frame + 1] <= place + 1e-12) frame++;
  return frame;
}

export class Player {
  constructor(show) {
    Object.assign(this, { show, clock: "time", speed: 1, place: 0, frame: 0, playing: false });
  }

  load(run) {
    this.run = run;
    this.#count();
    this.seek(Math.min(this.place, 1));
  }

  setClock(clock) {
    this.clock = clock;
    if (!this.run) return;
    this.#count();
    this.toFrame(this.frame);
  }

  #count() { this.places = places(this.run.times, this.run.events, this.clock); }

  seek(place) {
    this.place = Math.max(0, Math.min(1, place));
    this.frame = frameAt(this.places, this.place);
    this.show(this.frame, this.place);
  }

  toFrame(frame) {
    this.frame = Math.max(0, Math.min(this.run.times.length - 1, frame));
    this.place = this.places[this.frame];
    this.show(this.frame, this.place);
  }

  // The first frame after the next event.
  next() {
    const now = this.run.times[this.frame];
    const event = this.run.events.find(([time]) => time > now);
    const then = event ? Array.from(this.run.times).findIndex((t) => t >= event[0]) : -1;
    this.toFrame(then < 0 ? this.run.times.length - 1 : then);
    return event;
  }

  toggle() {
    this.playing = !this.playing;
    if (!this.playing) return;
    if (this.place >= 1) this.seek(0);
    let before = performance.now();
    const tick = (now) => {
      if (!this.playing) return;
      this.seek(this.place + this.speed * (now - before) / (1000 * SECONDS));
      before = now;
      if (this.place >= 1) { this.playing = false; this.show(this.frame, this.place); } else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }
}
