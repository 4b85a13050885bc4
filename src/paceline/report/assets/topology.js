// The drawings of who is connected with whom can be saved, like every chart.

const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "font-size", "font-family", "text-anchor", "paint-order"];

/** A drawing of the page with the colours that the style sheet gave it. */
function dressed(drawing) {
  const copy = drawing.cloneNode(true), theirs = copy.querySelectorAll("*");
  drawing.querySelectorAll("*").forEach((one, k) => {
    const look = getComputedStyle(one);
    for (const name of LOOKS) theirs[k].style.setProperty(name, look.getPropertyValue(name));
    theirs[k].removeAttribute("class");
  });
  copy.removeAttribute("class");
  return copy;
}

function linksOf(drawing) {
  const links = [...drawing.querySelectorAll("line")].map(({ dataset }) => [dataset.from, dataset.to, Number(dataset.bytes), dataset.failed]);
  return [["from", "to", "bytes", "failed"], ...links];
}

function saveTopologies() {
  for (const figure of document.querySelectorAll("figure.drawn")) {
    const drawing = figure.querySelector("svg"), { width, height } = drawing.viewBox.baseVal, title = figure.querySelector("figcaption").textContent;
    const keys = [["server", "--work"], ["device", "--train"], ["failed", "--fail"]].filter(([name]) => drawing.querySelector(`.${name}`))
      .map(([name, colour]) => ({ name, colour: styled(colour) }));
    figure.append(saveButtons(`topology of ${title}`,
      () => ({ drawing: dressed(drawing), width, height, title, keys }), () => linksOf(drawing)));
  }
}
