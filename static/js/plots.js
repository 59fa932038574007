// Draws each figure.plot from the Vega-Lite beside it, in the page's own colours.
(function () {
  "use strict";
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();

  // As many columns of a legend as its longest label leaves room for.
  function columns(labels, width) {
    const longest = Math.max(1, ...labels.map((label) => String(label).length));
    return Math.max(1, Math.min(3, Math.floor(width / (longest * 6.5 + 28))));
  }

  function config(legendColumns) {
    const ink = colour("--ink"), quiet = colour("--quiet"), line = colour("--line");
    const accent = colour("--accent");
    return {
      background: "transparent",
      font: getComputedStyle(document.body).fontFamily,
      axis: { labelColor: quiet, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: "normal" },
      legend: { labelColor: ink, titleColor: ink, orient: "bottom", columns: legendColumns },
      view: { stroke: null },
      mark: { color: accent },
      rule: { color: quiet },
      point: { color: accent },
      range: {
        category: [accent, quiet, colour("--lose"), colour("--violet"), colour("--win"), ink],
        heatmap: [colour("--raised"), accent],
        ramp: [colour("--raised"), accent],
      },
    };
  }

  // The expression interpreter and the tooltip's own styles keep to the page's security policy.
  function draw(figure) {
    let labels = [];
    const spec = JSON.parse(figure.querySelector("script[type='application/json']").textContent, (key, value) => {
      if (key === "color" && value.scale && value.scale.domain) labels = labels.concat(value.scale.domain);
      return value;
    });
    const options = { ast: true, actions: false, defaultStyle: false, renderer: "svg", config: config(columns(labels, figure.clientWidth)), tooltip: { disableDefaultStyle: true } };
    return window.vegaEmbed(figure.querySelector(".drawing"), spec, options);
  }

  function drawAll(root) {
    root.querySelectorAll("figure.plot").forEach(draw);
  }

  document.addEventListener("themechange", () => drawAll(document));
  document.addEventListener("htmx:load", (event) => {
    if (event.detail.elt !== document.body) drawAll(event.detail.elt);
  });
  drawAll(document);
})();
