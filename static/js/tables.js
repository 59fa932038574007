// Tables are sorted by their heads: click or Enter, once up, once more down. Left as they are what
// the server sorts and, unless marked data-sort, what comes in pages or has a single row.
(function () {
  "use strict";
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  // What was chosen in a table, by its name: outlasts the renewal of a part of the page.
  const chosen = new Map();
  const SECONDS = { d: 86400, h: 3600, min: 60, s: 1 };
  const DURATION = /^(\d+(\.\d+)? (d|h|min|s)\s?)+$/;

  function cellAt(row, column) {
    let place = 0;
    return Array.from(row.cells).find((cell) => (place += cell.colSpan) > column);
  }

  function raw(row, column) {
    const cell = cellAt(row, column);
    if (!cell) return "";
    return cell.dataset.value ?? cell.querySelector("time")?.dateTime
      ?? cell.querySelector("select")?.value ?? cell.textContent.trim();
  }

  function seconds(text) {
    return Array.from(text.matchAll(/(\d+(?:\.\d+)?) (d|h|min|s)/g))
      .reduce((sum, [, n, unit]) => sum + n * SECONDS[unit], 0);
  }

  // What stands before a number (≈ $1.20, < .001) is no part of it; a reason that holds one is none.
  function number(text) {
    if (DURATION.test(text)) return seconds(text);
    return parseFloat(text.replace(/−/g, "-").replace(/[\s\u202f\u00a0$%≈<≤+]/g, ""));
  }

  // Undefined values have no place in an order: they come last in both directions.
  function key(row, column, type) {
    const text = raw(row, column);
    if (type === "text") return text === "" ? null : text;
    const value = type === "time" ? Date.parse(text) : number(text);
    return Number.isNaN(value) ? null : value;
  }

  function typeOf(head, table, column) {
    if (head.dataset.sortType) return head.dataset.sortType;
    if (head.classList.contains("num")) return "number";
    const cells = Array.from(table.tBodies[0].rows, (row) => cellAt(row, column)).filter(Boolean);
    const held = cells.filter((cell) => cell.textContent.trim());
    if (held.some((cell) => cell.querySelector("time"))) return "time";
    const numeric = held.every((cell) => /^[−-]?\d*\.?\d+(e-?\d+)?$/.test(cell.textContent.trim()));
    return held.length && numeric ? "number" : "text";
  }

  // A row that goes on about the one above stays with it.
  function groups(body) {
    const found = [];
    for (const row of body.rows) {
      if (row.classList.contains("said") && found.length) found[found.length - 1].push(row);
      else found.push([row]);
    }
    return found;
  }

  function sort(table, head, column, up) {
    const type = typeOf(head, table, column);
    table.querySelectorAll("thead th[aria-sort]").forEach((th) => th.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    for (const body of table.tBodies) {
      const sorted = groups(body).map((rows) => [key(rows[0], column, type), rows]);
      sorted.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        const by = type === "text" ? collator.compare(a, b) : a - b;
        return up ? by : -by;
      });
      body.append(...sorted.flatMap(([, rows]) => rows));
    }
  }

  function sorts(table) {
    if (!table.tHead || !table.tBodies.length || table.dataset.sort === "ready") return false;
    if (table.tHead.querySelector("[aria-sort]")) return false;
    if ("noSort" in table.dataset) return false;
    if ("sort" in table.dataset) return true;
    if (table.closest(".scroll")?.nextElementSibling?.matches(".pager")) return false;
    return groups(table.tBodies[0]).length > 1;
  }

  // A column of buttons is named for those who can't see it, and there is nothing in it to sort by.
  function isShown(head) {
    const hidden = head.querySelector(".visually-hidden")?.textContent ?? "";
    return head.textContent.trim() !== hidden.trim();
  }

  function wireHead(table, head, column) {
    if ("noSort" in head.dataset || head.colSpan > 1 || !isShown(head)) return;
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
    const name = nameOf(table);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      sort(table, head, column, up);
      chosen.set(name, { column, up });
    });
    const before = chosen.get(name);
    if (before?.column === column) sort(table, head, column, before.up);
  }

  function nameOf(table) { return table.closest("[aria-label]")?.getAttribute("aria-label"); }

  function wire(table) {
    if (!sorts(table)) return;
    table.dataset.sort = "ready";
    const heads = Array.from(table.tHead.rows[table.tHead.rows.length - 1].cells);
    let column = 0;
    heads.forEach((head) => { wireHead(table, head, column); column += head.colSpan; });
  }

  function wireAll(root) { root.querySelectorAll("table.data").forEach(wire); }
  wireAll(document);
  document.addEventListener("htmx:load", (event) => wireAll(event.detail.elt.parentElement || document));
})();
