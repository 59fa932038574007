// What is entered in the form: read, filled in, found incomplete, kept as a draft.
(function () {
  "use strict";
  const { drafts, clock, post } = window.annotation;
  const WAIT = 400;
  const RETRY = 5000;

  function fieldsOf(form) {
    const data = new FormData(form);
    data.delete("csrfmiddlewaretoken");
    data.delete("seconds");
    return [...data.entries()];
  }

  function fill(form, fields) {
    form.querySelectorAll("input[type=radio], [name=overall], [name^=reason-]").forEach((radio) => { radio.checked = false; });
    for (const [name, value] of fields) {
      if (name === "comment") form.elements.comment.value = value;
      else if (name.startsWith("spans-")) { if (form.elements[name]) form.elements[name].value = value; }
      else if (name === "overall" || name === "confidence" || /^(criterion|reason)-/.test(name)) {
        const radio = form.querySelector(`input[name="${CSS.escape(name)}"][value="${CSS.escape(value)}"]`);
        if (radio) radio.checked = true;
      }
    }
  }

  function groupsOf(form) { return [...form.querySelectorAll("[role=radiogroup]")]; }

  const CANT_JUDGE = "cant_judge";
  const cannot = (form) => form.querySelector("[name=overall]:checked")?.value === CANT_JUDGE;

  // Who can't judge a pair says why, and answers no other row.
  function isAnswered(group) { return Boolean(group.querySelector("input:checked")) || cannot(group.closest("form")); }
  // A box, if the overall answer is derived: whoever answers a row after all can judge the pair.
  function takeBack(form, chosen) {
    const box = form.querySelector("[name=overall][type=checkbox]");
    if (box && chosen.name.startsWith("criterion-")) box.checked = false;
  }
  function lacksReason(form) { return cannot(form) && !form.elements.comment.value.trim(); }
  function askForReason(form) {
    const { comment } = form.elements;
    comment.dataset.usual ??= comment.placeholder;
    comment.placeholder = cannot(form) ? comment.dataset.reason : comment.dataset.usual;
  }

  // Drafts are sent one after the other, so that an old one never overtakes a new one.
  function keeper(form, { onKept, onLost }) {
    const { token, url } = form.dataset;
    let timer = 0;
    let sending = Promise.resolve();
    let isDirty = false;
    let isOver = false;

    async function send(keepalive) {
      if (isOver) return true;
      const fields = fieldsOf(form);
      const seconds = clock.take();
      isDirty = false;
      const answer = await post(`${url}/draft`, [...fields, ["seconds", seconds]], { keepalive });
      if (answer.state === "ok") {
        // What is sent while the page goes away may arrive after the next page was made.
        if (!isDirty && !keepalive) drafts.drop(token);
        onKept();
        return true;
      }
      clock.giveBack(seconds);
      if (isOver) return false;
      onLost(answer);
      if (answer.state === "down") later(RETRY);
      return false;
    }

    function now() {
      clearTimeout(timer);
      sending = sending.then(() => send(false));
      return sending;
    }

    function later(wait) {
      clearTimeout(timer);
      timer = setTimeout(now, wait);
    }

    return {
      changed() {
        isDirty = true;
        drafts.put(token, { fields: fieldsOf(form) });
        later(WAIT);
      },
      // True once the server has all of it.
      stored: now,
      hidden() { clearTimeout(timer); send(true); },
      // From here on the vote carries what was entered.
      end() { isOver = true; clearTimeout(timer); drafts.drop(token); return sending; },
      resume() { isOver = false; },
    };
  }

  Object.assign(window.annotation, { fieldsOf, fill, groupsOf, isAnswered, takeBack, lacksReason, askForReason, keeper, CANT_JUDGE });
})();
