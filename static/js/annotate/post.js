// Posts to the server, and says in one word what became of it:
// ok, refused (with a sentence), gone (not this person's), out (logged out), down (server or network).
(function () {
  "use strict";
  // A connection that hangs is as good as none; trying again is safe.
  const PATIENCE = 30_000;

  function isLogin(response) {
    return response.redirected && new URL(response.url).pathname === document.body.dataset.login;
  }

  function csrfFields() { return document.querySelectorAll("[name=csrfmiddlewaretoken]"); }

  // Logging in again in another tab makes the token of this page stale.
  async function refresh() {
    const response = await fetch(window.location.href, { headers: { "X-Annotate": "1" } });
    if (isLogin(response)) return "out";
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.querySelector("[name=csrfmiddlewaretoken]");
    if (!fresh) return "down";
    csrfFields().forEach((field) => { field.value = fresh.value; });
    return "ok";
  }

  async function once(url, fields, keepalive) {
    const headers = { "X-Annotate": "1", "X-CSRFToken": csrfFields()[0].value };
    const signal = AbortSignal.timeout(PATIENCE);
    const response = await fetch(url, { method: "POST", headers, body: new URLSearchParams(fields), keepalive, signal });
    if (isLogin(response)) return { state: "out" };
    const { status } = response;
    if (response.ok) return { state: "ok", text: await response.text() };
    if (status === 403) return { state: "forbidden" };
    if (status === 404) return { state: "gone" };
    if (status >= 500 || status === 429) return { state: "down" };
    return { state: "refused", status, text: await response.text() };
  }

  window.annotation.post = async function post(url, fields, { keepalive = false } = {}) {
    try {
      const answer = await once(url, fields, keepalive);
      if (answer.state !== "forbidden") return answer;
      const state = await refresh();
      if (state !== "ok") return { state };
      const again = await once(url, fields, keepalive);
      return again.state === "forbidden" ? { state: "gone" } : again;
    } catch {
      return { state: "down" };
    }
  };

  window.annotation.isLogin = isLogin;
})();
