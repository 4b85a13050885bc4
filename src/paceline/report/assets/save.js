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

/** An SVG drawing as PNG, at twice the size of the screen. */
function savePng(name, svg, width, height) {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  image.onload = () => {
    const canvas = element("canvas", { width: 2 * width, height: 2 * height });
    const pen = canvas.getContext("2d");
    pen.fillStyle = styled("--paper");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(url);
    canvas.toBlob((blob) => download(name, blob));
  };
  image.src = url;
}

/** The three buttons of a chart; `svg` and `rows` give its drawing and its numbers when asked. */
function saveButtons(name, svg, size, rows) {
  return element("div", { class: "choices save no-print", role: "group", "aria-label": `save ${name}` },
    button("SVG", () => download(`${name}.svg`, svg(), "image/svg+xml"), { "aria-label": `save ${name} as SVG` }),
    button("PNG", () => savePng(`${name}.png`, svg(), ...size()), { "aria-label": `save ${name} as PNG` }),
    button("CSV", () => download(`${name}.csv`, csv(rows()), "text/csv"), { "aria-label": `save ${name} as CSV` }));
}
