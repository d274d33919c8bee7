// Draws the charts and applies the choices of CPU, its code and filter size, which the address keeps:
// #machine=26-2-1&cpu=avx2&size=10m
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const specs = read("specs"), texts = read("texts"), views = {};
const config = {
  background: "transparent", view: { stroke: null }, font: "system-ui, sans-serif",
  axis: { labelColor: "var(--text)", titleColor: "var(--muted)", gridColor: "var(--line)", domainColor: "var(--line)",
          tickColor: "var(--line)", labelFontSize: 13, titleFontSize: 12, titleFontWeight: "normal" },
  text: { fontSize: 13 }, legend: { labelColor: "var(--text)", labelFontSize: 13, orient: "top" },
};
const chosen = () => {
  const given = new URLSearchParams(location.hash.slice(1));
  const pick = (name, valid) => (valid.includes(given.get(name)) ? given.get(name) : null);
  const machines = Object.keys(texts);
  const machine = pick("machine", machines) ?? machines[0], cpus = Object.keys(texts[machine]);
  return { machine, cpu: pick("cpu", cpus) ?? cpus[0], size: pick("size", Object.keys(texts[machine][cpus[0]])) ?? "1m" };
};
function show() {
  const choice = chosen(), levels = texts[choice.machine], text = levels[choice.cpu][choice.size];
  for (const element of document.querySelectorAll("[data-machine]")) element.hidden = element.dataset.machine !== choice.machine;
  for (const input of document.querySelectorAll("input[name=cpu]")) input.disabled = !(input.value in levels);
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = text[element.dataset.text];
  for (const input of document.querySelectorAll("input[type=radio]")) input.checked = choice[input.name] === input.value;
  const rows = text.wins.map((win) => {
    const row = document.createElement("tr");
    for (const cell of [win.task, win.who, win.times]) row.append(Object.assign(document.createElement("td"), { textContent: cell }));
    return row;
  });
  document.getElementById("wins").replaceChildren(...rows);
  for (const [key, view] of Object.entries(views)) {
    if (key === "rates") continue; // It has no choices.
    view.signal("machine", choice.machine).signal("cpu", choice.cpu).signal("size", choice.size).run();
  }
}
for (const input of document.querySelectorAll("input[type=radio]")) {
  input.addEventListener("change", () => {
    history.replaceState(null, "", "#" + new URLSearchParams({ ...chosen(), [input.name]: input.value }));
    show();
  });
}
addEventListener("hashchange", show);
const draw = async (key) => (views[key] = (await vegaEmbed(`#chart-${key}`, specs[key], { renderer: "svg", actions: false, logLevel: 1, config })).view);
// A chart in a closed part has no width, so it is drawn when the part is opened.
const hidden = (key) => document.getElementById(`chart-${key}`).closest("details");
for (const key of Object.keys(specs).filter(hidden)) hidden(key).addEventListener("toggle", () => draw(key).then(show), { once: true });
Promise.all(Object.keys(specs).filter((key) => !hidden(key)).map(draw)).then(() => {
  show();
  document.body.dataset.ready = "yes";
});
