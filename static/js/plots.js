// Draws each figure.plot that comes into view from the Vega-Lite beside it, in the page's colours.
(function () {
  "use strict";
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();

  const widest = (labels) => 6.5 * Math.max(1, ...labels.map((label) => String(label).length));

  // As many columns of a legend as its longest label leaves room for, to the right of the axis.
  function columns(labels, names, width) {
    const room = width - (names.length ? Math.min(180, widest(names)) : 0);
    return Math.max(1, Math.min(3, Math.floor(room / (widest(labels) + 28))));
  }

  // A colour between two others. Text in the page's ink stays legible on it.
  function between(from, to, share) {
    const part = (hex, place) => parseInt(hex.slice(place, place + 2), 16);
    const hexes = [from, to].map((name) => toHex(colour(name)));
    return `#${[1, 3, 5].map((place) => Math.round(part(hexes[0], place) * (1 - share) + part(hexes[1], place) * share).toString(16).padStart(2, "0")).join("")}`;
  }

  function toHex(text) {
    const parts = text.match(/[\d.]+/g);
    if (text.startsWith("#")) return text.length === 4 ? text.replace(/[^#]/g, "$&$&") : text;
    return `#${parts.slice(0, 3).map((part) => Math.round(Number(part)).toString(16).padStart(2, "0")).join("")}`;
  }

  function config(legendColumns) {
    const ink = colour("--ink"), quiet = colour("--quiet"), line = colour("--line");
    const shades = [colour("--raised"), between("--raised", "--win", 0.45)];
    return {
      background: "transparent",
      font: getComputedStyle(document.body).fontFamily,
      axis: { labelColor: quiet, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: "normal", labelFontSize: 12, titleFontSize: 13 },
      legend: { labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 13, labelLimit: 280, orient: "bottom", columns: legendColumns },
      view: { stroke: null },
      mark: { color: ink },
      text: { color: ink },
      rule: { color: quiet },
      point: { color: ink },
      range: {
        // What can be acted on has the accent, so no line of a chart has it.
        category: [colour("--win"), quiet, colour("--lose"), colour("--violet"), ink, colour("--edge")],
        heatmap: shades,
        ramp: shades,
      },
    };
  }

  // The expression interpreter and the tooltip's own styles keep to the page's security policy.
  function draw(figure) {
    let labels = [], axis;
    const spec = JSON.parse(figure.querySelector("script[type='application/json']").textContent, (key, value) => {
      if (key === "color" && value.scale && value.scale.domain) labels = labels.concat(value.scale.domain);
      if (key === "y" && value.type === "nominal") axis = value.field;
      const named = typeof value === "string" && value.match(/^var\((--[a-z]+)\)$/);
      return named ? colour(named[1]) : value;
    });
    const names = axis ? spec.data.values.map((row) => row[axis]) : [];
    const options = { ast: true, actions: false, defaultStyle: false, renderer: "svg", config: config(columns(labels, names, figure.clientWidth)), tooltip: { disableDefaultStyle: true } };
    figure.dataset.drawn = "";
    const drawing = figure.querySelector(".drawing");
    const name = drawing.ariaLabel;
    return window.vegaEmbed(drawing, spec, options).then(() => {
      // One picture with one name, as before it was drawn. Its marks are read in the table.
      drawing.role = "img";
      drawing.ariaLabel = name;
      drawing.querySelector("svg").setAttribute("aria-hidden", "true");
    });
  }

  // The library is ten times as large as a page, so it comes when the first chart is in view.
  const source = document.currentScript.dataset.library;
  let library;
  function load() {
    if (window.vegaEmbed) return Promise.resolve();
    library ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = source;
      script.onload = resolve;
      script.onerror = () => { library = undefined; reject(new Error("The charts' library did not load.")); };
      document.head.append(script);
    });
    return library;
  }

  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      // Without the library, the table under the chart has the same numbers.
      load().then(() => draw(target), () => { target.querySelector("details").open = true; });
    }
  }, { rootMargin: "200px" });

  function watch(root) {
    root.querySelectorAll("figure.plot").forEach((figure) => seen.observe(figure));
  }

  document.addEventListener("themechange", () => document.querySelectorAll("figure.plot[data-drawn]").forEach(draw));
  document.addEventListener("htmx:load", (event) => {
    if (event.detail.elt !== document.body) watch(event.detail.elt);
  });
  watch(document);
})();
