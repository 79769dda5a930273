// What the console does in the browser in addition to htmx: countdowns, refreshing
// parts of a page when runs change, dialogs, keys. Pages work without it.
(() => {
  "use strict";
  const root = document.documentElement;
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Times. The server's clock judges; this machine's may be wrong.
  let ahead = Number(root.dataset.now || Date.now()) - Date.now();
  const two = (n) => String(n).padStart(2, "0");
  function distance(ms) {
    const s = Math.floor(Math.abs(ms) / 1000);
    if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)}`;
    if (s < 86400) return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
    return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
  }
  function tick() {
    const now = Date.now() + ahead;
    for (const el of $$("time[data-countdown]")) {
      const left = Date.parse(el.dateTime) - now;
      const text = left > 0 ? "in " + distance(left) : left > -2000 ? "now" : distance(left) + " ago";
      if (el.textContent !== text) el.textContent = text;
    }
  }
  setInterval(tick, 1000);

  // Refreshed parts: one request for all, and only changed ones are replaced, so that
  // nothing blinks. A part that the user is editing is not replaced.
  const busy = (el) => $("dialog[open]", el) || $("input:checked[name=id]", el) || (el.contains(document.activeElement) && $("input:focus, select:focus, textarea:focus", el));
  async function load(address) {
    const answer = await fetch(address, { headers: { "HX-Request": "true" } });
    if (answer.status === 401) { // the token has expired, and with it the cookie that held it
      location.href = "/ui/signin?ended=1&next=" + encodeURIComponent(location.pathname + location.search);
      return null;
    }
    if (!answer.ok) throw new Error(String(answer.status));
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }
  let fetching = false, again = false, last = 0, timer = 0;
  async function refresh() {
    timer = 0;
    if (document.hidden || log || !$("[data-live]")) return; // a page with a log updates itself
    if (fetching) { again = true; return; }
    fetching = true; last = Date.now();
    try {
      const fresh = await load(location.href);
      if (!fresh) return;
      ahead = Number(fresh.documentElement.dataset.now) - Date.now();
      for (const el of $$("[data-live]")) {
        const next = fresh.getElementById(el.id);
        if (!next || busy(el) || el.dataset.shown === next.innerHTML) continue;
        const focus = el.contains(document.activeElement) ? document.activeElement.id || document.activeElement.getAttribute("href") : null;
        const shown = next.innerHTML;
        el.replaceChildren(...next.childNodes);
        el.dataset.shown = shown;
        if (focus) ($(`#${CSS.escape(focus)}`, el) || $(`[href="${CSS.escape(focus)}"]`, el))?.focus();
        htmx.process(el);
      }
      tick();
      document.body.dispatchEvent(new CustomEvent("carillon:fresh"));
    } catch {
      say("lost");
    } finally {
      fetching = false;
      if (again) { again = false; soon(); }
    }
  }
  const atMost = Number($("[data-every]")?.dataset.every || 1000); // one every so often, and always one after the last change
  function soon() {
    if (!timer) timer = setTimeout(refresh, Math.max(50, last + atMost - Date.now()));
  }
  document.body.addEventListener("carillon:changed", soon);
  setInterval(() => { if (Date.now() - last > 14000) soon(); }, 5000);

  // The output of a run: asks for new lines each second until the run ends. The log
  // stays at its end, unless the reader has scrolled up.
  const log = $("#log");
  const toEnd = () => { log.scrollTop = log.scrollHeight; };
  function append(fresh) {
    const next = $("#log", fresh), tail = $("#tail");
    const end = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    if (next.dataset.whole === "true") log.replaceChildren();
    log.append(...next.childNodes);
    const height = log.scrollHeight, over = log.childElementCount - Number(log.dataset.most);
    for (let i = over; i > 0; i--) log.firstElementChild.remove();
    if (over > 0 || !$("#cut", fresh).hidden) $("#cut").hidden = false;
    log.hidden = !log.childElementCount;
    if (!log.hidden) $("#none")?.remove();
    else if ($("#none", fresh)) $("#none").textContent = $("#none", fresh).textContent;
    if (end) toEnd(); else log.scrollTop -= height - log.scrollHeight;
    const steps = $("#step");
    for (const option of $$("#step option", fresh)) if (![...steps.options].some((has) => has.value === option.value)) steps.append(option);
    for (const part of ["#status", "#about"]) {
      const now = $(part, fresh);
      if (now.innerHTML !== $(part).innerHTML) $(part).replaceChildren(...now.childNodes);
    }
    Object.assign(log.dataset, { more: next.dataset.more, follow: next.dataset.follow });
    if (tail.textContent !== $("#tail", fresh).textContent) tail.textContent = $("#tail", fresh).textContent;
  }
  async function follow() {
    try {
      const fresh = document.hidden ? null : await load(log.dataset.more);
      if (fresh) append(fresh);
    } catch (error) {
      $("#tail").textContent = Number(error.message) ? `The server answers with error ${error.message}. Trying again …` : "The server does not answer. Trying again …";
    }
    if (log.dataset.follow === "true") setTimeout(follow, 1000);
  }
  if (log) { toEnd(); if (log.dataset.follow === "true") setTimeout(follow, 1000); }

  // The stream of runs that change. Browsers open it again by themselves after
  // it broke; a hidden page closes it.
  const light = $("#live");
  function say(state) {
    if (!light || light.dataset.state === state) return;
    light.dataset.state = state;
    light.textContent = { open: "live", wait: "connecting …", lost: "reconnecting …", off: "every 15 s" }[state];
  }
  let stream = null;
  function listen() {
    const where = $("[data-stream]");
    if (where && !light.dataset.state) say("wait");
    if (!where || document.hidden || stream) return;
    stream = new EventSource(where.dataset.stream);
    stream.addEventListener("open", () => { say("open"); });
    stream.addEventListener("run", (event) => {
      soon();
      document.body.dispatchEvent(new CustomEvent("carillon:run", { detail: JSON.parse(event.data) }));
    });
    stream.addEventListener("error", () => {
      if (stream?.readyState !== EventSource.CLOSED) { say("lost"); return; }
      say("off"); deafen(); soon(); // refused, as a server that is full or shutting down does: browsers do not try again by themselves
      setTimeout(listen, 15000);
    });
  }
  function deafen() { stream?.close(); stream = null; }
  document.addEventListener("visibilitychange", () => { if (document.hidden) deafen(); else { listen(); soon(); } });
  addEventListener("pagehide", deafen);
  addEventListener("pageshow", (event) => { if (event.persisted) { listen(); soon(); } });

  // What htmx brings: an error is for the toasts, not for the part it would replace.
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, target } = event.detail;
    if (xhr.status >= 400 && target.id !== "toasts" && !target.dataset.errors) {
      event.detail.shouldSwap = false;
      target.textContent = "This could not be loaded (" + xhr.status + "). Reload the page to try again.";
    }
  });
  document.body.addEventListener("htmx:sendError", () => toast("Server unavailable. It is not known whether the change was made. Try again."));
  document.body.addEventListener("htmx:afterRequest", (event) => {
    const form = event.detail.elt;
    if (event.detail.successful) for (const input of $$("input[name=request_id]", form)) input.value = fresh();
    if (event.detail.successful && form.matches?.("dialog form")) form.closest("dialog").close();
    if (event.detail.successful && form.dataset?.clears) for (const box of $$("input[name=id]:checked")) { box.checked = false; count(); }
  });
  document.body.addEventListener("htmx:afterSettle", tick);
  function toast(text) {
    const p = document.createElement("div");
    p.className = "toast bad";
    p.textContent = text;
    $("#toasts").append(p);
    setTimeout(() => p.remove(), 8000);
  }
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const el of addedNodes) {
      if (el.classList?.contains("toast") && !el.classList.contains("bad")) setTimeout(() => { if (!el.matches(":hover, :focus-within")) el.remove(); }, 8000);
    }
  }).observe($("#toasts"), { childList: true });

  // Dialogs, the menu of a phone, the theme.
  const fresh = () => crypto.randomUUID?.() ?? String(Date.now()) + Math.random().toString(36).slice(2);
  document.addEventListener("click", (event) => {
    const at = (selector) => event.target.closest?.(selector);
    let el;
    if ((el = at("[data-dialog]"))) {
      const dialog = document.getElementById(el.dataset.dialog);
      for (const input of $$("input[name=request_id]", dialog)) input.value = fresh();
      dialog.showModal();
    } else if ((el = at("[data-close]"))) el.closest("dialog, .toast").matches("dialog") ? el.closest("dialog").close() : el.closest(".toast").remove();
    else if (at("#menu")) $("#menu").setAttribute("aria-expanded", String($(".side").classList.toggle("open")));
    else if (at("#theme")) {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      document.cookie = `carillon_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;
    } else if (event.target.matches?.("dialog")) event.target.close(); // its backdrop
  });

  // Ticking many.
  function count() {
    const bar = $("#bulk");
    if (!bar) return;
    const ids = $$("input[name=id]:checked").length, all = $("#tick-all");
    bar.hidden = ids === 0;
    for (const el of $$("[data-count]")) el.textContent = String(ids);
    if (all) { all.checked = ids > 0 && ids === $$("input[name=id]").length; all.indeterminate = ids > 0 && !all.checked; }
  }
  document.addEventListener("change", (event) => {
    if (event.target.id === "tick-all") for (const box of $$("input[name=id]")) box.checked = event.target.checked;
    if (event.target.matches("#tick-all, input[name=id]")) count();
    const form = event.target.closest("form[data-submits]");
    if (form && !event.target.matches("input[type=search], input[type=text]")) form.requestSubmit();
  });
  document.body.addEventListener("carillon:fresh", count);

  // Keys.
  let leader = 0;
  const places = { o: "/", s: "/ui/schedules", r: "/ui/runs", q: "/ui/queues", a: "/ui/alerts", p: "/ui/preview", m: "/ui/simulate", t: "/ui/timeline", w: "/ui/workers" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea") || $("dialog[open]")) return;
    if (event.key === "/" && $("[data-search]")) { event.preventDefault(); $("[data-search]").focus(); }
    else if (event.key === "?") { event.preventDefault(); $("#keys").showModal(); }
    else if (event.key === "g") leader = Date.now();
    else if (Date.now() - leader < 1500 && places[event.key]) { leader = 0; location.href = places[event.key]; }
  });

  tick(); count(); listen();
})();
