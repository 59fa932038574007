// Links the two sliders: what β costs, and what a sum of money buys, as the server reckons it.
(function () {
  "use strict";
  const form = document.getElementById("plan-form");
  const how = document.getElementById("id_how");
  const sliders = Array.from(form.querySelectorAll("[data-slides]"));
  const entry = (slider) => document.getElementById(slider.dataset.slides);

  function follow(slider) { slider.value = entry(slider).value; }

  // What the chosen side buys is shown on the other.
  function link(preview) {
    if (!preview.dataset.beta) return;
    sliders.forEach((slider) => {
      if (slider.dataset.how === "budget") slider.max = preview.dataset.most;
      if (slider.dataset.how !== how.value) {
        entry(slider).value = slider.dataset.how === "beta" ? preview.dataset.beta : preview.dataset.usd;
      }
      follow(slider);
    });
  }

  sliders.forEach((slider) => {
    slider.hidden = false;
    // Before htmx reads the form: the one that is moved decides.
    slider.addEventListener("input", () => {
      how.value = slider.dataset.how;
      const number = Number(slider.value);
      entry(slider).value = slider.dataset.how === "beta" ? number : number.toFixed(2);
    });
    entry(slider).addEventListener("input", () => {
      how.value = slider.dataset.how;
      follow(slider);
    });
  });

  document.addEventListener("htmx:load", (event) => {
    if (event.detail.elt.id === "plan-preview") link(event.detail.elt);
  });
  link(document.getElementById("plan-preview"));
})();
