// What the browser test asks the page. It is given to the page as a text; `what` says which of the questions.
const what = arguments[0];
const shown = (element) => element.getClientRects().length > 0;

// Makes a figure visible by its pickers.
const pick = (figure) => {
  const pickers = [...(figure.closest(".picked")?.querySelectorAll("select") ?? [])];
  pickers.forEach((picker, place) => {
    picker.value = figure.dataset.choice.split("/")[place];
    picker.dispatchEvent(new Event("change"));
  });
};

// Makes every figure visible in turn, and asks of each.
const each = (ask) =>
  [...document.querySelectorAll("figure")].flatMap((figure) => {
    pick(figure);
    return ask(figure);
  });

const meet = (a, b) =>
  Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;

// What is wrong with the charts of a figure as it is seen now.
const faults = (figure) => {
  const say = (text) => `${figure.id}: ${text}`;
  if (!shown(figure)) return [say("is not shown when it is picked")];
  const found = [];
  const charts = [...figure.querySelectorAll(".chart")];
  const seen = charts.filter(shown);
  if (charts.length > 0 && seen.length !== 1) found.push(say(`${seen.length} charts are seen`));
  for (const chart of seen) {
    const svg = chart.querySelector("svg");
    const box = svg.getBoundingClientRect();
    if (box.width < 250 || box.height < 80) found.push(say(`its chart is ${box.width} by ${box.height}`));
    if (box.left < -0.5 || box.right > innerWidth + 0.5) found.push(say("its chart sticks out"));
    const drawn = [...svg.querySelectorAll("g[data-series] path, g[data-series] rect")].filter((mark) => {
      const size = mark.getBoundingClientRect();
      return size.width + size.height > 0;
    });
    if (drawn.length === 0) found.push(say("nothing is drawn"));
    const texts = [...svg.querySelectorAll("text")].filter(shown).map((text) => [text, text.getBoundingClientRect()]);
    for (const [text, place] of texts) {
      if (place.height < 10) found.push(say(`"${text.textContent}" is ${place.height} high`));
      if (place.left < box.left - 1 || place.right > box.right + 1 || place.top < box.top - 1 || place.bottom > box.bottom + 1)
        found.push(say(`"${text.textContent}" sticks out of its chart`));
    }
    texts.forEach(([text, place], i) => {
      for (const [other, its] of texts.slice(i + 1))
        if (meet(place, its)) found.push(say(`"${text.textContent}" and "${other.textContent}" lie on one another`));
    });
  }
  return found;
};

switch (what) {
  case "faults":
    return each(faults);
  case "pick":
    return pick(document.getElementById(arguments[1]));
  case "wide":
    return document.documentElement.scrollWidth - innerWidth;
  case "figures":
    return each((figure) => [{
      id: figure.id,
      rows: figure.querySelectorAll("tbody tr").length,
      columns: figure.querySelectorAll("th").length,
      file: figure.querySelector("a.csv").download,
    }]);
  case "series": {
    // For each button: how many parts of its series there are in charts and tables, and how many can be seen.
    const figure = document.getElementById(arguments[1]);
    figure.querySelector("details").open = true;
    return [...figure.querySelectorAll(".legend button")].map((button) => {
      const parts = [...figure.querySelectorAll("[data-series]")].filter((part) => part.dataset.series === button.dataset.key);
      const visible = (part) => getComputedStyle(part).display !== "none";
      const of = (selector) => parts.filter((part) => part.matches(selector));
      return {
        key: button.dataset.key,
        pressed: button.getAttribute("aria-pressed"),
        drawn: of("g").length, drawnVisible: of("g").filter(visible).length,
        rows: of("tr").length, rowsVisible: of("tr").filter(visible).length,
      };
    });
  }
  case "colours": {
    const style = getComputedStyle(document.documentElement);
    const line = document.querySelector("svg [stroke^='var']");
    return { background: style.backgroundColor, text: style.color, line: line && getComputedStyle(line).stroke };
  }
  case "seen":
    return [...document.querySelectorAll("figure")].filter(shown).map((figure) => figure.id);
}
