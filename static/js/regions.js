// What is wider than its column scrolls: an edge is marked while more lies beyond it, and only then
// the Tab key stops at it, so that it can be scrolled without a mouse.
(function () {
  "use strict";
  const IN_RESPONSE = ".response :is(pre, table, .formula, math)";
  const WIDE = `.scroll, ${IN_RESPONSE}`;

  function reach(part) {
    const room = part.scrollWidth - part.clientWidth;
    const passed = Math.abs(part.scrollLeft);
    const [before, behind] = getComputedStyle(part).direction === "rtl" ? ["right", "left"] : ["left", "right"];
    const more = [passed > 1 && before, room - passed > 1 && behind].filter(Boolean);
    if (more.length) part.dataset.more = more.join(" "); else delete part.dataset.more;
    // What has nothing to scroll to is no stop of the Tab key. Focus is not taken from anybody.
    if (room > 1 || part.scrollHeight - part.clientHeight > 1) part.tabIndex = 0;
    else if (part !== document.activeElement) part.removeAttribute("tabindex");
  }

  // Also fires when a response is shown, is filled anew, or loses or gains width.
  const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    if (target.matches(WIDE)) reach(target);
    target.querySelectorAll(WIDE).forEach(reach);
  }));

  function watch(root) {
    root.querySelectorAll(".response, .scroll").forEach((place) => sizes.observe(place));
    root.querySelectorAll(WIDE).forEach(reach);
  }
  watch(document);
  document.addEventListener("htmx:load", (event) => watch(event.detail.elt.parentElement || document));
  document.addEventListener("scroll", ({ target }) => {
    if (target instanceof Element && target.matches(WIDE)) reach(target);
  }, { capture: true, passive: true });
})();
