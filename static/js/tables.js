// Tables marked data-sort are sorted by their heads: click or Enter, once up, once more down.
(function () {
  "use strict";
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  function raw(row, column) {
    const cell = row.cells[column];
    if (!cell) return "";
    return cell.dataset.value ?? cell.querySelector("time")?.dateTime ?? cell.textContent.trim();
  }

  // Undefined values have no place in an order: they come last in both directions.
  function key(row, column, type) {
    const text = raw(row, column);
    if (type === "time") { const time = Date.parse(text); return Number.isNaN(time) ? null : time; }
    if (type !== "number") return text === "" ? null : text;
    const plain = text.replace(/−/g, "-").replace(/[\s\u202f\u00a0$%]/g, "");
    const value = parseFloat(plain);
    return Number.isNaN(value) ? null : value;
  }

  function sort(table, head, column) {
    const up = head.getAttribute("aria-sort") !== "ascending";
    const type = head.dataset.sortType || (head.classList.contains("num") ? "number" : "text");
    table.querySelectorAll("thead th[aria-sort]").forEach((th) => th.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    for (const body of table.tBodies) {
      const rows = Array.from(body.rows, (row) => [key(row, column, type), row]);
      rows.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        const by = typeof a === "string" ? collator.compare(a, b) : a - b;
        return up ? by : -by;
      });
      body.append(...rows.map(([, row]) => row));
    }
  }

  function wire(table) {
    if (!table.tHead || table.dataset.sort === "ready") return;
    table.dataset.sort = "ready";
    Array.from(table.tHead.rows[table.tHead.rows.length - 1].cells).forEach((head) => {
      if ("noSort" in head.dataset || head.colSpan > 1 || !head.textContent.trim()) return;
      head.setAttribute("aria-sort", "none");
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      if (head.querySelector("a, button")) {
        button.setAttribute("aria-label", `Sort by ${head.textContent.trim()}`);
        head.append(" ", button);
      } else {
        button.append(...head.childNodes);
        head.append(button);
      }
      button.addEventListener("click", () => sort(table, head, head.cellIndex));
    });
  }

  function wireAll(root) { root.querySelectorAll("table[data-sort]").forEach(wire); }
  wireAll(document);
  document.addEventListener("htmx:load", (event) => wireAll(event.detail.elt.parentElement || document));
})();
