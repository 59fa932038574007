// Times are written in UTC; this shows them in the browser's zone, and keeps "3 min ago" true.
(function () {
  "use strict";
  const { t } = window;
  const full = new Intl.DateTimeFormat(t.dates, { dateStyle: "medium", timeStyle: "short" });
  const exact = new Intl.DateTimeFormat(t.dates, { dateStyle: "full", timeStyle: "long" });

  function duration(seconds) {
    if (seconds < 99.5) return t("{n} s", { n: Math.max(0, Math.round(seconds)) });
    const minutes = Math.round(seconds / 60);
    if (minutes < 60) return t("{n} min", { n: minutes });
    const hours = Math.floor(minutes / 60);
    if (hours < 48) return t("{hours} h {minutes} min", { hours, minutes: String(minutes % 60).padStart(2, "0") });
    return t("{days} d {hours} h", { days: Math.floor(hours / 24), hours: hours % 24 });
  }

  function show(root) {
    root.querySelectorAll("time[data-local], time[data-ago]").forEach((time) => {
      const when = new Date(time.dateTime);
      if (Number.isNaN(when.getTime())) return;
      time.title = exact.format(when);
      time.textContent = "ago" in time.dataset ? t("{time} ago", { time: duration((Date.now() - when) / 1000) }) : full.format(when);
    });
  }

  show(document);
  document.addEventListener("htmx:load", (event) => show(event.detail.elt.parentElement || document));
  setInterval(() => show(document), 30000);
})();
