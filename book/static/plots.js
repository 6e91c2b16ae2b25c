// Turns the still of each figure into the live plot as it comes near the view.
(() => {
  "use strict";
  const here = document.currentScript.src;
  const root = document.documentElement;
  const CLEAR = "rgba(0,0,0,0)";

  let library;
  const loadPlotly = () => library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL("plotly.min.js", here);
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("plotly.min.js is missing"));
    document.head.append(script);
  });

  const hex = (...rgb) => "#" + rgb.map(
    (x) => Number(x).toString(16).padStart(2, "0")).join("");

  // The palette's light colours in a string, replaced by their dark ones.
  const darkText = (text) => text
    .replace(/#[0-9a-f]{6}\b/gi,
      (colour) => window.lintutDark[colour.toLowerCase()] ?? colour)
    .replace(/rgba?\(\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)/gi,
      (colour, r, g, b) => {
        const dark = window.lintutDark[hex(r, g, b)];
        return dark === undefined ? colour : colour.replace(/\(.*/, "(")
          + [1, 3, 5].map((i) => parseInt(dark.slice(i, i + 2), 16)).join(",");
      });

  const darken = (value) => {
    if (typeof value === "string") return darkText(value);
    if (Array.isArray(value)) return value.map(darken);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(
      ([key, entry]) => [key, key === "bdata" ? entry : darken(entry)]));
  };

  function themed(figure) {
    const { data, layout } =
      root.dataset.theme === "dark" ? darken(figure) : figure;
    const ink = getComputedStyle(root).getPropertyValue("--lt-ink").trim();
    const { width, ...rest } = layout;
    return { data, layout: { ...rest, autosize: true,
      paper_bgcolor: CLEAR, plot_bgcolor: CLEAR,
      font: { ...layout.font, color: ink },
      // A finger that scrolls the page must not be caught by a plot.
      dragmode: matchMedia("(pointer: coarse)").matches
        ? false : layout.dragmode ?? "zoom" } };
  }

  const live = new Map();       // element of the plot: its figure, as stored

  async function draw(element) {
    const Plotly = await loadPlotly();
    const { data, layout } = themed(structuredClone(live.get(element)));
    await Plotly.react(element, data, layout, { displayModeBar: false });
  }

  async function wake(box) {
    const still = box.querySelector("img");
    const element = document.createElement("div");
    element.className = "lintut-plot-live";
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", still.alt);
    element.style.height = still.style.height;
    const stored = box.querySelector("script[type='application/json']");
    live.set(element, JSON.parse(stored.textContent));
    await loadPlotly();
    still.before(element);
    box.classList.add("live");
    await draw(element);
    new ResizeObserver(() => {
      // It has no size while the page is printed.
      if (element.clientWidth) window.Plotly.Plots.resize(element);
    }).observe(element);
  }

  const near = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      wake(target).catch((error) => {
        target.classList.remove("live");    // the still stays
        console.error(error);
      });
    }
  }, { rootMargin: "300px" });

  for (const box of document.querySelectorAll("figure.lintut-plot"))
    near.observe(box);

  new MutationObserver(() => { for (const element of live.keys()) draw(element); })
    .observe(root, { attributeFilter: ["data-theme"] });
})();
