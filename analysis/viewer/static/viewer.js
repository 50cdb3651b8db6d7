// Keys, and the refreshing of a sweep that runs; every page works without.
"use strict";

const ITEMS = "main [data-item], main .pager a";

function items() {
  return [...document.querySelectorAll(ITEMS)].filter((one) => one.getClientRects().length);
}

function show(item) {
  if (!item) return false;
  item.focus();
  item.scrollIntoView({ block: "nearest", inline: "nearest" });
  return true;
}

function column(cell) {
  return [...cell.parentElement.children].indexOf(cell);
}

// In a table up and down keep the column; elsewhere, and past its ends, they go through all items in turn.
function down(step) {
  const all = items();
  const at = document.activeElement;
  const cell = at && at.closest ? at.closest("td, th") : null;
  if (cell && all.includes(at)) {
    let row = cell.parentElement;
    while ((row = step > 0 ? row.nextElementSibling : row.previousElementSibling)) {
      const other = row.children[column(cell)];
      const item = other && other.querySelector("[data-item]");
      if (item) return show(item);
    }
    const table = all.map((one) => one.closest("table"));
    const own = at.closest("table");
    const place = step > 0 ? table.lastIndexOf(own) + 1 : table.indexOf(own) - 1;
    return show(all[place]);
  }
  const place = all.indexOf(at);
  return show(place < 0 ? all[step > 0 ? 0 : all.length - 1] : all[place + step]);
}

function across(step) {
  const at = document.activeElement;
  const all = items();
  const place = all.indexOf(at);
  const next = place < 0 ? null : all[place + step];
  const row = at && at.closest ? at.closest("tr") : null;
  if (next && row && next.closest("tr") !== row) return false;
  return place >= 0 && show(next);
}

function follow(selector) {
  const link = document.querySelector(selector);
  if (link) link.click();
  return Boolean(link);
}

function help() {
  const panel = document.getElementById("help");
  panel.open = !panel.open;
  if (panel.open) {
    panel.scrollIntoView();
    panel.querySelector("summary").focus();
  }
  return true;
}

function filter() {
  const field = document.querySelector("#filter input[type=search]");
  if (field) {
    field.focus();
    field.select();
  }
  return Boolean(field);
}

const KEYS = {
  j: () => down(1),
  ArrowDown: () => down(1),
  k: () => down(-1),
  ArrowUp: () => down(-1),
  h: () => across(-1),
  ArrowLeft: () => across(-1),
  l: () => across(1),
  ArrowRight: () => across(1),
  u: () => follow("a[rel=up]"),
  Backspace: () => follow("a[rel=up]"),
  n: () => follow("a[rel=next]"),
  p: () => follow("a[rel=prev]"),
  t: () => follow("a[data-key=t]"),
  m: () => follow("a[data-key=m]"),
  b: () => follow("a[data-key=b]"),
  e: () => follow("a[data-key=e]"),
  "/": filter,
  "?": help,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) {
    if (event.key === "Escape") at.blur();
    return;
  }
  const act = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
  if (act && act()) event.preventDefault();
});

const button = document.querySelector("[data-help]");
if (button) {
  button.hidden = false;
  button.addEventListener("click", help);
}

function again() {
  const seconds = Number(document.body.dataset.refresh);
  if (seconds) setTimeout(refresh, 1000 * seconds);
}

// The page's main part is replaced by what the same address says now; focus, what is typed and places stay.
async function refresh() {
  const at = document.activeElement;
  const busy = document.hidden || (at && at.closest("form"));
  try {
    const answer = busy ? null : await fetch(location.href, { cache: "no-store" });
    if (answer && answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const href = at && at.getAttribute("href");
      const scrolled = [...document.querySelectorAll("main .wide")].map((one) => one.scrollLeft);
      document.querySelector("main").replaceWith(document.adoptNode(fresh.querySelector("main")));
      document.querySelectorAll("main .wide").forEach((one, place) => (one.scrollLeft = scrolled[place] || 0));
      if (href) {
        const same = [...document.querySelectorAll("main a")].find((one) => one.getAttribute("href") === href);
        if (same) same.focus({ preventScroll: true });
      }
      if (fresh.body.dataset.refresh) document.body.dataset.refresh = fresh.body.dataset.refresh;
      else delete document.body.dataset.refresh;
    }
  } catch {
    // the viewer was stopped, or is busy: the next time
  }
  again();
}

again();
