// The spans of one run, unpacked into columns, and what can be asked of them.

const KINDS = ["train", "send", "receive", "work", "wait"];
const WAIT = 4;
const COLUMN_TYPES = {
  site: Uint32Array, kind: Uint8Array, lane: Uint16Array, start: Float64Array, length: Float32Array, round: Int32Array,
  bytes: Float32Array, peer: Int32Array,
};

/** A column of numbers: base64 of deflated bytes, all first bytes of the numbers before all second ones. */
async function unpacked(text, Type) {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const width = Type.BYTES_PER_ELEMENT, count = planes.length / width, bytes = new Uint8Array(planes.length);
  for (let plane = 0; plane < width; plane += 1) {
    for (let i = 0, at = plane * count; i < count; i += 1) bytes[i * width + plane] = planes[at + i];
  }
  return new Type(bytes.buffer);
}

class Spans {
  static async of(packed) {
    const columns = {};
    await Promise.all(Object.entries(COLUMN_TYPES).map(async ([name, Type]) => {
      columns[name] = await unpacked(packed.columns[name], Type);
    }));
    return new Spans(packed, columns);
  }

  constructor(packed, columns) {
    Object.assign(this, columns);
    this.about = packed;
    this.count = this.start.length;
    this.names = packed.sites;
    this.sites = packed.sites.length;
    this.end = Float64Array.from(this.start, (value, i) => value + this.length[i]);
    this.index();
    this.measure();
  }

  /** Where each site's spans begin among all, which are sorted by site and start; and its longest span. */
  index() {
    this.first = new Uint32Array(this.sites + 1);
    for (let i = 0; i < this.count; i += 1) this.first[this.site[i] + 1] += 1;
    for (let s = 0; s < this.sites; s += 1) this.first[s + 1] += this.first[s];
    this.longest = new Float64Array(this.sites);
    this.lanes = new Uint16Array(this.sites).fill(1);
    for (let i = 0; i < this.count; i += 1) {
      const s = this.site[i];
      if (this.length[i] > this.longest[s]) this.longest[s] = this.length[i];
      if (this.lane[i] + 1 > this.lanes[s]) this.lanes[s] = this.lane[i] + 1;
    }
  }

  /** Per site: seconds waited, seconds of a training on average, bytes moved; and the rounds there are. */
  measure() {
    this.waiting = new Float64Array(this.sites);
    this.training = new Float64Array(this.sites);
    this.traffic = new Float64Array(this.sites);
    const trainings = new Uint32Array(this.sites);
    this.firstRound = Infinity;
    this.lastRound = -Infinity;
    for (let i = 0; i < this.count; i += 1) {
      const s = this.site[i];
      if (this.kind[i] === WAIT) this.waiting[s] += this.length[i];
      else if (this.kind[i] === 0) { this.training[s] += this.length[i]; trainings[s] += 1; }
      this.traffic[s] += this.bytes[i];
      if (this.round[i] < this.firstRound) this.firstRound = this.round[i];
      if (this.round[i] > this.lastRound) this.lastRound = this.round[i];
    }
    for (let s = 0; s < this.sites; s += 1) this.training[s] = trainings[s] ? this.training[s] / trainings[s] : 0;
  }

  /** The places of a site's spans that may touch a stretch of time: from the first to before the second. */
  range(site, from, to) {
    const low = this.first[site], high = this.first[site + 1];
    const before = lastNotAbove(this.start, from - this.longest[site] - 1e-9, low, high);
    const after = lastNotAbove(this.start, to, low, high);
    return [before < 0 ? low : before, after < 0 ? low : after + 1];
  }

  /** What a site did between two times, without its waits. */
  doings(site, from, to) {
    const [low, high] = this.range(site, from, to), found = [];
    for (let i = low; i < high; i += 1) {
      if (this.kind[i] !== WAIT && this.end[i] > from && this.start[i] < to) found.push(i);
    }
    return found;
  }

  /** One span in lines of text. */
  told(i) {
    const kind = KINDS[this.kind[i]], peer = this.peer[i] < 0 ? null : this.names[this.peer[i]];
    const verb = { train: "trains", send: `sends${peer ? ` to ${peer}` : ""}`, receive: `receives${peer ? ` from ${peer}` : ""}`,
      work: "works", wait: peer ? `waits for ${peer}` : "waits, no cause recorded" }[kind];
    const lines = [`${this.names[this.site[i]]} ${verb}`,
      `${plain(this.length[i])} s (${plain(this.start[i], 6)} to ${plain(this.end[i], 6)}), round ${this.round[i]}`];
    if (this.bytes[i] > 0) lines.push(united(this.bytes[i], "B"));
    if (this.kind[i] === WAIT && peer) lines.push(...this.excuse(i));
    return lines;
  }

  /** What the cause of a wait did meanwhile. */
  excuse(i) {
    const sums = new Map();
    for (const k of this.doings(this.peer[i], this.start[i], this.end[i])) {
      const inside = Math.min(this.end[k], this.end[i]) - Math.max(this.start[k], this.start[i]);
      sums.set(this.kind[k], (sums.get(this.kind[k]) || 0) + inside);
    }
    const parts = [...sums].filter(([, length]) => length > 0).sort((a, b) => b[1] - a[1]).map(([kind, length]) => `${KINDS[kind]} ${plain(length)} s`);
    return parts.length ? [`meanwhile ${this.names[this.peer[i]]}: ${parts.join(", ")}`] : [];
  }
}
