// Times are written in UTC; this shows them in the browser's zone, and keeps "3 min ago" true.
(function () {
  "use strict";
  const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

  function duration(seconds) {
    if (seconds < 99.5) return `${Math.max(0, Math.round(seconds))} s`;
    const minutes = Math.round(seconds / 60);
    if (minutes < 60) return `${minutes} min`;
    const hours = Math.floor(minutes / 60);
    if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
    return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  }

  function show(root) {
    root.querySelectorAll("time[data-local], time[data-ago]").forEach((time) => {
      const when = new Date(time.dateTime);
      if (Number.isNaN(when.getTime())) return;
      time.title = exact.format(when);
      time.textContent = "ago" in time.dataset ? `${duration((Date.now() - when) / 1000)} ago` : full.format(when);
    });
  }

  show(document);
  document.addEventListener("htmx:load", (event) => show(event.detail.elt.parentElement || document));
  setInterval(() => show(document), 30000);
})();
