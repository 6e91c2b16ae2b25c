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
    const hue = (name) =>
      getComputedStyle(root).getPropertyValue(`--lt-${name}`).trim();
    const { width, height, annotations, yaxis, ...rest } = layout;
    return { data, layout: { ...rest, autosize: true,
      yaxis: { ...yaxis, constraintoward: "top" },
      // A label that lies on a curve stays readable.
      annotations: annotations?.map((label) =>
        ({ bgcolor: `${hue("paper")}cc`, ...label })),
      paper_bgcolor: CLEAR, plot_bgcolor: CLEAR,
      font: { ...layout.font, color: hue("ink") },
      // A finger that scrolls the page must not be caught by a plot, and
      // there is nothing to zoom into among square cells.
      dragmode: matchMedia("(pointer: coarse)").matches || yaxis?.scaleanchor
        ? false : layout.dragmode ?? "zoom" } };
  }

  const live = new Map();       // element of the plot: { figure, height }

  async function draw(element) {
    const Plotly = await loadPlotly();
    const { figure, height } = live.get(element);
    const { data, layout } = themed(structuredClone(figure));
    element.style.height = height;
    await Plotly.react(element, data, layout, { displayModeBar: false });
    await fit(element);
  }

  // In two lines, broken at the space nearest the middle.
  const halved = (title) => {
    const far = (i) => Math.abs(i - title.length / 2);
    const spaces = [...title.matchAll(/ /g)].map(({ index }) => index);
    const at = spaces.sort((a, b) => far(a) - far(b))[0];
    return at === undefined ? title
      : `${title.slice(0, at)}<br>${title.slice(at + 1)}`;
  };

  // What a narrow figure must change: labels that pass the right edge, a title
  // that passes either, ticks that had to be turned.
  function changes(element, box, rects) {
    const { margin, xaxis } = element._fullLayout, wanted = {};
    const over = Math.max(...rects(".annotation").map(({ right }) => right))
      - box.right;
    if (over > 0) wanted["margin.r"] = margin.r + over + 2;
    const [title] = rects(".xtitle");
    if (title && (title.left < box.left || title.right > box.right)
        && !xaxis.title.text.includes("<br>"))
      wanted["xaxis.title.text"] = halved(xaxis.title.text);
    const ticks = [...element.querySelectorAll(".xtick text")];
    if (ticks.some((tick) => /rotate\(-?[1-9]/.test(
      tick.getAttribute("transform")))) {
      const second = (_, i) => i % 2 === 0;
      if (xaxis.tickvals) {
        wanted["xaxis.tickvals"] = xaxis.tickvals.filter(second);
        wanted["xaxis.ticktext"] = xaxis.ticktext.filter(second);
      } else wanted["xaxis.dtick"] = 2 * xaxis.dtick;
    }
    return wanted;
  }

  // A figure whose cells are squares ends where its drawing does: on a phone
  // its height is not needed.
  async function fit(element) {
    const box = element.getBoundingClientRect();
    const rects = (parts) => [...element.querySelectorAll(parts)]
      .map((part) => part.getBoundingClientRect());
    for (let tries = 0; tries < 3; tries += 1) {
      const wanted = changes(element, box, rects);
      if (!Object.keys(wanted).length) break;
      await window.Plotly.relayout(element, wanted);
    }
    const { yaxis } = element._fullLayout;
    if (!yaxis?.scaleanchor) return;
    const end = Math.max(...rects(".cartesianlayer, .infolayer")
      .map(({ bottom }) => bottom));
    element.style.height = `${Math.ceil(end - box.top) + 8}px`;
  }

  async function wake(box) {
    const still = box.querySelector("img");
    const element = document.createElement("div");
    element.className = "lintut-plot-live";
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", still.alt);
    const stored = box.querySelector("script[type='application/json']");
    live.set(element, { figure: JSON.parse(stored.textContent),
                        height: still.style.height });
    await loadPlotly();
    still.before(element);
    box.classList.add("live");
    await draw(element);
    let width = element.clientWidth;
    new ResizeObserver(() => {
      // It has no size while the page is printed.
      if (!element.clientWidth || element.clientWidth === width) return;
      width = element.clientWidth;
      draw(element);
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
