"use strict";

// Milliseconds without a key press after which the half widths are requested.
const PAUSE = 500;
// Milliseconds between two questions whether a release still runs.
const POLL = 1500;

document.documentElement.classList.add("script");

// A column shows only the fields that its content needs.
function showParts(select) {
  const chosen = select.selectedOptions[0];
  const needed = (chosen && chosen.dataset.needs || "").split(" ");
  for (const part of ["lower", "upper", "levels", "missing"]) {
    const box = document.querySelector(`[data-part="${part}-${select.dataset.column}"]`);
    box.hidden = !needed.includes(part);
  }
}
for (const select of document.querySelectorAll("[data-column]")) {
  showParts(select);
  select.addEventListener("change", () => showParts(select));
}
const unit = document.getElementById("unit");
if (unit) {
  const show = () => { document.querySelector("[data-unit]").hidden = !unit.value; };
  unit.addEventListener("change", show);
  show();
}

// The half widths follow the answers. One request runs at a time; the last answers count.
const live = document.querySelector("[data-live]");
if (live) {
  const place = document.getElementById("widths");
  let timer = 0, running = false, changed = false;
  let shown = "";
  const show = sentences => { // a screen reader reads every change aloud
    if (shown === (shown = sentences.join("\n"))) return;
    place.replaceChildren(...sentences.map(sentence => {
      const paragraph = document.createElement("p");
      paragraph.textContent = sentence;
      return paragraph;
    }));
  };
  const update = async () => {
    changed = running;
    if (running) return;
    running = true;
    place.setAttribute("aria-busy", "true");
    try {
      const body = new URLSearchParams(new FormData(live));
      const answer = await fetch(live.dataset.live, { method: "POST", body });
      const { sentences } = await answer.json();
      if (!changed) show(sentences);
    } catch {
      show(["The half widths are not available. Is dpcov app still running?"]);
    }
    running = false;
    if (changed) update();
    else place.removeAttribute("aria-busy");
  };
  live.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(update, PAUSE);
  });
  if (document.getElementById("rows").value) update();
}

// A page that waits for a release asks whether it still runs.
const waiting = document.querySelector("[data-poll]");
if (waiting) {
  const ask = async () => {
    try {
      const { running } = await (await fetch(waiting.dataset.poll)).json();
      if (!running) return location.replace(waiting.dataset.then);
    } catch {
      waiting.textContent = "dpcov app does not answer. Is it still running in the terminal?";
    }
    setTimeout(ask, POLL);
  };
  setTimeout(ask, POLL);
}

// A slow command says so, and a form is sent once.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", event => {
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    const busy = form.querySelector(".busy");
    if (busy) busy.textContent = form.dataset.slow;
  });
}
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[method=post]")) delete form.dataset.sent;
});

const problem = document.getElementById("problem");
if (problem) problem.focus();
