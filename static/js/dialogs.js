// Dialogs that ask for a name before something is destroyed, and images that a click enlarges.
(function () {
  "use strict";
  const { t } = window;
  // Over the whole window, in its own size. A click or Escape closes it.
  function enlarge(image) {
    const dialog = document.createElement("dialog");
    dialog.className = "enlarged";
    dialog.setAttribute("aria-label", image.alt || t("Picture"));
    dialog.append(image.cloneNode());
    dialog.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element)) return;
    const opener = event.target.closest("[data-opens]");
    if (opener) document.getElementById(opener.dataset.opens)?.showModal();
    const closer = event.target.closest("[data-closes]");
    if (closer) document.getElementById(closer.dataset.closes)?.close();
    const picture = event.target.closest(".picture");
    if (picture) enlarge(picture.querySelector("img"));
  });

  document.addEventListener("input", (event) => {
    const field = event.target;
    if (!(field instanceof HTMLInputElement) || !("mustEqual" in field.dataset)) return;
    const same = field.value.trim() === field.dataset.mustEqual.trim();
    field.setCustomValidity(same ? "" : t("This doesn't match. Type the name exactly as shown."));
  });
})();
