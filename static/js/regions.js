// What is wider than its column scrolls: an edge is marked while more lies beyond it, and only then
// the Tab key stops at it, so that it can be scrolled without a mouse. A part that is renewed keeps the
// focus, and what was unfolded in it.
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

  const STOPS = "a[href], button, input, select, textarea, summary, [tabindex]";
  const keyOf = (stop) => stop.getAttribute("href") ?? stop.name ?? stop.textContent;
  const open = (region) => [...region.querySelectorAll("details[open] > summary")].map((one) => one.textContent);
  const held = new Map();

  document.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
    const focused = document.activeElement;
    const isInside = target !== document.body && target.contains(focused);
    const place = isInside ? [...target.querySelectorAll(STOPS)].indexOf(focused) : -1;
    held.set(target.id, { place, key: place < 0 ? "" : keyOf(focused), opened: open(target) });
  });
  document.addEventListener("htmx:afterSettle", ({ target }) => held.forEach(({ place, key, opened }, id) => {
    const region = id ? document.getElementById(id) : null;
    if (!region?.contains(target)) return;
    held.delete(id);
    region.querySelectorAll("details > summary").forEach((one) => { if (opened.includes(one.textContent)) one.parentElement.open = true; });
    if (place < 0 || document.activeElement !== document.body) return;
    const stops = [...region.querySelectorAll(STOPS)];
    const same = stops.filter((stop) => keyOf(stop) === key);
    (same.includes(stops[place]) || !same.length ? stops[place] : same[0])?.focus({ preventScroll: true });
  }));
  document.addEventListener("scroll", ({ target }) => {
    if (target instanceof Element && target.matches(WIDE)) reach(target);
  }, { capture: true, passive: true });
})();
