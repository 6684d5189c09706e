// Keeps pages fresh, and says when that cannot be done. Everything works without it, by reloading.
"use strict";

(() => {
  const FLOOR = 3000; // ms between two looks where no events are heard
  const body = document.body;
  const stale = document.getElementById("stale");
  const live = document.getElementById("live");
  const announce = document.getElementById("announce");
  const source = body.dataset.live;
  let heard = 0; // when word came last, or the stream was opened
  let asking = false;
  let again = false;
  let since = null;

  const status = () => document.querySelector("#head .status")?.textContent.trim();

  // Replaces the parts of the page that may have changed by those of the same page asked for now. What is open stays
  // open, and where the focus is it stays.
  async function refresh() {
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
      const told = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (answer.redirected && !answer.url.startsWith(location.href.split("?")[0])) {
        location.reload();
        return;
      }
      if (!answer.ok) {
        throw new Error(told.querySelector(".problem .message")?.textContent || `the answer was ${answer.status}`);
      }
      const before = status();
      replace(told);
      fresh();
      const after = status();
      if (after && after !== before) announce.textContent = `The run is now ${after}`;
    } catch (error) {
      away(error.message);
    } finally {
      asking = false;
      if (again) {
        again = false;
        refresh();
      }
    }
  }

  function replace(told) {
    const places = [...document.querySelectorAll("[data-fresh]")];
    const wanted = new Map([...told.querySelectorAll("[data-fresh]")].map((one) => [one.id, one]));
    if (places.length !== wanted.size || places.some((one) => !wanted.has(one.id))) {
      const main = told.querySelector("main");
      if (main) swap(document.querySelector("main"), main);
      return;
    }
    for (const old of places) {
      const made = wanted.get(old.id);
      if (old.innerHTML !== made.innerHTML) swap(old, made);
    }
  }

  function swap(old, made) {
    const open = new Set([...old.querySelectorAll("details[open]")].map(nameOf));
    const focused = old.contains(document.activeElement) ? pathOf(document.activeElement, old) : null;
    const scrolled = [...old.querySelectorAll(".scroll, pre")].map((one) => [
      one.scrollTop,
      one.scrollLeft,
      one.scrollHeight - one.scrollTop - one.clientHeight < 4,
    ]);
    for (const one of made.querySelectorAll("details")) one.open = open.has(nameOf(one));
    const there = document.importNode(made, true);
    old.replaceWith(there);
    [...there.querySelectorAll(".scroll, pre")].forEach((one, at) => {
      if (!scrolled[at]) return;
      one.scrollTop = scrolled[at][2] ? one.scrollHeight : scrolled[at][0];
      one.scrollLeft = scrolled[at][1];
    });
    if (focused) there.querySelector(focused)?.focus({ preventScroll: true });
  }

  const nameOf = (details) =>
    `${details.closest("[data-key]")?.dataset.key ?? ""} ${details.className} ${details.querySelector("summary")?.textContent.length < 20 ? details.querySelector("summary").textContent : ""}`;

  function pathOf(element, root) {
    const parts = [];
    for (let at = element; at !== root; at = at.parentElement) {
      parts.unshift(`:nth-child(${[...at.parentElement.children].indexOf(at) + 1})`);
    }
    return `:scope > ${parts.join(" > ")}`;
  }

  function fresh() {
    since = null;
    stale.hidden = true;
  }

  function away(why) {
    since = since || new Date();
    stale.textContent = `This page shows what was so at ${since.toISOString().slice(11, 19)} UTC: ${why}.`;
    stale.hidden = false;
  }

  function say(word, title) {
    live.hidden = false;
    live.textContent = word;
    live.className = `live ${word}`;
    live.title = title;
  }

  if (source) {
    const scroll = document.querySelector("#log .scroll");
    if (scroll) scroll.scrollTop = scroll.scrollHeight;
    const events = new EventSource(source);
    // Said whenever a stream begins, every 15 s. What came since the page was made, or between two streams, nobody told.
    events.addEventListener("hello", () => {
      if (!document.hidden) refresh();
      heard = Date.now();
      say("live", "It is told when something changes");
    });
    events.addEventListener("changed", () => {
      heard = Date.now();
      if (!document.hidden) refresh();
      else again = true;
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) refresh();
    });
    setInterval(() => {
      const listens = events.readyState === EventSource.OPEN || Date.now() - heard < 2000;
      if (!listens) say("polling", "It asks every few seconds");
      if (!document.hidden && (!listens || since !== null)) refresh();
    }, FLOOR);
  }

  setInterval(() => {
    if (!document.hidden && document.querySelector("[data-going]")) refresh();
  }, 700);

  const retry = document.querySelector("[data-retry]");
  if (retry) {
    setInterval(async () => {
      try {
        if ((await fetch(location.href, { cache: "no-store" })).ok) location.reload();
      } catch {
        // The dashboard itself is away; it is asked again.
      }
    }, 1000 * Number(retry.dataset.retry));
  }

  // Instants are shown in UTC; the visitor's own time is in what pops up.
  document.addEventListener("mouseover", (event) => {
    const time = event.target.closest?.("time");
    if (time && !time.dataset.local) {
      time.dataset.local = "1";
      time.title += `\n${new Date(time.dateTime).toLocaleString()} here`;
    }
  });

  // A status is chosen at once; all else in the filter waits for its button.
  document.addEventListener("change", (event) => {
    if (event.target.matches(".statuses input")) event.target.form.requestSubmit();
  });

  // "/" leads to the filter, as in many tools.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) return;
    const field = document.querySelector(".filters .fields input");
    if (field) {
      event.preventDefault();
      field.focus();
    }
  });
})();
