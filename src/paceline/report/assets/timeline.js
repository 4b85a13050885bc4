// The timeline with its buttons: who trains, sends, works and waits, and for whom.

const SHORTEST = 1e-6;

class Timeline {
  constructor(box, packed) {
    this.packed = packed;
    this.frames = [];
    this.controls = element("div", { class: "controls no-print" });
    this.kinds = element("ul", { class: "legend" });
    this.canvas = element("canvas", { tabindex: "0", role: "application", class: "timeline",
      "aria-label": "Timeline. Arrows move, plus and minus zoom in time, star and underscore zoom in devices, 0 shows everything, n and p go from wait to wait." });
    this.words = element("p", { class: "note", "aria-live": "polite", id: "timeline-words" });
    this.drawing = new Drawing(this.canvas);
    box.append(this.controls, this.kinds, this.canvas, this.words);
    listen(this.canvas, this);
    new ResizeObserver(() => this.refit()).observe(this.canvas.parentElement);
    onTheme(() => { this.drawing.recolour(); this.drawKinds(); this.redraw(); });
    this.ready = this.open(0);
  }

  async open(which) {
    const window = this.state ? [this.state.view.from, this.state.view.to] : null;
    this.which = which;
    const spans = await Spans.of(this.packed[which]);
    const same = window && window[1] <= spans.about.runEnd;
    this.state = { spans, filter: this.state ? this.state.filter : new Filter(), pinned: [], lit: [], path: [], marked: -1, chosen: -1,
      view: { from: spans.about.begin, to: spans.about.end, row: 0, height: 14 } };
    this.sort(this.by || "number");
    this.drawControls();
    this.drawKinds();
    this.refit();
    this.everything();
    if (same) this.show(...window);
    this.say("");
  }

  // -- what is shown -----------------------------------------------------------------------------------------------

  sort(by) {
    this.by = by;
    this.state.order = ordered(this.state.spans, by);
    this.state.rowOf = new Uint32Array(this.state.spans.sites);
    this.state.order.forEach((site, row) => { this.state.rowOf[site] = row; });
    this.redraw();
  }

  refit() {
    if (!this.state) return;
    const width = Math.max(240, this.canvas.parentElement.clientWidth), rows = this.state.order.length;
    const height = Math.max(140, Math.min(520, rows * 16)) + AXIS + (this.state.pinned.length ? this.state.pinned.length * PIN + 6 : 0);
    this.drawing.fit(width, height);
    this.clamp();
    this.redraw();
  }

  get body() { return this.drawing.height - AXIS - this.drawing.top(this.state); }

  everything() {
    const { about } = this.state.spans;
    this.state.view = { from: about.begin, to: Math.max(about.end, about.begin + SHORTEST), row: 0, height: Math.min(22, this.body / this.state.order.length) };
    this.redraw();
  }

  /** A stretch of time; used by the curves too. */
  show(from, to) {
    Object.assign(this.state.view, { from, to: Math.max(to, from + SHORTEST) });
    this.clamp();
    this.redraw();
  }

  clamp() {
    const { view, spans, order } = this.state, { begin } = spans.about, end = Math.max(spans.about.end, begin + SHORTEST);
    const length = Math.min(Math.max(view.to - view.from, SHORTEST), end - begin);
    view.from = Math.min(Math.max(view.from, begin), end - length);
    view.to = view.from + length;
    view.height = Math.min(40, Math.max(view.height, this.body / order.length));
    view.row = Math.max(0, Math.min(view.row, order.length - this.body / view.height));
  }

  zoomTime(factor, x = (LEFT + this.drawing.width) / 2) {
    const { view } = this.state, part = Math.max(0, Math.min(1, (x - LEFT) / (this.drawing.width - LEFT)));
    const at = view.from + part * (view.to - view.from), length = (view.to - view.from) * factor;
    this.show(at - part * length, at + (1 - part) * length);
  }

  zoomRows(factor, y = this.drawing.height / 2) {
    const { view } = this.state, offset = Math.max(0, y - this.drawing.top(this.state)), row = view.row + offset / view.height;
    view.height = Math.min(40, view.height / factor);
    this.clamp();
    view.row = row - offset / view.height;
    this.clamp();
    this.redraw();
  }

  pan(dx, dy) {
    const { view } = this.state, time = (dx / (this.drawing.width - LEFT)) * (view.to - view.from);
    view.from += time;
    view.to += time;
    view.row += dy / view.height;
    this.clamp();
    this.redraw();
  }

  // -- pointing and choosing ---------------------------------------------------------------------------------------

  hit(x, y) {
    const found = x < 0 ? null : under(this.state, this.drawing, x, y);
    return found ? { ...found, span: this.state.view.height < NEAR && y > this.drawing.top(this.state) ? this.farSpan(found) : spanAt(this.state, this.drawing, found) } : null;
  }

  farSpan(found) { return spanAt(this.state, this.drawing, found); }

  /** A span and, if it is a wait, what its cause did meanwhile. */
  together(i) {
    const { spans } = this.state, { peer } = spans;
    if (spans.kind[i] !== WAIT || peer[i] < 0) return [i];
    return [i, ...spans.doings(peer[i], spans.start[i], spans.end[i])];
  }

  point(x, y, event) {
    const found = this.hit(x, y);
    const span = found ? found.span : -1, { spans } = this.state;
    const lit = span >= 0 ? this.together(span) : this.state.chosen >= 0 ? this.together(this.state.chosen) : [];
    if (String(lit) !== String(this.state.lit)) { this.state.lit = lit; this.redraw(); }
    if (!event || !found) { showTip(null); return; }
    showTip(span >= 0 ? spans.told(span) : [spans.names[found.site], "nothing booked at this time"], event.clientX, event.clientY);
  }

  choose(x, y) {
    const found = this.hit(x, y);
    if (!found || found.span < 0) { this.clear(); return; }
    this.choosing(found.span);
  }

  /** Keep a span in sight: its site and, if it waits, its cause stand above all rows. */
  choosing(i) {
    const { spans } = this.state, cause = spans.kind[i] === WAIT ? spans.peer[i] : -1;
    Object.assign(this.state, { chosen: i, lit: this.together(i), path: [], marked: spans.site[i] });
    this.state.pinned = cause >= 0 ? [spans.site[i], cause] : [spans.site[i]];
    this.refit();
    const [what, ...more] = spans.told(i);
    this.say(`${what}: ${more.join("; ")}.`);
  }

  clear() {
    Object.assign(this.state, { chosen: -1, lit: [], path: [], pinned: [], marked: -1 });
    this.refit();
    this.say("");
  }

  /** From wait to wait, in the order of time, among the rows in sight or the chosen site. */
  next(step) {
    const { spans, chosen, filter } = this.state, waits = [];
    for (let i = 0; i < spans.count; i += 1) if (spans.kind[i] === WAIT && filter.passes(spans, i)) waits.push(i);
    if (!waits.length) return;
    const at = waits.indexOf(chosen);
    this.focusOn(waits[(at < 0 ? (step > 0 ? 0 : waits.length - 1) : at + step + waits.length) % waits.length]);
  }

  focusOn(i) {
    const { spans } = this.state;
    this.choosing(i);
    const around = Math.max(spans.length[i], SHORTEST);
    this.show(spans.start[i] - around, spans.end[i] + around / 2);
    this.reveal(spans.site[i]);
  }

  reveal(site) {
    const { view, rowOf } = this.state;
    view.height = Math.max(view.height, 18);
    view.row = rowOf[site] - this.body / view.height / 2;
    this.clamp();
    this.redraw();
  }

  find(text) {
    const site = searched(this.state.spans, text);
    if (site < 0) { this.say(text.trim() ? `Nobody here is called ${text.trim()}.` : ""); return; }
    this.state.marked = site;
    this.state.pinned = [site];
    this.refit();
    this.reveal(site);
    const { spans } = this.state;
    this.say(`${spans.names[site]}: waited ${plain(spans.waiting[site])} s, a training takes ${plain(spans.training[site])} s, moved ${united(spans.traffic[site], "B")}.`);
  }

  longest() {
    const found = longestWait(this.state.spans, this.state.filter);
    if (found < 0) this.say("No device waits for anybody here."); else this.focusOn(found);
  }

  critical(round) {
    const found = criticalPath(this.state.spans, round);
    if (!found) { this.say(`No act of round ${round} takes any time here.`); return; }
    Object.assign(this.state, { path: found.path, lit: [], chosen: -1, pinned: [] });
    this.refit();
    const sites = [...new Set(found.path.map((i) => this.state.spans.site[i]))];
    if (sites.length <= 12) this.state.pinned = sites;
    this.refit();
    const margin = 0.03 * (found.end - found.begin);
    this.show(found.begin - margin, found.end + margin);
    this.say(pathTold(this.state.spans, found));
  }

  say(text) { this.words.textContent = text || this.told(); }

  told() { return this.state.spans.about.told; }

  // -- drawing -----------------------------------------------------------------------------------------------------

  redraw() {
    if (this.waiting || !this.state || !this.drawing.width) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      const begun = performance.now();
      this.drawing.draw(this.state);
      this.frames.push(performance.now() - begun);
      if (this.frames.length > 500) this.frames.shift();
    });
  }

  drawKinds() {
    if (!this.state) return;
    const { filter } = this.state;
    this.kinds.replaceChildren(...KINDS.map((kind, k) => element("li", {}, element("button", { type: "button", "data-kind": kind,
      "aria-pressed": String(filter.kinds[k]), onclick: () => { filter.kinds[k] = !filter.kinds[k]; this.drawKinds(); this.redraw(); } },
    element("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), element("span", {}, kind)))));
  }

  drawControls() {
    const { spans, filter } = this.state, number = (name, value, set) => labelled(name, element("input", { type: "number", inputmode: "numeric",
      min: spans.firstRound, max: spans.lastRound, value, onchange: (event) => set(event.target.value === "" ? null : Number(event.target.value)) }));
    const search = element("input", { type: "search", placeholder: "client 22", "data-search": true,
      onkeydown: (event) => { if (event.key === "Enter") this.find(search.value); }, onchange: () => this.find(search.value) });
    const round = element("input", { type: "number", inputmode: "numeric", min: spans.firstRound, max: spans.lastRound, value: spans.firstRound, "data-round": true });
    this.controls.replaceChildren(
      ...(this.packed.length > 1 ? [element("div", { class: "choices", role: "group", "aria-label": "run" }, ...this.packed.map((one, k) =>
        button(one.label, () => { this.ready = this.open(k); }, { "aria-pressed": String(k === this.which) })))] : []),
      element("div", { class: "choices", role: "group", "aria-label": "zoom" },
        button("time +", () => this.zoomTime(0.5), { "aria-label": "zoom in, time", "data-do": "in" }), button("time −", () => this.zoomTime(2), { "aria-label": "zoom out, time" }),
        button("devices +", () => this.zoomRows(0.5), { "aria-label": "zoom in, devices" }), button("devices −", () => this.zoomRows(2), { "aria-label": "zoom out, devices" }),
        button("everything", () => { this.clear(); this.everything(); }, { "data-do": "everything" })),
      labelled("find", search),
      labelled("sort by", chooser(ORDERS, this.by, (value) => this.sort(value))),
      element("div", { class: "choices" },
        number("rounds from", Number.isFinite(filter.from) ? filter.from : null, (value) => { filter.from = value ?? -Infinity; this.redraw(); }),
        number("to", Number.isFinite(filter.to) ? filter.to : null, (value) => { filter.to = value ?? Infinity; this.redraw(); })),
      element("div", { class: "choices" }, button("longest wait", () => this.longest(), { "data-do": "longest" })),
      element("div", { class: "choices" }, labelled("round", round), button("critical path", () => this.critical(Number(round.value)), { "data-do": "critical" })),
      this.saving());
  }

  saving() {
    const { about } = this.state.spans, name = `timeline of ${about.label}, seed ${about.seed}`;
    return saveButtons(name, () => this.picture(`${about.label}, seed ${about.seed}`), () => this.rows());
  }

  /** What is in sight, with a key of those kinds that are shown. */
  picture(title) {
    const { width, height, colours } = this.drawing;
    const keys = KINDS.map((name, k) => ({ name, colour: colours[k] })).filter((_, k) => this.state.filter.kinds[k]);
    return { drawing: this.drawing.svg(this.state), width, height, title, keys };
  }

  /** The spans between the ends of what is in sight. */
  rows() {
    const { spans, filter, view } = this.state, rows = [["site", "kind", "start", "end", "round", "bytes", "peer"]];
    for (let i = 0; i < spans.count; i += 1) {
      if (spans.end[i] < view.from || spans.start[i] > view.to || !filter.passes(spans, i)) continue;
      rows.push([spans.names[spans.site[i]], KINDS[spans.kind[i]], spans.start[i], spans.end[i], spans.round[i], spans.bytes[i], spans.peer[i] < 0 ? "" : spans.names[spans.peer[i]]]);
    }
    return rows;
  }
}
