// The line to the server: the latest request wins, a lost line is taken up again.

import { header } from "explorer/message";

/** @typedef {{n: number, scene: string, state: object, going: boolean}} Request */

const AGAIN = 1000, BUSY = 1013;

export class Line {
  /**
   * @param {{run: (data: ArrayBuffer) => void, error: (text: string) => void, status: (text: string, bad?: boolean) => void}} to
   */
  constructor(to) {
    this.to = to;
    this.asked = 0;
    this.whole = 0;
    /** @type {Request | null} */
    this.waiting = null;
    this.socket = this.#connected();
  }

  #connected() {
    const socket = new WebSocket(`ws://${location.host}/run`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { this.to.status("connected"); if (this.waiting) this.#send(this.waiting); };
    socket.onclose = ({ code }) => {
      const why = code === BUSY ? "the server is busy, too many pages are open" : "the server is gone";
      this.to.status(`${why}: trying again (a server that was started anew prints a new address)`, true);
      setTimeout(() => { this.socket = this.#connected(); }, AGAIN);
    };
    socket.onmessage = ({ data }) => this.#heard(data);
    return socket;
  }

  /** @param {string} scene @param {object} state */
  ask(scene, state, going = false) { this.#send({ n: ++this.asked, scene, state, going }); }

  /** @param {Request} request */
  #send(request) {
    this.waiting = request;
    if (this.socket.readyState !== WebSocket.OPEN) return;
    this.to.status("computing");
    this.socket.send(JSON.stringify(request));
  }

  /** @param {string | ArrayBuffer} data */
  #heard(data) {
    if (typeof data === "string") {
      const { n, error } = JSON.parse(data);
      if (n !== this.asked && n !== 0) return;
      this.waiting = null;
      this.to.error(error);
      return;
    }
    const { n, stage } = header(data);
    if (n < this.asked || n === this.whole) return;
    if (stage === "whole") [this.whole, this.waiting] = [n, null];
    this.to.run(data);
  }
}
