// The page comes to life: charts first, the timeline as soon as its spans are unpacked.

const data = JSON.parse(document.getElementById("page-data").textContent);
startThemes();
const page = { data, bars: [] };
const timelineBox = document.getElementById("timeline-box");
if (timelineBox && data.timelines.length) page.timeline = new Timeline(timelineBox, data.timelines);
const curveBox = document.getElementById("curve-chart");
if (curveBox) page.curves = new Curves(curveBox, data, (from, to) => { if (page.timeline) page.timeline.show(from, to); });
for (const box of document.querySelectorAll("[data-bars]")) page.bars.push(new Bars(box, data.bars.find((one) => one.id === box.dataset.bars)));
saveTopologies();
page.ready = page.timeline ? page.timeline.ready : Promise.resolve();
globalThis.paceline = page;
