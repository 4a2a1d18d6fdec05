// Makes pages follow what happens. Everything works without it; nothing here makes markup of text:
// new content is parsed as a document of its own and moved over, node by node.
"use strict";

(() => {
  const body = document.body;
  const pulse = document.querySelector(".pulse");

  function localTimes(root) {
    const lang = document.documentElement.lang;
    const form = new Intl.DateTimeFormat(lang, { dateStyle: "medium", timeStyle: "medium" });
    const short = new Intl.DateTimeFormat(lang, { timeStyle: "medium" });
    const today = new Date().toDateString();
    for (const node of root.querySelectorAll("time[data-ms]")) {
      const at = new Date(Number(node.dataset.ms));
      node.title = form.format(at);
      node.textContent = (at.toDateString() === today ? short : form).format(at);
    }
    for (const node of root.querySelectorAll("time[data-title]")) {
      node.title = form.format(Number(node.dataset.title));
    }
  }

  function isBusy(part) {
    if (part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) return true;
    return [...part.querySelectorAll("input, textarea, select")].some((field) =>
      field.tagName === "SELECT"
        ? [...field.options].some((option) => option.selected !== option.defaultSelected) &&
          field.selectedIndex !== Math.max(0, [...field.options].findIndex((o) => o.defaultSelected))
        : field.value !== field.defaultValue);
  }

  function sayChanged() {
    const place = document.getElementById("told");
    if (!place || place.querySelector(".changed")) return;
    const line = document.createElement("p");
    line.className = "banner wait changed";
    line.setAttribute("role", "status");
    line.append(body.dataset.changed || "", " ");
    const link = document.createElement("a");
    link.href = location.pathname;
    link.textContent = body.dataset.reload || "";
    line.append(link);
    place.append(line);
  }

  function keepOpen(before, after) {
    const opened = [...before.querySelectorAll("details")].map((node) => node.open);
    [...after.querySelectorAll("details")].forEach((node, i) => { if (opened[i]) node.open = true; });
  }

  // What the model says while it says it. A step that has come into the trace stands there in full.
  const words = document.getElementById("words");
  let saying = 0;

  function steps() {
    const trace = document.getElementById("trace");
    return trace ? Number(trace.dataset.steps) : 0;
  }

  function quiet() {
    if (!words || saying > steps()) return;
    words.hidden = true;
    words.querySelector(".text").replaceChildren();
  }

  function say(event) {
    const piece = JSON.parse(event.data);
    if (!words || piece.step <= steps()) return;
    const place = words.querySelector(".text");
    if (piece.kind === "begin" || piece.step !== saying) place.replaceChildren();
    saying = piece.step;
    if (piece.tool) place.append(`${place.textContent ? "\n" : ""}${piece.tool} `);
    place.append(piece.text);
    words.hidden = false;
  }

  function swap(fresh) {
    for (const part of document.querySelectorAll("[data-part]")) {
      const next = fresh.getElementById(part.id);
      if (!next) continue;
      if (part.id === "decision") {
        if (part.dataset.pause === next.dataset.pause && next.dataset.pause) continue;
        if (isBusy(part)) { sayChanged(); continue; }
      }
      const moved = document.importNode(next, true);
      localTimes(moved);
      if (moved.isEqualNode(part)) continue;
      keepOpen(part, moved);
      part.replaceWith(moved);
    }
    quiet();
  }

  let looking = false;
  let again = false;
  async function look() {
    if (looking) { again = true; return; }
    looking = true;
    try {
      const address = location.pathname + location.search.replace(/([?&])done=[^&]*/, "$1");
      const answer = await fetch(address, { credentials: "same-origin", redirect: "manual" });
      if (answer.ok) swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      return; // the stream tells when the server is there again
    } finally {
      looking = false;
      if (again) { again = false; soon(); }
    }
  }

  let waiting = 0;
  function soon() {
    clearTimeout(waiting);
    waiting = setTimeout(look, 300);
  }

  function follow(address) {
    let source = null;
    const start = () => {
      if (source || document.hidden) return;
      source = new EventSource(address);
      source.onopen = () => pulse.classList.remove("lost");
      source.onerror = () => pulse.classList.add("lost");
      source.addEventListener("look", soon);
      source.addEventListener("words", say);
    };
    const stop = () => {
      if (source) source.close();
      source = null;
    };
    pulse.hidden = false;
    // A browser opens few connections to one server: tabs that nobody looks at must not keep any.
    document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
    addEventListener("pagehide", stop);
    addEventListener("pageshow", start);
    start();
  }

  localTimes(document);
  const filters = document.querySelector("form[data-filters]");
  if (filters) filters.addEventListener("change", () => filters.requestSubmit());
  for (const form of document.querySelectorAll("form")) {
    form.addEventListener("submit", () => {
      // a second click must not send a second decision
      setTimeout(() => { for (const button of form.querySelectorAll("button")) button.disabled = true; });
    });
  }
  if (body.dataset.live && pulse && "EventSource" in window) follow(body.dataset.live);
  const every = Number(body.dataset.every || 30);
  if (body.dataset.live) setInterval(() => { if (!document.hidden) soon(); }, every * 1000);
})();
