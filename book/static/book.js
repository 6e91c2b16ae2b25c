// Boxes that scroll sideways can be reached and scrolled from the keyboard,
// and fade at an edge behind which there is more.
(() => {
  "use strict";
  const BOXES = "div.equation, .pst-scrollable-table-container, "
    + ".cell_output .output, .cell_output [style*='overflow-x'], "
    + ".highlight pre";

  const mark = ({ target: box }) => {
    const past = Math.abs(box.scrollLeft);
    box.classList.toggle("more-left", past > 2);
    box.classList.toggle("more-right",
                         box.scrollWidth - box.clientWidth - past > 2);
  };
  const watch = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const box = entry.target;
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
      mark(entry);
    }
  });
  const boxes = document.querySelectorAll(BOXES);
  for (const box of boxes) {
    watch.observe(box);
    box.addEventListener("scroll", mark, { passive: true });
  }
  // A font that comes late makes a formula wider, and not its box.
  document.fonts.addEventListener("loadingdone", () => {
    for (const box of boxes) {
      watch.unobserve(box);
      watch.observe(box);
    }
  });
})();

// A page opened from a file may not fetch the pages that a search found, so
// their first lines are shown over http only.
if (location.protocol === "file:")
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// The theme's toggles in the table of contents say nothing to a screen reader.
for (const toggle of document.querySelectorAll(".bd-links summary")) {
  const chapter = toggle.closest("li").querySelector("a").textContent.trim();
  toggle.setAttribute("aria-label", `Below ${chapter}`);
}

// Paper is white: a dark page is printed as a light one.
(() => {
  "use strict";
  const page = document.documentElement.dataset;
  let theme;
  addEventListener("beforeprint", () => {
    theme ??= page.theme;
    page.theme = "light";
  });
  addEventListener("afterprint", () => {
    page.theme = theme ?? page.theme;
    theme = undefined;
  });
})();
