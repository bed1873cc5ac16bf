// Keeps the page live: fetches it again, takes over what differs, and lets the ages tick in between.
// Nothing is built here: all markup is the server's, parsed without being run.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const QUIET_S = 60;
  const SILENT_S = 300;
  const page = location.origin + location.pathname + location.search;
  const link = document.getElementById("link");
  let fetchedAt = performance.now();
  let lastAnswer = new Date();
  let timer = 0;

  function span(seconds) {
    const s = Math.floor(seconds);
    if (s < 60) return `${s} s`;
    if (s < 3600) return s % 60 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 60)} min`;
    return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  }

  function tick() {
    const passed = (performance.now() - fetchedAt) / 1000;
    for (const each of document.querySelectorAll("[data-age]")) {
      const age = Number(each.dataset.age) + passed;
      const text = `${span(age)} ago`;
      if (each.textContent !== text) each.textContent = text;
      each.className = age < QUIET_S ? "age" : age < SILENT_S ? "age quiet" : "age silent";
    }
  }

  function sameKind(a, b) {
    return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
  }

  // Nodes are kept where they can be, so that focus and selection stay.
  function take(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    takeChildren(old, fresh);
  }

  function takeChildren(old, fresh) {
    const known = new Map();
    for (const child of old.children) if (child.id) known.set(child.id, child);
    let at = old.firstChild;
    for (const want of [...fresh.childNodes]) {
      const kept = want.id && known.get(want.id);
      if (kept && kept !== at) {
        old.insertBefore(kept, at);
        take(kept, want);
      } else if (at && sameKind(at, want)) {
        const next = at.nextSibling;
        take(at, want);
        at = next;
      } else {
        old.insertBefore(document.importNode(want, true), at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function tell(text) {
    document.body.classList.toggle("stale", text !== "");
    if (link.textContent !== text) link.textContent = text;
  }

  async function refresh() {
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const answer = await fetch(page, { cache: "no-store", signal: AbortSignal.timeout(8000) });
      if (answer.status === 401) throw new Error("The daemon asks for its token: reload the page.");
      if (!answer.ok && answer.status !== 404) throw new Error(`The daemon answered ${answer.status}.`);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!fresh.getElementById("main")) throw new Error("Something else than the daemon answered.");
      fetchedAt = performance.now();
      lastAnswer = new Date();
      for (const id of ["counts", "main"]) take(document.getElementById(id), fresh.getElementById(id));
      document.title = fresh.title;
      tell("");
      tick();
    } catch (error) {
      const why = error.name === "TypeError" || error.name === "TimeoutError" ? "No answer from the daemon." : error.message;
      tell(`${why} What you see is of ${lastAnswer.toLocaleTimeString()}.`);
    }
    timer = setTimeout(refresh, EVERY_MS);
  }

  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  setInterval(tick, 500);
  timer = setTimeout(refresh, EVERY_MS);
})();
