// The timeline on its canvas: a heat map where rows are low or full, bars where there is room.

const LEFT = 96, AXIS = 28, PIN = 24, NEAR = 7;

/** "#rrggbb" as three numbers. */
function rgb(colour) {
  const number = parseInt(colour.slice(1, 7), 16);
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}

class Drawing {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.heat = document.createElement("canvas");
    this.recolour();
  }

  recolour() {
    this.colours = KINDS.map((kind) => styled(`--${kind}`));
    this.parts = this.colours.map(rgb);
    this.ground = rgb(styled("--panel"));
    this.ink = styled("--ink");
    this.soft = styled("--soft");
    this.rule = styled("--rule");
    this.paper = styled("--paper");
    this.panel = styled("--panel");
    this.fail = styled("--fail");
    this.lit = styled("--lit");
  }

  fit(width, height) {
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    this.width = width;
    this.height = height;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /** How many seconds of each kind lie in each cell of a grid of pixels: rows of sites by columns of time. */
  cells(state, sites, width) {
    const { spans, filter, view } = state, scale = width / (view.to - view.from);
    const grid = new Float32Array(5 * sites.length * width);
    for (let row = 0; row < sites.length; row += 1) {
      for (const site of sites[row]) {
        const [low, high] = spans.range(site, view.from, view.to);
        for (let i = low; i < high; i += 1) {
          if (!filter.passes(spans, i)) continue;
          const begin = Math.max(0, (spans.start[i] - view.from) * scale), end = Math.min(width, (spans.end[i] - view.from) * scale);
          if (end <= begin) continue;
          const at = (spans.kind[i] * sites.length + row) * width, first = begin | 0, last = Math.min(width - 1, end | 0);
          if (first === last) { grid[at + first] += end - begin; continue; }
          grid[at + first] += first + 1 - begin;
          for (let x = first + 1; x < last; x += 1) grid[at + x] += 1;
          grid[at + last] += end - last;
        }
      }
    }
    return grid;
  }

  /** A grid of cells as a picture: colours mixed by their shares of the time. */
  picture(grid, sites, width) {
    this.heat.width = width;
    this.heat.height = sites.length;
    const pen = this.heat.getContext("2d"), image = pen.createImageData(width, sites.length), plane = sites.length * width;
    for (let row = 0, at = 0; row < sites.length; row += 1) {
      const many = sites[row].length || 1;
      for (let x = 0; x < width; x += 1, at += 1) {
        let red = 0, green = 0, blue = 0, sum = 0;
        for (let kind = 0; kind < 5; kind += 1) {
          const share = grid[kind * plane + at] / many;
          if (share) { const part = this.parts[kind]; red += share * part[0]; green += share * part[1]; blue += share * part[2]; sum += share; }
        }
        const rest = Math.max(0, 1 - sum), whole = Math.max(1, sum), k = 4 * at;
        image.data[k] = (red + rest * this.ground[0]) / whole;
        image.data[k + 1] = (green + rest * this.ground[1]) / whole;
        image.data[k + 2] = (blue + rest * this.ground[2]) / whole;
        image.data[k + 3] = 255;
      }
    }
    pen.putImageData(image, 0, 0);
    return this.heat;
  }

  draw(state) {
    const { pen } = this;
    pen.fillStyle = this.paper;
    pen.fillRect(0, 0, this.width, this.height);
    const top = this.top(state), bottom = this.height - AXIS, width = Math.max(1, Math.floor(this.width - LEFT));
    this.grounds(state, top, bottom);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, top, width, bottom - top);
    pen.clip();
    if (state.view.height < NEAR) this.far(state, top, bottom, width); else this.near(state, top, bottom, width);
    this.marks(state, top, bottom);
    pen.restore();
    state.pinned.forEach((site, k) => this.row(state, site, k * PIN, PIN - 3, width));
    this.names(state, top, bottom);
    this.axis(state, bottom);
    this.lights(state, top, bottom);
  }

  /** The same as SVG, of what is in sight. */
  svg(state) {
    const { pen } = this, other = new SvgPen(this.width, this.height);
    this.pen = other;
    try { this.draw(state); } finally { this.pen = pen; }
    return other.root;
  }

  top(state) { return state.pinned.length ? state.pinned.length * PIN + 6 : 0; }

  grounds(state, top, bottom) {
    const stop = Math.min(this.width, this.x(state, state.spans.about.runEnd));
    this.pen.fillStyle = this.panel;
    if (stop > LEFT) this.pen.fillRect(LEFT, top, stop - LEFT, Math.min(bottom - top, state.order.length * state.view.height));
  }

  x(state, time) { return LEFT + ((time - state.view.from) / (state.view.to - state.view.from)) * (this.width - LEFT); }

  y(state, row) { return this.top(state) + (row - state.view.row) * state.view.height; }

  visible(state, top, bottom) {
    const first = Math.max(0, Math.floor(state.view.row)), many = Math.ceil((bottom - top) / state.view.height) + 1;
    return [first, Math.min(state.order.length, first + many)];
  }

  far(state, top, bottom, width) {
    const [first, last] = this.visible(state, top, bottom), { height } = state.view;
    const step = height >= 1 ? 1 : 1 / height, sites = [];
    for (let row = first; row < last; row += step) sites.push(Array.from(state.order.subarray(Math.floor(row), Math.max(Math.floor(row) + 1, Math.floor(Math.min(last, row + step))))));
    if (!sites.length) return;
    const image = this.picture(this.cells(state, sites, width), sites, width);
    this.pen.imageSmoothingEnabled = false;
    this.pen.drawImage(image, LEFT, this.y(state, first), width, (last - first) * height);
  }

  near(state, top, bottom, width) {
    const [first, last] = this.visible(state, top, bottom);
    for (let row = first; row < last; row += 1) this.row(state, state.order[row], this.y(state, row), state.view.height - 1, width);
  }

  /** One site: bars, or its own heat where there are more acts than pixels. */
  row(state, site, y, height, width) {
    const { spans, filter, view } = state, [low, high] = spans.range(site, view.from, view.to), { pen } = this;
    pen.fillStyle = this.panel;
    pen.fillRect(LEFT, y, width, height);
    if (high - low > 1.2 * width) {
      pen.imageSmoothingEnabled = false;
      pen.drawImage(this.picture(this.cells(state, [[site]], width), [[site]], width), LEFT, y, width, height);
      return;
    }
    const lanes = Math.min(8, spans.lanes[site]);
    for (const waits of [true, false]) {
      for (let i = low; i < high; i += 1) {
        if ((spans.kind[i] === WAIT) !== waits || !filter.passes(spans, i)) continue;
        const begin = Math.max(LEFT - 2, this.x(state, spans.start[i])), end = Math.min(this.width + 2, this.x(state, spans.end[i]));
        if (end < LEFT || begin > this.width) continue;
        const thin = lanes > 1 && (spans.kind[i] === 1 || spans.kind[i] === 2), part = height / lanes;
        pen.fillStyle = this.colours[spans.kind[i]];
        const from = y + (thin ? (spans.lane[i] % lanes) * part : 0), tall = thin ? Math.max(1, part - 0.5) : height;
        pen.fillRect(begin, from, Math.max(0.8, end - begin), tall);
        if (waits && end - begin > 3) this.hatch(begin, from, end - begin, tall);
      }
    }
  }

  /** Slanted lines over a rectangle; each ends where that does. */
  hatch(x, y, width, height) {
    const { pen } = this;
    pen.strokeStyle = this.soft;
    pen.globalAlpha = 0.45;
    pen.lineWidth = 1;
    pen.beginPath();
    const first = Math.floor((x - height) / 7) * 7;
    for (let at = first; at < Math.min(x + width, this.width); at += 7) {
      const from = Math.max(0, x - at), to = Math.min(height, x + width - at);
      if (to > from) { pen.moveTo(at + from, y + height - from); pen.lineTo(at + to, y + height - to); }
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  names(state, top, bottom) {
    const { pen } = this, { height } = state.view, [first, last] = this.visible(state, top, bottom);
    pen.font = `12px ${FONT}`;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    state.pinned.forEach((site, k) => {
      pen.fillStyle = this.ink;
      pen.fillText(state.spans.names[site], LEFT - 7, k * PIN + PIN / 2 - 1);
    });
    pen.save();
    pen.beginPath();
    pen.rect(0, top, LEFT, bottom - top);
    pen.clip();
    const every = Math.max(1, Math.ceil(15 / height));
    for (let row = Math.ceil(first / every) * every; row < last; row += every) {
      const y = this.y(state, row) + Math.max(height, every > 1 ? 14 : 0) / 2;
      if (y < top + 6 || y > bottom - 6) continue;  // half a name says nothing
      pen.fillStyle = state.order[row] === state.marked ? this.lit : this.soft;
      pen.fillText(state.spans.names[state.order[row]], LEFT - 7, y);
    }
    pen.restore();
  }

  axis(state, bottom) {
    const { pen } = this, { from, to } = state.view, rough = (to - from) / Math.max(3, (this.width - LEFT) / 110);
    const power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) * power;
    pen.font = `12px ${FONT}`;
    pen.textBaseline = "alphabetic";
    for (let k = Math.ceil(from / step); k * step <= to; k += 1) {
      const x = this.x(state, k * step);
      pen.strokeStyle = this.rule;
      pen.globalAlpha = 0.5;
      pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, bottom); pen.stroke();
      pen.globalAlpha = 1;
      pen.fillStyle = this.soft;
      pen.textAlign = x > this.width - 30 ? "right" : "center";
      pen.fillText(plain(k * step, Math.max(4, 2 + Math.ceil(Math.log10(Math.abs(to) / step + 1)))), x, bottom + 17);
    }
    pen.textAlign = "right";
    pen.fillText("time (s)", LEFT - 7, bottom + 17);
  }

  marks(state, top, bottom) {
    const { pen } = this;
    pen.font = `12px ${FONT}`;
    for (const mark of state.spans.about.marks) {
      const x = this.x(state, mark.time);
      if (x < LEFT || x > this.width) continue;
      pen.strokeStyle = this.fail;
      pen.setLineDash([2, 3]);
      pen.beginPath(); pen.moveTo(x, top); pen.lineTo(x, bottom); pen.stroke();
      pen.setLineDash([]);
    }
  }

  /** What is pointed at, chosen or on the critical path stands out, wherever it is drawn. */
  lights(state, top, bottom) {
    const { pen } = this;
    for (const i of state.lit) for (const [y, height] of this.placesOf(state, state.spans.site[i], top, bottom)) this.frame(state, i, y, height, this.lit, 2);
    for (const i of state.path) {
      for (const [y, height] of this.placesOf(state, state.spans.site[i], top, bottom)) this.frame(state, i, y, height, this.fail, 2);
    }
    const points = state.path.map((i) => [this.x(state, (state.spans.start[i] + state.spans.end[i]) / 2), this.y(state, state.rowOf[state.spans.site[i]]) + state.view.height / 2]);
    if (points.length < 2) return;
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, top, this.width - LEFT, bottom - top);
    pen.clip();
    pen.strokeStyle = this.fail;
    pen.lineWidth = 1.2;
    pen.beginPath();
    points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.stroke();
    pen.restore();
  }

  placesOf(state, site, top, bottom) {
    const found = state.pinned.map((one, k) => [one, k]).filter(([one]) => one === site).map(([, k]) => [k * PIN, PIN - 3]);
    const y = this.y(state, state.rowOf[site]), height = Math.max(3, state.view.height - 1);
    return y + height > top && y < bottom ? [...found, [Math.max(top, y), Math.min(height, bottom - y)]] : found;
  }

  frame(state, i, y, height, colour, wide) {
    const begin = Math.max(LEFT, this.x(state, state.spans.start[i])), end = Math.min(this.width, this.x(state, state.spans.end[i]));
    if (end < LEFT || begin > this.width) return;
    this.pen.strokeStyle = colour;
    this.pen.lineWidth = wide;
    this.pen.strokeRect(begin, y + 1, Math.max(2, end - begin), Math.max(2, height - 2));
  }
}
