// Passkeys: the browser makes one or uses one, and its answer is sent with the form.
(function () {
  "use strict";
  const form = document.querySelector("form[data-passkey]");
  if (!form) return;
  const problem = form.querySelector("[data-problem]");
  if (!window.PublicKeyCredential) {
    problem.hidden = false;
    return;
  }
  form.hidden = false;

  function bytes(text) {
    const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
  }

  function text(buffer) {
    const plain = String.fromCharCode(...new Uint8Array(buffer));
    return btoa(plain).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  }

  const decoded = (list) => (list || []).map((one) => ({ ...one, id: bytes(one.id) }));

  async function answer() {
    const { publicKey } = JSON.parse(form.dataset.options);
    publicKey.challenge = bytes(publicKey.challenge);
    if (form.dataset.passkey === "make") {
      publicKey.user.id = bytes(publicKey.user.id);
      publicKey.excludeCredentials = decoded(publicKey.excludeCredentials);
      return navigator.credentials.create({ publicKey });
    }
    publicKey.allowCredentials = decoded(publicKey.allowCredentials);
    return navigator.credentials.get({ publicKey });
  }

  form.addEventListener("submit", async (event) => {
    if (form.elements.answer.value) return;
    event.preventDefault();
    problem.hidden = true;
    try {
      const made = await answer();
      const response = {};
      const fields = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"];
      for (const name of fields) if (made.response[name]) response[name] = text(made.response[name]);
      form.elements.answer.value = JSON.stringify({
        id: made.id,
        rawId: text(made.rawId),
        type: made.type,
        response,
        clientExtensionResults: made.getClientExtensionResults(),
      });
      form.submit();
    } catch {
      problem.hidden = false;
    }
  });
})();
