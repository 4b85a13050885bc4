// What lies under the pointer, and moving about with pointer and keys.

/** The row and time under a place of the canvas; null outside of the rows. */
function under(state, drawing, x, y) {
  if (x < LEFT || y > drawing.height - AXIS) return null;
  const time = state.view.from + ((x - LEFT) / (drawing.width - LEFT)) * (state.view.to - state.view.from);
  const pin = Math.floor(y / PIN);
  if (pin < state.pinned.length) return { site: state.pinned[pin], time };
  const row = Math.floor((y - drawing.top(state)) / state.view.height + state.view.row);
  return row >= 0 && row < state.order.length ? { site: state.order[row], time } : null;
}

/** The span at a time of a site, the shortest of several; a few pixels beside it are near enough. -1 if there is none. */
function spanAt(state, drawing, found) {
  const { spans, filter, view } = state, slack = (3 * (view.to - view.from)) / (drawing.width - LEFT);
  const [low, high] = spans.range(found.site, found.time - slack, found.time + slack);
  let best = -1, miss = Infinity;
  for (let i = low; i < high; i += 1) {
    if (!filter.passes(spans, i)) continue;
    const off = Math.max(0, spans.start[i] - found.time, found.time - spans.end[i]);
    const better = off < miss || (off === miss && spans.length[i] < spans.length[best]);
    if (off <= slack && better) { best = i; miss = off; }
  }
  return best;
}

/** Wheel, drag and two fingers on the canvas; `act` is what can be done. */
function listen(canvas, act) {
  const pointers = new Map();
  let moved = 0;
  canvas.addEventListener("wheel", (event) => {
    // The page must scroll past a canvas that nobody works with.
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 240)));
    if (event.shiftKey) act.zoomRows(Math.exp(Math.max(-1, Math.min(1, (event.deltaY || event.deltaX) / 240))), event.offsetY);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) act.pan(event.deltaX, 0);
    else act.zoomTime(factor, event.offsetX);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    canvas.setPointerCapture(event.pointerId);
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) { act.point(event.offsetX, event.offsetY, event); return; }
    const dx = event.offsetX - before[0], dy = event.offsetY - before[1];
    moved += Math.abs(dx) + Math.abs(dy);
    const other = [...pointers].find(([id]) => id !== event.pointerId);
    if (other) {
      const apart = Math.abs(event.offsetX - other[1][0]), was = Math.abs(before[0] - other[1][0]);
      if (apart > 8 && was > 8) act.zoomTime(was / apart, (event.offsetX + other[1][0]) / 2);
    } else act.pan(-dx, -dy);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  });
  const leave = (event) => {
    if (pointers.delete(event.pointerId) && moved < 5 && event.type === "pointerup") act.choose(event.offsetX, event.offsetY);
  };
  canvas.addEventListener("pointerup", leave);
  canvas.addEventListener("pointercancel", leave);
  canvas.addEventListener("pointerleave", () => act.point(-1, -1, null));
  canvas.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? 400 : 80;
    const keys = {
      ArrowLeft: () => act.pan(-step, 0), ArrowRight: () => act.pan(step, 0), ArrowUp: () => act.pan(0, -step), ArrowDown: () => act.pan(0, step),
      "+": () => act.zoomTime(0.7), "=": () => act.zoomTime(0.7), "-": () => act.zoomTime(1 / 0.7),
      "*": () => act.zoomRows(0.7), _: () => act.zoomRows(1 / 0.7), 0: () => act.everything(),
      n: () => act.next(1), p: () => act.next(-1), Escape: () => act.clear(),
    };
    if (keys[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); keys[event.key](); }
  });
}
