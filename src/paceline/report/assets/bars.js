// Bars: how often values came up, and how data are spread.

const STACK_SHADES = ["#1f4e79", "#e0a030", "#2c8c7a", "#a8433f", "#6fb1e0", "#f2d08a", "#8fd1bf", "#e3a19e", "#6a4c93", "#b9a0d8"];

class Bars {
  constructor(box, one) {
    this.one = one;
    this.canvas = element("div", { class: "chart low", role: "img", "aria-label": `${one.title}. ${one.text}` });
    this.legend = element("ul", { class: "legend" });
    box.append(this.legend, this.canvas, saveButtons(one.title.toLowerCase(), () => this.picture(), () => this.rows()));
    this.chart = echarts.init(this.canvas, null, { renderer: "svg" });
    new ResizeObserver(() => this.chart.resize()).observe(this.canvas);
    onTheme(() => this.draw());
    this.draw();
  }

  get parts() { return this.one.beside || this.one.stacks; }

  colour(k) { return this.parts[k].look ? inked(this.parts[k].look) : STACK_SHADES[k % STACK_SHADES.length]; }

  /** The method's dash as stripes: methods of one lightness are told apart by it, as their lines are. */
  stripes(k) { return this.parts[k].look ? this.parts[k].look.dash : []; }

  get keys() { return this.parts.map((part, k) => ({ name: part.name, colour: this.colour(k), stripes: this.stripes(k) })); }

  decal(k) {
    const dash = this.stripes(k);
    return dash.length ? { symbol: "rect", color: styled("--paper"), dashArrayX: [1, 0], dashArrayY: stripeLengths(dash), rotation: -Math.PI / 4 } : "none";
  }

  picture() { return { ...chartDrawing(this.chart), title: this.one.title, keys: this.keys }; }

  rows() {
    return [[this.one.axis, ...this.parts.map((part) => part.name)],
      ...this.one.places.map((place, i) => [place, ...this.parts.map((part) => part.values[i])])];
  }

  pointed(params) {
    const box = element("div", {}, element("b", {}, `${this.one.axis} ${params[0].axisValue}`));
    for (const param of params) {
      const part = this.parts[param.seriesIndex];
      if (param.value) box.append(element("div", {}, `${part.name}: ${united(param.value, this.one.unit)}`));
    }
    return box;
  }

  drawLegend() {
    if (this.parts.length < 2) return;
    this.legend.replaceChildren(...this.keys.map(({ name, colour, stripes }) => element("li", { class: "key" },
      drawn("svg", { width: 18, height: 11, "aria-hidden": "true" }, striped(0, 0, 18, 11, colour, stripes)), name)));
  }

  draw() {
    this.drawLegend();
    const ink = { color: styled("--soft"), fontSize: 12, fontFamily: FONT };
    this.chart.setOption({
      animation: false,
      grid: { left: 64, right: 14, top: 14, bottom: 46 },
      tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, confine: true, backgroundColor: styled("--panel"),
        borderColor: styled("--rule"), textStyle: { color: styled("--ink"), fontSize: 12 }, formatter: (params) => this.pointed(params) },
      xAxis: { type: "category", data: this.one.places, name: this.one.axis, nameLocation: "middle", nameGap: 30, nameTextStyle: ink,
        axisLabel: { ...ink, hideOverlap: true }, axisLine: { lineStyle: { color: styled("--soft") } } },
      yAxis: { type: "value", name: this.one.words, nameLocation: "middle", nameGap: 44, nameTextStyle: ink, axisLabel: { ...ink, formatter: (value) => united(value, this.one.unit) }, splitLine: { lineStyle: { color: styled("--rule") } } },
      series: this.parts.map((part, k) => ({ type: "bar", stack: this.one.beside ? undefined : "all", data: part.values.map((value) => value || null), barCategoryGap: "15%",
        emphasis: { disabled: true },
        itemStyle: { color: this.colour(k), decal: this.decal(k), borderColor: styled("--paper"), borderWidth: 0.5 } })),
    }, { replaceMerge: ["series"] });
  }
}
