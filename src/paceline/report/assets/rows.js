// Which sites are shown in which order, and which of their spans.

const ORDERS = [["number", "number"], ["waiting", "waiting, longest first"], ["speed", "speed, slowest first"], ["traffic", "traffic, most first"]];

/** Sites from top to bottom: servers first, then devices as asked. */
function ordered(spans, by) {
  const { servers } = spans.about;
  const devices = Array.from({ length: spans.sites - servers }, (_, k) => k + servers);
  const key = { waiting: spans.waiting, speed: spans.training, traffic: spans.traffic }[by];
  if (key) devices.sort((a, b) => key[b] - key[a] || a - b);
  return Uint32Array.from([...Array(servers).keys(), ...devices]);
}

/** The site that somebody means: its whole name, or the number of a client. */
function searched(spans, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return -1;
  const names = spans.names.map((name) => name.toLowerCase());
  const exact = names.indexOf(wanted) >= 0 ? names.indexOf(wanted) : names.indexOf(`client ${wanted}`);
  return exact >= 0 ? exact : names.findIndex((name) => name.includes(wanted));
}

/** What is left out: kinds that are off, rounds outside of the ones asked for. */
class Filter {
  constructor() { this.kinds = [true, true, true, true, true]; this.from = -Infinity; this.to = Infinity; }

  passes(spans, i) {
    return this.kinds[spans.kind[i]] && spans.round[i] >= this.from && spans.round[i] <= this.to;
  }
}

/** The longest wait that passes; -1 where there is none. */
function longestWait(spans, filter) {
  let found = -1;
  for (let i = 0; i < spans.count; i += 1) {
    const wait = spans.kind[i] === WAIT && spans.peer[i] >= 0 && filter.passes(spans, i);
    if (wait && (found < 0 || spans.length[i] > spans.length[found])) found = i;
  }
  return found;
}
