// What is drawn on a canvas, as SVG: a pen with those of a canvas's strokes that the timeline makes.

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element; children are elements, or text that stays text. */
function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, typeof value === "number" ? String(Math.round(100 * value) / 100) : value);
  }
  made.append(...children);
  return made;
}

class SvgPen {
  constructor(width, height) {
    this.root = drawn("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` });
    this.group = this.root;
    this.kept = [];
    this.clips = 0;
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "12px sans-serif", textAlign: "left",
      textBaseline: "alphabetic", dash: [], places: [], area: null });
  }

  text() { return new XMLSerializer().serializeToString(this.root); }

  save() {
    const { fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, dash, group } = this;
    this.kept.push({ fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, dash, group });
  }

  restore() { Object.assign(this, this.kept.pop()); }

  beginPath() { this.places = []; this.area = null; }

  moveTo(x, y) { this.places.push("M", x, y); }

  lineTo(x, y) { this.places.push("L", x, y); }

  rect(x, y, width, height) { this.area = { x, y, width, height }; }

  setLineDash(dash) { this.dash = dash; }

  /** Until the next restore nothing is seen outside of the rectangle that was named last. */
  clip() {
    const id = `clip-${this.clips += 1}`, inside = drawn("g", { "clip-path": `url(#${id})` });
    this.group.append(drawn("clipPath", { id }, drawn("rect", this.area)), inside);
    this.group = inside;
  }

  get alpha() { return this.globalAlpha === 1 ? null : this.globalAlpha; }

  get stroked() {
    return { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, opacity: this.alpha,
      "stroke-dasharray": this.dash.length ? this.dash.join(" ") : null };
  }

  stroke() {
    const path = this.places.map((one) => (typeof one === "number" ? Math.round(100 * one) / 100 : one)).join(" ");
    this.group.append(drawn("path", { d: path, ...this.stroked }));
  }

  fillRect(x, y, width, height) { this.group.append(drawn("rect", { x, y, width, height, fill: this.fillStyle, opacity: this.alpha })); }

  strokeRect(x, y, width, height) { this.group.append(drawn("rect", { x, y, width, height, ...this.stroked })); }

  fillText(text, x, y) {
    const anchor = { left: null, center: "middle", right: "end" }[this.textAlign], size = parseFloat(this.font);
    // Not every reader of SVG knows where the middle of a line of letters is: it is said in numbers.
    this.group.append(drawn("text", { x, y: this.textBaseline === "middle" ? y + 0.35 * size : y, fill: this.fillStyle, "text-anchor": anchor,
      "font-size": size, "font-family": FONT }, text));
  }

  /** Heat is made of pixels, also here. */
  drawImage(canvas, x, y, width, height) {
    this.group.append(drawn("image", { href: canvas.toDataURL(), x, y, width, height, preserveAspectRatio: "none", style: "image-rendering:pixelated" }));
  }
}
