// The line to the server: the latest request wins, a lost line is taken up again.

export class Line {
  constructor({ run, error, status }) {
    Object.assign(this, { run, error, status });
    this.asked = 0;
    this.waiting = null;
    this.connect();
  }

  connect() {
    this.socket = new WebSocket(`ws://${location.host}/run`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => { this.status("connected"); if (this.waiting) this.send(this.waiting); };
    this.socket.onclose = () => { this.status("the server is gone: trying again"); setTimeout(() => this.connect(), 1000); };
    this.socket.onmessage = ({ data }) => this.heard(data);
  }

  ask(scene, state) { this.send({ n: ++this.asked, scene, state }); }

  send(request) {
    this.waiting = request;
    if (this.socket.readyState === WebSocket.OPEN) { this.status("computing"); this.socket.send(JSON.stringify(request)); }
  }

  heard(data) {
    if (typeof data === "string") {
      const { n, error } = JSON.parse(data);
      if (n === this.asked || n === 0) { this.waiting = null; this.error(error); }
      return;
    }
    const length = new DataView(data).getUint32(0, true);
    const { n } = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
    if (n < this.asked) return;
    this.waiting = null;
    this.run(data);
  }
}
