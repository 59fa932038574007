// The planner: two linked sliders, the links that fill the form, and an address that holds what was
// entered, so that a reload loses nothing. What β costs, and what money buys, the server reckons.
(function () {
  "use strict";
  const form = document.getElementById("plan-form");
  const sliders = Array.from(form.querySelectorAll("[data-slides]"));
  const entry = (slider) => document.getElementById(slider.dataset.slides);
  const how = () => form.elements.how.value;
  const opened = new Set();

  function follow(slider) { slider.value = entry(slider).value; }

  // What the chosen side buys is shown on the other.
  function link(preview) {
    if (!preview.dataset.beta) return;
    sliders.forEach((slider) => {
      if (slider.dataset.how === "budget") slider.max = preview.dataset.most;
      if (slider.dataset.how !== how()) {
        entry(slider).value = slider.dataset.how === "beta" ? preview.dataset.beta : preview.dataset.usd;
      }
      follow(slider);
    });
  }

  sliders.forEach((slider) => {
    slider.hidden = false;
    // Before htmx reads the form: the one that is moved decides.
    slider.addEventListener("input", () => {
      form.elements.how.value = slider.dataset.how;
      const number = Number(slider.value);
      entry(slider).value = slider.dataset.how === "beta" ? number : number.toFixed(2);
    });
    entry(slider).addEventListener("input", () => {
      form.elements.how.value = slider.dataset.how;
      follow(slider);
    });
  });

  form.elements.audit.addEventListener("input", () => {
    form.elements.audited.checked = Number(form.elements.audit.value) > 0;
  });

  // Keeps what was entered in the address.
  function keep() {
    const entered = new URLSearchParams();
    new FormData(form).forEach((value, name) => {
      if (name !== "csrfmiddlewaretoken" && value !== "") entered.append(name, value);
    });
    history.replaceState(null, "", `?${entered}`);
  }
  form.addEventListener("input", keep);
  form.addEventListener("change", keep);

  // A link to other settings fills them in, where the script runs.
  document.addEventListener("click", (event) => {
    const filling = event.target.closest?.("[data-plan-how]");
    if (!filling) return;
    event.preventDefault();
    form.elements.how.value = filling.dataset.planHow;
    if (filling.dataset.planBeta) form.elements.beta.value = filling.dataset.planBeta;
    form.dispatchEvent(new Event("change", { bubbles: true }));
  });

  // A field says by itself that it is wrong, also to a screen reader.
  function mark() {
    form.querySelectorAll("[data-errors]").forEach((place) => {
      const field = document.getElementById(place.dataset.errors);
      const isWrong = place.querySelector("li") !== null;
      if (!field) return;
      if (isWrong) {
        field.setAttribute("aria-invalid", "true");
        const details = field.closest("details");
        if (details) details.open = true;
      } else field.removeAttribute("aria-invalid");
    });
  }

  document.addEventListener("toggle", (event) => {
    if (event.target.id !== "plan-more") return;
    if (event.target.open) opened.add("plan-more"); else opened.delete("plan-more");
  }, true);

  document.addEventListener("htmx:load", (event) => {
    if (event.detail.elt.id !== "plan-preview") return;
    link(event.detail.elt);
    const more = document.getElementById("plan-more");
    if (more && opened.has("plan-more")) more.open = true;
  });
  document.addEventListener("htmx:afterSettle", mark);
  mark();
  link(document.getElementById("plan-preview"));
})();
