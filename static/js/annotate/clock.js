// Active time: the tab is visible, and the person did something within the last minute.
(function () {
  "use strict";
  const IDLE = 60_000;
  const TICK = 1000;
  let seconds = 0;
  let touched = performance.now();
  let last = performance.now();

  function tick() {
    const now = performance.now();
    // A machine that slept, or a tab that was throttled, was not worked at.
    const passed = Math.min(now - last, 2 * TICK);
    last = now;
    if (document.visibilityState === "visible" && now - touched < IDLE) seconds += passed / 1000;
  }

  ["pointermove", "pointerdown", "keydown", "wheel", "touchmove", "focus"].forEach((name) => {
    window.addEventListener(name, () => { touched = performance.now(); }, { passive: true, capture: true });
  });
  setInterval(tick, TICK);

  window.annotation.clock = {
    take() { tick(); const taken = seconds; seconds = 0; return Math.round(taken * 1000) / 1000; },
    giveBack(taken) { seconds += taken; },
    idleFor() { return performance.now() - touched; },
  };
})();
