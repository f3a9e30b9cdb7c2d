// Keys, copy buttons, ages that stay true, and forms that are sent once. Every page
// works without this file.
(() => {
  "use strict";
  const root = document.documentElement;
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  root.classList.add("js");

  // A key that an input method is still using is not ours. Safari ends a composition
  // with keyCode 229 after isComposing has become false.
  const composing = (e) => e.isComposing || e.keyCode === 229;
  const typing = (el) => el.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName);

  // Rows: j and k move the focus from one row's link to the next, so that Enter opens
  // it and a screen reader says it.
  function step(by) {
    const links = $$("[data-rows] > tr").map((row) => $("th a, td a", row)).filter(Boolean);
    if (!links.length) return;
    const row = document.activeElement.closest("[data-rows] > tr");
    const at = row ? links.findIndex((a) => row.contains(a)) : -1;
    const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by));
    links[next].focus();
    links[next].closest("tr").scrollIntoView({ block: "nearest" });
  }

  let went = 0; // when g was pressed
  const keys = {
    "/": () => { const q = $("#q"); if (q) { q.focus(); q.select(); } },
    "?": () => { const d = $("#keys"); if (d) d.showModal(); },
    j: () => step(1),
    k: () => step(-1),
    g: (e) => { went = e.timeStamp; },
  };
  document.addEventListener("keydown", (e) => {
    if (composing(e)) {
      if (e.key === "Enter" && typing(e.target)) e.preventDefault();
      return;
    }
    if (e.key === "Escape" && e.target.id === "q") return e.target.blur();
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e.target) || $("dialog[open]")) return;
    const go = went && e.timeStamp - went < 1500 && $(`[data-go="${CSS.escape(e.key)}"]`);
    went = 0;
    const act = go ? () => go.click() : keys[e.key];
    if (!act) return;
    e.preventDefault();
    act(e);
  });

  // Copy. Plain http on another host has no clipboard API, and a browser may refuse it;
  // the old way still works there.
  async function copy(text) {
    try {
      return await navigator.clipboard.writeText(text);
    } catch {
      old(text);
    }
  }
  function old(text) {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "vh";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const live = $("#live");
  const say = (text) => { if (live) live.textContent = text; };
  document.addEventListener("click", (e) => {
    const button = e.target.closest("[data-copy]");
    if (button) {
      copy(button.dataset.copy).then(() => {
        say(live.dataset.copied);
        button.classList.add("copy--done");
        setTimeout(() => { button.classList.remove("copy--done"); say(""); }, 1500);
      });
      return;
    }
    const opener = e.target.closest("[data-open]");
    if (opener) document.getElementById(opener.dataset.open).showModal();
    if (e.target.closest('[aria-disabled="true"]')) e.preventDefault();
  });

  // Forms: a dangerous one asks once; none is sent twice.
  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (form.method === "dialog") return;
    if (form.dataset.sent) return e.preventDefault();
    const ask = $("#ask");
    if (form.dataset.confirm && !form.dataset.sure && ask) {
      e.preventDefault();
      const by = e.submitter;
      $("[data-ask]", ask).textContent = form.dataset.confirm;
      $("[data-yes]", ask).textContent = by ? by.textContent.trim() : "";
      ask.returnValue = "";
      ask.onclose = () => {
        if (ask.returnValue !== "yes") return;
        form.dataset.sure = "1";
        form.requestSubmit(by);
      };
      ask.showModal();
      return;
    }
    if (form.method !== "post") return;
    form.dataset.sent = "1";
    $$("button", form).forEach((b) => b.setAttribute("aria-disabled", "true"));
  });
  // A page that comes back from the browser's memory may be sent again.
  window.addEventListener("pageshow", (e) => {
    if (!e.persisted) return;
    $$("form[data-sent]").forEach((form) => {
      delete form.dataset.sent;
      delete form.dataset.sure;
      $$("button", form).forEach((b) => b.removeAttribute("aria-disabled"));
    });
  });

  // Ages follow the server's clock: the browser's may be wrong.
  const body = document.body.dataset;
  const ahead = Date.now() - Date.parse(body.now);
  const fill = (pattern, value) => pattern.replace("{0}", value);
  function age(el) {
    const seconds = Math.round((Date.now() - ahead - Date.parse(el.dateTime)) / 1000);
    const units = body.units.split("|");
    const n = Math.abs(seconds);
    const span = n < 60 ? fill(units[0], n)
      : n < 3600 ? fill(units[1], Math.floor(n / 60))
      : n < 172800 ? fill(units[2], Math.floor(n / 3600))
      : fill(units[3], Math.floor(n / 86400));
    return el.dataset.age === "span" ? span : fill(seconds < 0 ? body.future : body.past, span);
  }
  const tick = () => $$("time[data-age]").forEach((el) => {
    const text = age(el);
    if (el.textContent !== text) el.textContent = text;
  });
  if (body.units) setInterval(() => { if (!document.hidden) tick(); }, 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && body.units) tick(); });
})();
