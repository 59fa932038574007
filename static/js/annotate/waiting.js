// On pages without a pair: votes that could not be sent before are sent, and counted on the page.
(async function () {
  "use strict";
  const { votes, sent, post } = window.annotation;
  let stored = 0;
  for (const token of votes.tokens()) {
    const vote = votes.get(token);
    // What is refused is told of, and kept, on the screen of the next pair.
    if ((await post(vote.url, sent(vote))).state !== "ok") continue;
    votes.drop(token);
    stored += 1;
  }
  if (stored) window.location.reload();
})();
