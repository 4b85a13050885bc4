// Only the parts that the page uses: lines, bars, bands (a custom series), and SVG.
import * as core from "echarts/core";
import { BarChart, CustomChart, LineChart } from "echarts/charts";
import {
  AriaComponent,
  BrushComponent,
  DataZoomInsideComponent,
  GridComponent,
  MarkLineComponent,
  TooltipComponent,
} from "echarts/components";
import { LabelLayout } from "echarts/features";
import { SVGRenderer } from "echarts/renderers";

core.use([
  BarChart, CustomChart, LineChart, AriaComponent, BrushComponent, DataZoomInsideComponent, GridComponent,
  MarkLineComponent, TooltipComponent, LabelLayout, SVGRenderer,
]);

export const init = core.init;
