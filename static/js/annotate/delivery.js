// Votes on their way: sent until the server has them, and counted.
(function () {
  "use strict";
  const { votes, drafts, sent, post, say, link, explain } = window.annotation;
  const { t } = window;
  const RETRY = 5000;

  // Answers may arrive in another order than the votes: the highest count is the latest.
  function showCount(html) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    const made = holder.content.firstElementChild;
    const shown = document.getElementById("own-progress");
    const count = (progress) => progress.querySelector("progress")?.value ?? 0;
    if (count(made) >= count(shown)) shown.replaceWith(made);
  }

  // `form` is the pair on the screen, which is held while its own vote is on the way; `onClear` is
  // called when none waits any more.
  window.annotation.delivery = function delivery({ form, hold, release, leave, onClear, onTold }) {
    const onTheWay = new Map();
    let retry = 0;
    let isLeaving = false;
    const isHere = (token) => token === form().dataset.token;

    // A vote that is answered while the next page is already on its way may be missing in that
    // page's count: it stays here, so that the next page asks again.
    function done(token, vote) {
      // Changed while it was on its way: what it is now goes next.
      if (votes.get(token)?.at !== vote.at) return;
      if (isLeaving) votes.put(token, { ...vote, isStored: true }); else votes.drop(token);
    }
    window.addEventListener("beforeunload", () => { isLeaving = true; });
    window.addEventListener("pageshow", (event) => { if (event.persisted) { isLeaving = false; resume(); } });

    // One after the other for each pair, so that an old vote never overtakes a changed one.
    // What became of it: stored, dropped (others had voted, or the round is closed), or waiting.
    function deliver(token) {
      const last = (onTheWay.get(token) ?? Promise.resolve()).then(() => send(token));
      onTheWay.set(token, last);
      return last;
    }

    // Posting twice stores one vote, so that trying again is always safe.
    async function send(token) {
      const vote = votes.get(token);
      if (!vote) return "stored";
      const answer = await post(vote.url, sent(vote));
      if (answer.state === "ok") {
        drafts.drop(token);
        done(token, vote);
        showCount(answer.text);
        const holder = document.createElement("template");
        holder.innerHTML = answer.text;
        const said = holder.content.querySelector("[data-feedback]");
        if (said) onTold(token, [...said.childNodes]);
        return "stored";
      }
      // It may be that of somebody else who uses this browser, and waits for them.
      if (answer.state === "gone" && !isHere(token)) return "dropped";
      if (answer.state === "down") { clearTimeout(retry); retry = setTimeout(resume, RETRY); }
      if (answer.state !== "refused" || isHere(token)) explain(answer);
      else say(t("Previous pair: {said}", { said: answer.text }), true, link(t("Show it"), vote.url.replace(/\/vote$/, "")));
      if (answer.state !== "refused") return "waiting";
      votes.drop(token);
      if (answer.status !== 409) drafts.put(token, { fields: vote.fields });
      return "dropped";
    }

    // False while one of the votes could not be sent.
    async function deliverAll() {
      const became = [];
      let stored = 0;
      for (const token of votes.tokens()) {
        const isNew = !votes.get(token)?.isStored;
        const isOnScreen = isHere(token);
        if (isOnScreen) hold();
        became.push(await deliver(token));
        if (isOnScreen && became.at(-1) === "stored") { leave(); return false; }
        if (isOnScreen) release();
        if (became.at(-1) !== "stored") continue;
        stored += isNew;
      }
      if (stored > 0 && became.every((each) => each === "stored")) {
        say(stored === 1 ? t("The waiting vote is now stored.") : t("Waiting votes that are now stored: {n}.", { n: stored }));
      }
      return !became.includes("waiting");
    }

    // A reason that is being written would go with the pair.
    async function resume() {
      if (document.querySelector("#flag[open]")) { clearTimeout(retry); retry = setTimeout(resume, RETRY); return; }
      if (await deliverAll()) onClear();
    }
    window.addEventListener("online", resume);

    return { deliver, deliverAll, resume };
  };
})();
