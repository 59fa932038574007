// What scripts say, in the language of the page. `words/de.js` and its like hold the translations.
(function () {
  "use strict";
  const known = window.translations ?? {};
  const { lang } = document.documentElement;
  // A name in braces stands for a value.
  window.t = (text, values = {}) => (known[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
  // English dates follow the browser. Arabic ones have the digits that the keys have.
  window.t.dates = lang === "en" ? undefined : lang.replace(/^ar$/, "ar-u-nu-latn");
})();
