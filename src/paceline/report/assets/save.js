// Every chart can be saved as SVG, PNG and CSV, without asking anybody outside.

function download(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** A cell of a CSV file; text that a spreadsheet would take for a formula is quoted away. */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csv(rows) {
  return rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

/** A name that any file system takes. */
function fileName(text) { return text.replace(/[^\w.@=-]+/g, "-").replace(/^[-.]+|-+$/g, "").slice(0, 120) || "chart"; }

/** How wide a text is in the type of pictures. */
function textWidth(text) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `12px ${FONT}`;
  return pen.measureText(text).width;
}

/** A dash as stripes over a field: the gaps of the line are what is seen of the paper. */
function stripeLengths(dash) { return [...dash].reverse().map((length) => Math.max(1.5, 0.6 * length)); }

/** A field of a colour, striped as the bars of a method are. */
function striped(x, y, width, height, colour, dash) {
  const field = drawn("g", {}, drawn("rect", { x, y, width, height, fill: colour })), lengths = stripeLengths(dash);
  const whole = lengths.reduce((sum, length) => sum + length, 0);
  for (let begin = -height; whole && begin < width; begin += whole * Math.SQRT2) {
    let at = begin;
    lengths.forEach((length, k) => {
      const next = at + length * Math.SQRT2;
      if (k % 2 === 0) {
        const inside = (place) => Math.max(x, Math.min(x + width, x + place));
        const points = [[inside(at), y + height], [inside(next), y + height], [inside(next + height), y], [inside(at + height), y]];
        field.append(drawn("path", { d: `M ${points.map((point) => point.map((one) => one.toFixed(1)).join(" ")).join(" L ")} Z`, fill: styled("--paper") }));
      }
      at = next;
    });
  }
  return field;
}

/** The key of a picture: for each name a stroke as the lines have it or, without dashes, a field of its colour. */
function keysDrawn(keys, width, top) {
  const rows = drawn("g");
  let x = 10, y = top;
  for (const { name, colour, dash, stripes } of keys) {
    const wide = 38 + textWidth(name) + 18;
    if (x > 10 && x + wide > width) { x = 10; y += 20; }
    rows.append(dash ? drawn("path", { d: `M ${x} ${y + 8} h 30`, stroke: colour, "stroke-width": 2.4, "stroke-dasharray": dash.join(" ") || null })
      : striped(x, y + 2, 18, 11, colour, stripes || []),
    drawn("text", { x: x + (dash ? 36 : 24), y: y + 12, fill: styled("--ink"), "font-size": 12, "font-family": FONT }, name));
    x += wide;
  }
  return { rows, height: keys.length ? y + 24 - top : 0 };
}

/** A chart as a file that explains itself: its title above, its key below, on the page's paper. */
function framed({ drawing, width, height, title, keys }) {
  const below = keysDrawn(keys, width, height + 34), whole = height + 34 + below.height;
  const heading = drawn("text", { x: 10, y: 19, fill: styled("--ink"), "font-size": 13, "font-weight": 600, "font-family": FONT }, title);
  for (const [key, value] of Object.entries({ x: 0, y: 30, width, height })) drawing.setAttribute(key, value);
  const root = drawn("svg", { xmlns: SVG, width, height: whole, viewBox: `0 0 ${width} ${whole}` },
    drawn("rect", { width, height: whole, fill: styled("--paper") }), heading, drawing, below.rows);
  return { text: new XMLSerializer().serializeToString(root), width, height: whole };
}

/** An SVG drawing as PNG, at twice the size of the screen. */
function savePng(name, { text, width, height }) {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  image.onload = () => {
    const canvas = element("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(url);
    canvas.toBlob((blob) => download(name, blob));
  };
  image.src = url;
}

/** The three buttons of a chart; `picture` and `rows` give its drawing and its numbers when asked. */
function saveButtons(name, picture, rows) {
  const file = fileName(name);
  return element("div", { class: "choices save no-print", role: "group", "aria-label": `save ${name}` },
    button("SVG", () => download(`${file}.svg`, framed(picture()).text, "image/svg+xml"), { "aria-label": `save ${name} as SVG` }),
    button("PNG", () => savePng(`${file}.png`, framed(picture())), { "aria-label": `save ${name} as PNG` }),
    button("CSV", () => download(`${file}.csv`, csv(rows()), "text/csv"), { "aria-label": `save ${name} as CSV` }));
}

/** What an ECharts chart shows, as an element of its own. */
function chartDrawing(chart) {
  const text = decodeURIComponent(chart.getDataURL({ type: "svg" }).split(",")[1]);
  return { drawing: new DOMParser().parseFromString(text, "image/svg+xml").documentElement, width: chart.getWidth(), height: chart.getHeight() };
}
