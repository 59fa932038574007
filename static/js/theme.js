// Light, dark, or as the system says. Loaded before the first paint, so that no page flashes.
(function () {
  "use strict";
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  // Storage may be closed to us; then a choice lasts as long as the page.
  const chosen = {};

  function read(key) {
    try { return localStorage.getItem(key) ?? chosen[key]; } catch { return chosen[key]; }
  }

  function apply() {
    const theme = read("fairjudge-theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    if (read("fairjudge-reading") === "serif") root.dataset.reading = "serif";
    else delete root.dataset.reading;
    document.dispatchEvent(new CustomEvent("themechange"));
  }

  function store(key, value) {
    chosen[key] = value;
    try { localStorage.setItem(key, value); } catch { /* kept in `chosen` alone */ }
  }

  function wire(holder, key, otherwise) {
    const select = holder.querySelector("select");
    select.value = read(key) || otherwise;
    holder.hidden = false;
    select.addEventListener("change", () => { store(key, select.value); apply(); });
  }

  apply();
  system.addEventListener("change", apply);
  window.addEventListener("storage", apply);
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("[data-theme-switch]").forEach((el) => wire(el, "fairjudge-theme", "system"));
    document.querySelectorAll("[data-reading-switch]").forEach((el) => wire(el, "fairjudge-reading", "sans"));
  });
})();
