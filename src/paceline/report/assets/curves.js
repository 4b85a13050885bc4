// Accuracy and the like over time, rounds, traffic, energy: lines with bands, ends and the point at the target.

/** Everything about one curve between its own ends: what it is at a place, by straight lines. */
function valueAt(line, x) {
  const xs = line.x;
  if (!xs.length || x < xs[0] || x > xs[xs.length - 1]) return null;
  const k = Math.max(0, Math.min(lastNotAbove(xs, x), xs.length - 2));
  if (xs.length === 1) return { y: line.y[0], seeds: line.seeds[0] || 1 };
  const part = xs[k + 1] > xs[k] ? (x - xs[k]) / (xs[k + 1] - xs[k]) : 0;
  const between = (column) => column[k] + part * (column[k + 1] - column[k]);
  const found = { y: between(line.y), seeds: line.seeds.length ? line.seeds[k] : 1 };
  return line.low.length ? { ...found, low: between(line.low), high: between(line.high) } : found;
}

/** The least and greatest of what must be seen: lines, ends and the target; bands may leave the paper. */
function heights(lines, target) {
  const values = lines.flatMap((line) => [...line.y, ...line.ends.map((end) => end.y)]);
  if (target !== null) values.push(target);
  let low = Infinity, high = -Infinity;
  for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
  const margin = 0.06 * (high - low) || 0.05 * Math.abs(high) || 1;
  return [low - margin, high + margin];
}

class Curves {
  constructor(box, data, onStretch) {
    this.data = data;
    this.onStretch = onStretch;
    this.measure = Object.keys(data.measures)[0];
    this.axis = Object.keys(data.measures[this.measure].over)[0];
    this.logarithmic = false;
    this.hidden = new Set();
    this.canvas = element("div", { class: "chart", role: "img" });
    this.controls = element("div", { class: "controls no-print" });
    this.words = element("p", { class: "note", "aria-live": "polite" });
    box.append(this.controls, this.legend(), this.canvas, this.words);
    this.chart = echarts.init(this.canvas, null, { renderer: "svg" });
    this.chart.on("brushEnd", (event) => this.chosen(event.areas));
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    onTheme(() => this.draw());
    this.draw();
  }

  get one() { return this.data.measures[this.measure]; }

  get lines() { return this.one.over[this.axis]; }

  resize() { this.chart.resize(); this.draw(); }

  legend() {
    this.keys = element("ul", { class: "legend" });
    return this.keys;
  }

  drawLegend() {
    this.keys.replaceChildren(...this.data.groups.map((group, k) => {
      const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      swatch.setAttribute("viewBox", "0 0 44 10");
      swatch.setAttribute("aria-hidden", "true");
      const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      const marks = { x1: 0, y1: 5, x2: 44, y2: 5, "stroke-width": 2.5, stroke: inked(group.look) };
      if (group.look.dash.length) marks["stroke-dasharray"] = group.look.dash.join(" ");
      for (const [key, value] of Object.entries(marks)) line.setAttribute(key, value);
      swatch.append(line);
      const shown = !this.hidden.has(k);
      return element("li", {}, element("button", { type: "button", "aria-pressed": String(shown), onclick: () => {
        if (shown) this.hidden.add(k); else this.hidden.delete(k);
        this.draw();
      } }, swatch, element("span", {}, group.label)));
    }));
  }

  drawControls() {
    const choice = (name, options, now, set) => element("div", { class: "choices", role: "group", "aria-label": name },
      ...options.map(([value, text]) => button(text, () => { set(value); this.draw(); },
        { "aria-pressed": String(value === now), [`data-${name}`]: value })));
    const measures = Object.entries(this.data.measures).map(([value, one]) => [value, one.words]);
    const axes = Object.keys(this.one.over).map((value) => [value, this.data.axes[value].words]);
    this.controls.replaceChildren(
      choice("measure", measures, this.measure, (value) => {
        this.measure = value;
        if (!this.one.over[this.axis]) this.axis = Object.keys(this.one.over)[0];
      }),
      choice("axis", axes, this.axis, (value) => { this.axis = value; }),
      element("div", { class: "choices" },
        button("log", () => { this.logarithmic = !this.logarithmic; this.draw(); },
          { "aria-pressed": String(this.logarithmic), "aria-label": "logarithmic axis" }),
        button("zoom in", () => this.zoom(0.5), { "data-zoom": "in" }),
        button("zoom out", () => this.zoom(2), { "data-zoom": "out" })),
      saveButtons(`${this.measure}-over-${this.axis}`, () => this.picture(), () => this.rows()));
  }

  zoom(factor) {
    const now = this.chart.getOption().dataZoom[0];
    const middle = (now.start + now.end) / 2, half = Math.min(50, Math.max(1, ((now.end - now.start) / 2) * factor));
    this.chart.dispatchAction({ type: "dataZoom", start: Math.max(0, middle - half), end: Math.min(100, middle + half) });
  }

  picture() {
    const keys = this.data.groups.filter((_, k) => !this.hidden.has(k)).map(({ label, look }) => ({ name: label, colour: inked(look), dash: look.dash }));
    return { ...chartDrawing(this.chart), title: `${this.one.words} over ${this.data.axes[this.axis].words}`, keys };
  }

  rows() {
    const head = ["method", this.axis, this.measure, "low", "high", "seeds"];
    const rows = this.lines.flatMap((line, k) => line.x.map((x, i) => [
      this.data.groups[k].label, x, line.y[i], line.low[i] ?? null, line.high[i] ?? null, line.seeds[i] ?? 1]));
    return [head, ...rows];
  }

  /** Choose a stretch with the pointer or by `choose`; over time the timeline follows. */
  chosen(areas) {
    if (this.axis !== "time" || !areas.length) return;
    const [from, to] = areas[0].coordRange;
    this.tell(Math.max(0, from), to);
  }

  choose(from, to) {
    this.chart.dispatchAction({ type: "brush", areas: [{ brushType: "lineX", xAxisIndex: 0, coordRange: [from, to] }] });
    this.tell(from, to);
  }

  tell(from, to) {
    this.stretch = [from, to];
    this.words.textContent = `Chosen: ${plain(from)} to ${plain(to)} s; the timeline shows it.`;
    this.onStretch(from, to);
  }

  draw() {
    this.drawLegend();
    this.drawControls();
    const narrow = this.canvas.clientWidth < 560;
    const { target, unit, words } = this.one;
    const axis = this.data.axes[this.axis];
    this.canvas.setAttribute("aria-label", this.described());
    const shown = this.lines.map((line, k) => (this.hidden.has(k) ? { x: [], y: [], ends: [] } : line));
    const [low, high] = heights(shown.some((line) => line.x.length) ? shown : this.lines, target);
    const ink = { color: styled("--soft"), fontSize: 12, fontFamily: FONT };
    const side = narrow ? 14 : 26 + 7 * Math.max(...this.data.groups.map((group) => group.look.label.length));
    const farthest = Math.max(...this.lines.flatMap((line) => line.x.slice(-1)), 1e-9);
    const first = Math.min(...this.lines.flatMap((line) => line.x.filter((x) => x > 0).slice(0, 1)), Infinity);
    this.chart.setOption({
      animation: false,
      aria: { enabled: true, label: { description: this.described() } },
      grid: { left: narrow ? 52 : 64, right: side, top: 18, bottom: 46 },
      tooltip: { trigger: "axis", renderMode: "html", axisPointer: { type: "line", snap: false }, confine: true,
        backgroundColor: styled("--panel"), borderColor: styled("--rule"), textStyle: { color: styled("--ink"), fontSize: 12 },
        formatter: (params) => this.pointed(params[0].axisValue) },
      xAxis: { type: this.logarithmic ? "log" : "value", name: axis.words + (axis.unit && this.axis === "time" ? ` (${axis.unit})` : ""),
        nameLocation: "middle", nameGap: 30, min: this.logarithmic ? first : 0, max: this.logarithmic ? farthest : 1.02 * farthest,
        splitNumber: narrow ? 4 : 8, nameTextStyle: ink, axisLine: { lineStyle: { color: styled("--soft") } },
        splitLine: { show: false }, axisLabel: { ...ink, hideOverlap: true, showMaxLabel: false, formatter: (value) => united(value, this.axis === "time" ? "" : axis.unit) } },
      yAxis: { type: "value", min: low, max: high, name: narrow ? "" : words, nameLocation: "middle", nameGap: 46, nameTextStyle: ink,
        axisLabel: { ...ink, showMinLabel: false, showMaxLabel: false, formatter: (value) => united(value, unit) },
        splitLine: { lineStyle: { color: styled("--rule") } } },
      dataZoom: [{ type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, moveOnMouseWheel: false }],
      brush: { xAxisIndex: 0, brushType: "lineX", brushMode: "single", transformable: false,
        brushStyle: { color: "rgba(120,140,170,0.22)", borderColor: styled("--soft"), borderWidth: 1 }, outOfBrush: {} },
      series: shown.flatMap((line, k) => this.series(line, this.data.groups[k], narrow)).concat(this.levels(target, unit)),
    }, { replaceMerge: ["series"] });
    if (this.axis === "time") {
      this.chart.dispatchAction({ type: "takeGlobalCursor", key: "brush", brushOption: { brushType: "lineX", brushMode: "single" } });
    } else {
      this.chart.dispatchAction({ type: "takeGlobalCursor" });
      this.chart.dispatchAction({ type: "brush", areas: [] });
    }
  }

  described() {
    const axis = this.data.axes[this.axis];
    const ends = this.lines.map((line, k) => {
      if (!line.x.length) return null;
      const met = line.touch ? `, target met at ${united(line.touch.x, axis.unit)}` : "";
      const y = line.ends.reduce((sum, end) => sum + end.y, 0) / Math.max(1, line.ends.length);
      return `${this.data.groups[k].label}: ${united(y, this.one.unit)} at the end${met}`;
    }).filter((text) => text);
    return `${this.one.words} over ${axis.words}. ${ends.join("; ")}.`;
  }

  /** What a reader sees who points at a place: every line there, as text. */
  pointed(x) {
    const axis = this.data.axes[this.axis];
    const box = element("div", {}, element("b", {}, united(x, axis.unit)));
    this.lines.forEach((line, k) => {
      const found = this.hidden.has(k) ? null : valueAt(line, x);
      if (!found) return;
      const { unit } = this.one, all = this.data.groups[k].seeds.length;
      const band = found.seeds > 1 ? ` (${united(found.low, unit)} to ${united(found.high, unit)})` : "";
      const many = all > 1 ? `, ${found.seeds} of ${all} seeds` : "";
      box.append(element("div", {}, element("span", { class: "dot", style: `background:${inked(this.data.groups[k].look)}` }),
        `${this.data.groups[k].label}: ${united(found.y, unit)}${band}${many}`));
    });
    return box;
  }

  series(line, group, narrow) {
    if (!line.x.length) return [];
    const color = inked(group.look), dash = group.look.dash.length ? group.look.dash : "solid";
    const most = Math.max(1, ...line.seeds);
    const label = { show: !narrow, formatter: () => group.look.label, color: styled("--ink"), fontSize: 12, fontWeight: 600, fontFamily: FONT, distance: 8,
      backgroundColor: styled("--paper"), padding: [2, 4], borderRadius: 3, borderColor: color, borderWidth: 1.2 };
    const parts = this.stretches(line, most).map(({ points, full, last }) => ({
      type: "line", data: points, showSymbol: points.length === 1, symbolSize: 7, clip: true, silent: true, z: 4,
      lineStyle: { color, type: dash, width: full ? 2.4 : 1.2, opacity: full ? 1 : 0.75 }, itemStyle: { color },
      endLabel: last ? label : { show: false }, labelLayout: { moveOverlap: "shiftY" }, emphasis: { disabled: true },
    }));
    return [...this.band(line, color, most), ...parts, ...this.endings(line, color)];
  }

  /** A line in pieces with equally many seeds: one across would draw a jump that no seed made. */
  stretches(line, most) {
    const pieces = [];
    line.x.forEach((x, i) => {
      const seeds = line.seeds[i] ?? 1, now = pieces[pieces.length - 1];
      if (!now || now.seeds !== seeds) pieces.push({ points: [], seeds, full: seeds === most, last: false });
      pieces[pieces.length - 1].points.push([x, line.y[i]]);
    });
    pieces[pieces.length - 1].last = true;
    return pieces;
  }

  /** The interval around the mean, paler where only some seeds are running. */
  band(line, color, most) {
    if (!line.low.length) return [];
    const pieces = [];
    line.x.forEach((_, i) => {
      const full = line.seeds[i] === most, now = pieces[pieces.length - 1];
      if (!now || now.seeds !== line.seeds[i]) pieces.push({ seeds: line.seeds[i], full, places: [i] }); else now.places.push(i);
    });
    return pieces.filter((piece) => piece.seeds > 1).map(({ full, places }) => ({ type: "custom", clip: true, silent: true, z: 1,
      data: [[line.x[0], line.y[0]]], tooltip: { show: false },
      renderItem: (_, api) => ({ type: "polygon",
        shape: { points: [...places.map((i) => api.coord([line.x[i], line.high[i]])), ...places.map((i) => api.coord([line.x[i], line.low[i]])).reverse()] },
        style: { fill: color, opacity: full ? 0.14 : 0.06 } }) }));
  }

  /** Dots where seeds end, and a diamond with an interval where the group meets its target. */
  endings(line, color) {
    const dots = { type: "line", data: line.ends.map((end) => [end.x, end.y]), lineStyle: { width: 0, opacity: 0 }, symbol: "circle",
      symbolSize: 5, itemStyle: { color, opacity: 0.7 }, z: 5, silent: true, clip: true };
    if (!line.touch) return line.ends.length > 1 ? [dots] : [];
    const { x, half, level } = line.touch, ends = [x - (half || 0), x + (half || 0)];
    return [dots,
      { type: "line", data: ends.map((at) => [at, level]), lineStyle: { color, width: 1.5 }, symbol: "rect", symbolSize: [1.5, 9],
        itemStyle: { color }, z: 6, silent: true, clip: true },
      { type: "line", data: [[x, level]], symbol: "diamond", symbolSize: 12, itemStyle: { color, borderColor: styled("--paper"), borderWidth: 1.5 },
        z: 7, silent: true, clip: true }];
  }

  /** The target across the chart, and moments at which something failed. */
  levels(target, unit) {
    const lines = [];
    const ink = { fontSize: 12, fontFamily: FONT };
    if (target !== null) {
      lines.push({ yAxis: target, lineStyle: { color: styled("--soft"), type: [5, 4] },
        label: { ...ink, formatter: `target ${united(target, unit)}`, position: "insideStartTop", color: styled("--soft") } });
    }
    if (this.axis === "time") {
      this.data.marks.forEach((mark, k) => lines.push({ xAxis: mark.time, lineStyle: { color: styled("--fail"), type: [2, 3] },
        label: { ...ink, formatter: () => mark.label, color: styled("--fail"), position: "insideEndTop", rotate: 0, distance: [4, -14 - 14 * (k % 3)] } }));
    }
    return lines.length ? [{ type: "line", data: [], markLine: { symbol: "none", silent: true, data: lines, animation: false } }] : [];
  }
}
