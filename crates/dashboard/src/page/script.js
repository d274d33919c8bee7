"use strict";
// Shows one figure of several, hides series, and turns the theme. Without it everything is visible.
(() => {
  const root = document.documentElement;
  root.classList.add("with-script");

  // A theme that was chosen goes before the system's, until the page is left.
  const toggle = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => { toggle.textContent = isDark() ? "Light" : "Dark"; };
  toggle.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  system.addEventListener("change", name);
  name();

  // A button of a legend hides its series in the charts and in the table.
  for (const button of document.querySelectorAll(".legend button")) {
    button.disabled = false;
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const part of button.closest("figure").querySelectorAll("[data-series]")) {
        if (part.dataset.series === button.dataset.key) part.toggleAttribute("data-off", !shown);
      }
    });
  }

  // Each picker offers what there is under the choices before it.
  for (const section of document.querySelectorAll(".picked")) {
    const figures = [...section.querySelectorAll("figure")];
    const pickers = [...section.querySelectorAll("select")];
    if (pickers.length === 0) continue;
    const choices = (figure) => figure.dataset.choice.split("/");
    const offer = (from) => {
      for (let place = from; place < pickers.length; place++) {
        const fits = (figure) => pickers.slice(0, place).every((picker, i) => picker.value === choices(figure)[i]);
        const picker = pickers[place];
        const before = picker.value;
        const offered = new Set(figures.filter(fits).map((figure) => choices(figure)[place]));
        picker.replaceChildren(...[...offered].map((choice) => new Option(choice)));
        if (offered.has(before)) picker.value = before;
        picker.closest("label").hidden = offered.size < 2 && place === 0;
      }
      const chosen = pickers.map((picker) => picker.value).join("/");
      for (const figure of figures) figure.hidden = figure.dataset.choice !== chosen;
    };
    pickers.forEach((picker, place) => picker.addEventListener("change", () => offer(place + 1)));
    offer(0);
  }
})();
