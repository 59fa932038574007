// What the server has not confirmed yet, kept in this browser by the item's token.
(function () {
  "use strict";
  const DAYS = 14;
  // Where storage is closed to us, things are kept as long as the page.
  const memory = new Map();

  function read(key) {
    try { return JSON.parse(localStorage.getItem(key)) ?? memory.get(key); } catch { return memory.get(key); }
  }

  function write(key, value) {
    memory.set(key, value);
    try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* kept in memory alone */ }
  }

  function remove(key) {
    memory.delete(key);
    try { localStorage.removeItem(key); } catch { /* nothing was stored */ }
  }

  function keys() {
    try { return new Set([...memory.keys(), ...Object.keys(localStorage)]); } catch { return new Set(memory.keys()); }
  }

  function box(name) {
    const prefix = `fairjudge-${name}:`;
    return {
      get: (token) => read(prefix + token),
      put: (token, value) => write(prefix + token, { at: Date.now(), ...value }),
      drop: (token) => remove(prefix + token),
      tokens() {
        const found = [...keys()].filter((key) => key.startsWith(prefix));
        found.filter((key) => Date.now() - read(key).at > DAYS * 86400000).forEach(remove);
        return found.map((key) => key.slice(prefix.length));
      },
    };
  }

  // What a vote is sent with: how long it waited, as something else may have been said meanwhile.
  const sent = (vote) => [...vote.fields, ["age", (Date.now() - vote.at) / 1000]];

  window.annotation = { drafts: box("draft"), votes: box("vote"), sent };
})();
