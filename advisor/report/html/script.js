"use strict";
const root = document.documentElement;
root.classList.add("js");
const all = (selector, from) => [...(from || document).querySelectorAll(selector)];
const on = (target, event, act, how) => target.addEventListener(event, act, how);
const make = (tag, name = "", text = "") => Object.assign(document.createElement(tag), { className: name, textContent: text });
const many = (count) => count.toLocaleString("en");
const redraw = [];
const near = (event, selector) => event.target.closest?.(selector);

// Theme: as the system has it, until it is switched; forgotten with the page.
const dark = () =>
  root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const toggle = document.getElementById("theme");
const named = () => {
  toggle.textContent = dark() ? "Light theme" : "Dark theme";
  redraw.forEach((draw) => draw());
};
on(toggle, "click", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  named();
});
on(matchMedia("(prefers-color-scheme: dark)"), "change", named);

// Copy the new code of a fix: what is the same, and what comes.
for (const button of all("button.copy")) {
  const code = document.getElementById(button.dataset.of);
  on(button, "click", async () => {
    const text = all(".new code, .same code", code).map((line) => line.textContent).join("\n") + "\n";
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    button.textContent = done ? "Copied" : "Not allowed";
    setTimeout(() => (button.textContent = "Copy the new code"), 1500);
  });
}

// Long names are cut to two lines until they are clicked; the whole is their title.
on(document, "mouseover", (event) => {
  const cell = near(event, ".clip");
  if (cell && !cell.title && cell.scrollHeight > cell.clientHeight + 1) cell.title = cell.textContent;
});
on(document, "click", (event) => {
  const cell = near(event, ".clip");
  if (cell && !String(getSelection())) cell.classList.toggle("open");
});

// A tap shows what a pointer is shown: the title of a part of a picture.
const told = make("div", "tip told");
told.setAttribute("role", "status");
told.hidden = true;
document.body.append(told);
on(document, "click", (event) => {
  const part = near(event, "svg :has(> title)");
  told.hidden = !part;
  if (!part) return;
  told.textContent = part.querySelector("title").textContent;
  told.style.left = Math.max(8, Math.min(event.pageX, root.clientWidth - told.offsetWidth - 8)) + "px";
  told.style.top = event.pageY + 12 + "px";
});

// Names in flame graphs: as much of each as there is room for.
const fitted = new ResizeObserver((graphs) => {
  for (const text of graphs.flatMap((graph) => all("text", graph.target))) {
    const name = text.parentNode.firstChild.textContent.replace(/: [^:]*$/, "");
    const room = text.previousSibling.getBoundingClientRect().width - 8;
    text.textContent = name;
    let n = Math.floor((name.length * room) / text.getComputedTextLength());
    while (n < name.length && text.textContent && text.getComputedTextLength() > room) text.textContent = n > 2 ? name.slice(0, n--) + "…" : "";
  }
});
all(".flame").forEach((graph) => fitted.observe(graph));

// A link to a finding opens it, be it on the page, in the address, or followed a second time.
const arrivals = [];
const reveal = () => {
  arrivals.forEach((arrive) => arrive());
  const place = document.getElementById(location.hash.slice(1));
  const whole = place && (place.localName === "details" ? place : place.querySelector(":scope > details.whole"));
  if (!whole || whole.open) return;
  whole.open = true;
  place.scrollIntoView();
};
addEventListener("hashchange", reveal);
on(document, "click", (event) => {
  if (near(event, "a[href^='#']")?.hash === location.hash) reveal();
});
reveal();

// On paper everything is open.
let closed = [];
addEventListener("beforeprint", () => {
  closed = all("details:not([open])");
  closed.forEach((one) => (one.open = true));
});
addEventListener("afterprint", () => closed.forEach((one) => (one.open = false)));

// Tables: sorted by their headings, filtered by a box, folded where they are trees.
const value = (cell) => {
  if (!cell) return null;
  if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
  const text = cell.textContent.trim();
  const figure = cell.className === "n" ? Number(text.replaceAll(",", "")) : NaN;
  return text === "–" ? null : isNaN(figure) ? text.toLowerCase() : figure;
};
const compare = (a, b, down) => {
  if (a === null || b === null) return (a === null) - (b === null); // what is missing comes last either way
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  return down ? -order : order;
};
for (const table of all("table.grid")) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row, index) => ({ row, index, below: [], open: true, text: row.textContent.toLowerCase() }));
  rows.forEach((one) => {
    one.parent = rows[Number(one.row.dataset.p ?? -1)] || null;
    if (one.parent) one.parent.below.push(one);
  });
  let wanted = "";
  const show = () => {
    const fits = new Set();
    for (const one of rows) {
      if (!one.text.includes(wanted)) continue;
      for (let at = one; at; at = at.parent) fits.add(at);
    }
    let count = 0;
    for (const one of rows) {
      let hidden = !fits.has(one);
      if (!wanted) for (let at = one.parent; at; at = at.parent) if (!at.open) hidden = true;
      one.row.hidden = hidden;
      count += !hidden && one.text.includes(wanted);
    }
    return count;
  };
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = make("button", "", head.textContent);
    head.textContent = "";
    head.append(button);
    on(button, "click", () => {
      const now = head.getAttribute("aria-sort");
      const figures = head.classList.contains("n");
      const down = now === "none" ? figures : now === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", other === head ? (down ? "descending" : "ascending") : "none"));
      const place = (list) => {
        const keyed = list.map((one) => [value(one.row.cells[column]), one]);
        keyed.sort((a, b) => compare(a[0], b[0], down) || a[1].index - b[1].index);
        for (const [, one] of keyed) {
          body.append(one.row);
          place(one.below);
        }
      };
      place(rows.filter((one) => !one.parent));
    });
  });
  for (const one of rows) {
    if (!one.below.length) {
      if (one.row.dataset.d) one.row.cells[0].prepend(make("span", "fold"));
      continue;
    }
    const button = make("button", "fold");
    const fold = (open) => {
      one.open = open;
      button.textContent = open ? "▾" : "▸";
      button.setAttribute("aria-expanded", String(open));
    };
    button.setAttribute("aria-label", "Rows below " + one.row.cells[0].textContent.trim().slice(0, 80));
    on(button, "click", (event) => {
      event.stopPropagation();
      fold(!one.open);
      show();
    });
    one.row.cells[0].prepend(button);
    fold(Number(table.dataset.open ?? 0) > Number(one.row.dataset.d ?? 0));
  }
  show();
  if (rows.length > 8) {
    const box = make("input", "filter");
    box.type = "search";
    box.placeholder = "filter";
    box.setAttribute("aria-label", "Filter: " + table.getAttribute("aria-label"));
    const said = make("span", "said");
    said.setAttribute("role", "status");
    on(box, "input", () => {
      wanted = box.value.trim().toLowerCase();
      const count = show();
      said.textContent = wanted ? count + " of " + rows.length : "";
    });
    const bar = make("div", "tools");
    bar.append(box, said);
    table.parentElement.before(bar);
  }
}

// The timeline.
const ROW = 17, HEAD = 18, GAP = 5, AXIS = 20;
const spoken = (ns) => {
  const ms = ns / 1e6;
  if (ns < 1e3) return ns.toFixed(0) + " ns";
  if (ns < 1e6) return Number((ns / 1e3).toPrecision(3)) + " µs";
  return ms < 100 ? Number(ms.toPrecision(3)) + " ms" : many(Math.round(ms)) + " ms";
};
const colours = (names) => {
  const probe = make("span");
  document.body.append(probe);
  const found = names.map((name) => {
    probe.style.color = "";
    probe.style.color = "var(--" + name + ")";
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return found;
};
const ink = (colour) => {
  const [r, g, b] = (colour.match(/[\d.]+/g) || [0, 0, 0]).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 128 ? "#000" : "#fff";
};

for (const box of all(".timeline")) {
  const find = (name) => box.querySelector(name);
  const [pane, canvas, tip, arrows, readout, search, said] = [".pane", "canvas", ".tip", "g", ".readout", "input", ".said"].map(find);
  const pen = canvas.getContext("2d");
  const lanes = new Map();
  let data, start, len, every, tracks, height;
  let from = 0, to = 0, width = 0, lit = null, chosen = -1, over = -1, calls = [], paint = {}, waiting = 0;
  const style = () => {
    const kinds = data.categories.map((name) => "c-" + name);
    const [text, muted, line, page, accent, ...fills] = colours(["ink", "muted", "line", "card", "accent", ...kinds]);
    paint = { text, muted, line, page, accent, fills, inks: fills.map(ink) };
  };
  const later = () => {
    if (!waiting) waiting = requestAnimationFrame(draw);
  };
  const view = (a, b) => {
    const span = Math.min(data.dur, Math.max(200, b - a));
    from = Math.min(Math.max(0, a), data.dur - span);
    to = from + span;
    box.dataset.from = Math.round(from);
    box.dataset.to = Math.round(to);
    later();
  };
  const zoom = (factor, x) => {
    const middle = from + (to - from) * (x === undefined ? 0.5 : x / width);
    view(middle - (middle - from) * factor, middle + (to - middle) * factor);
  };
  const size = () => {
    width = pane.clientWidth;
    const scale = Math.min(devicePixelRatio || 1, 16384 / Math.max(height, width));
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    later();
  };
  const stop = (i) => start[i] + len[i];
  const level = (lane) => tracks[Math.floor(lane / 100)].top + HEAD + (lane % 100) * ROW;
  const top = (i) => level(data.track[i] * 100 + data.row[i]);

  function draw() {
    waiting = 0;
    pen.clearRect(0, 0, width, height);
    pen.font = "11px ui-monospace, Menlo, Consolas, monospace";
    pen.textBaseline = "middle";
    const letter = pen.measureText("M").width;
    const scale = width / (to - from);
    const raw = (to - from) / Math.max(2, width / 110);
    const power = 10 ** Math.floor(Math.log10(raw));
    const tick = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
    pen.strokeStyle = paint.line;
    pen.lineWidth = 1;
    const marks = [];
    for (let at = Math.ceil(from / tick) * tick; at <= to; at += tick) {
      const x = Math.round((at - from) * scale) + 0.5;
      marks.push([x, at]);
      pen.beginPath();
      pen.moveTo(x, AXIS);
      pen.lineTo(x, height);
      pen.stroke();
    }
    for (let pass = 0; pass < 2; pass++) {
      for (const i of every) {
        const end = stop(i);
        // What is lit is drawn after, and so above, the rest.
        if (end < from || start[i] > to || Number(lit && lit[i]) !== pass) continue;
        const x = Math.max(-2, (start[i] - from) * scale);
        const wide = Math.max(0.7, Math.min(width + 2, (end - from) * scale) - x);
        const y = top(i), kind = data.category[i], dim = lit && !lit[i];
        pen.globalAlpha = dim ? 0.25 : 1;
        pen.fillStyle = paint.fills[kind];
        pen.fillRect(x, y, wide > 3 ? wide - 0.5 : wide, ROW - 2);
        const room = Math.floor((wide - 6) / letter);
        if (room >= 3) {
          const name = data.count[i] > 1 ? many(data.count[i]) + " events" : data.names[data.name[i]];
          pen.fillStyle = dim ? paint.text : paint.inks[kind];
          if (dim) pen.globalAlpha = 0.6;
          pen.fillText(name.length > room ? name.slice(0, room - 1) + "…" : name, Math.max(0, x) + 3, y + ROW / 2 - 0.5);
        }
        if (pass && wide > 4) {
          pen.strokeStyle = paint.text;
          pen.strokeRect(x + 0.5, y + 0.5, wide - 1.5, ROW - 3);
        }
      }
    }
    pen.globalAlpha = 1;
    for (const i of [over, chosen]) {
      if (i < 0) continue;
      const x = (start[i] - from) * scale;
      pen.strokeStyle = paint.accent;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, top(i) - 1, Math.max(2, len[i] * scale) + 1, ROW);
    }
    // From a launch to what it launched.
    arrows.replaceChildren(...calls.slice(0, 200).map(([k, when, lane]) => {
      const line = document.createElementNS(arrows.namespaceURI, "line");
      const ends = { x1: (when - from) * scale, y1: level(lane), x2: (start[k] - from) * scale, y2: top(k) + ROW - 2 };
      for (const end in ends) line.setAttribute(end, ends[end]);
      return line;
    }));
    pen.fillStyle = paint.muted;
    for (const track of tracks) pen.fillText(track.label, 4, track.top + HEAD / 2 + 1);
    const up = pane.scrollTop;
    pen.fillStyle = paint.page;
    pen.fillRect(0, up, width, AXIS - 2);
    pen.fillStyle = paint.muted;
    for (const [x, at] of marks) pen.fillText(spoken(at), Math.min(x + 3, width - 60), up + 9);
  }

  const what = (i) => {
    const name = data.names[data.name[i]], count = data.count[i];
    const kind = data.categories[data.category[i]].replace("_", " ");
    return [
      count > 1 ? `${many(count)} events, merged; the longest is ${name}` : name,
      `${kind} · ${len[i] ? spoken(len[i]) : "recorded as 0"}${count > 1 ? " together" : ""} · from ${spoken(start[i])} · ${tracks[data.track[i]].label}`,
    ];
  };
  // Of work its launch, of a call those inside it: what was launched, when, and in which lane.
  const launches = (i) => {
    const low = data.track[i] * 100 + data.row[i], high = data.track[i] * 100 + 99;
    const begin = start[i], end = stop(i);
    return data.launches.filter(([k, at, lane]) => k === i || (lane >= low && lane <= high && at >= begin && (at < end || at === begin)));
  };
  // Where a span comes from, as far as the trace says it.
  const origin = (i) => {
    const [operator, shapes, module, ...stack] = data.origins[data.origin[i]] || [];
    const name = data.texts[operator], kind = data.tracks[data.track[i]][1], found = [], calls = launches(i);
    if (kind === "stream") {
      const late = data.count[i] < 2 && start[i] && calls.length ? spoken(start[i] - calls[0][1]) + " before" : "";
      found.push(calls.length ? `launched ${late}${name ? " by " + name : ""}` : "its launch was not recorded");
    } else {
      if (calls.length) found.push(`launches ${many(calls.length)} of the GPU's spans`);
      if (name && name !== data.names[data.name[i]]) found.push("in " + name);
    }
    if (shapes >= 0) found.push("shapes " + data.texts[shapes]);
    if (module >= 0) found.push("module " + data.texts[module]);
    if (stack.length) found.push("at " + stack.map((at) => data.lines[at]).join(" ← "));
    return found.join(" · ");
  };
  const choose = (i, move) => {
    chosen = i;
    calls = i < 0 ? [] : launches(i).filter((call) => call[2] >= 0);
    readout.replaceChildren(...(i < 0 ? [] : [...what(i), origin(i)].map((line) => make("div", "", line))));
    const about = i >= 0 && data.findings[data.finding[i]];
    if (about) {
      const link = make("a", "", about[1]);
      link.href = "#" + about[0];
      readout.append("evidence of ", link);
    }
    if (i >= 0 && move) {
      const span = Math.max(len[i] * 6, Math.min(to - from, data.dur / 20));
      if (start[i] < from || stop(i) > to || len[i] < (to - from) / 200)
        view(start[i] + len[i] / 2 - span / 2, start[i] + len[i] / 2 + span / 2);
      const y = top(i);
      if (y < pane.scrollTop + AXIS || y > pane.scrollTop + pane.clientHeight - ROW) pane.scrollTop = y - pane.clientHeight / 2;
    }
    later();
  };
  const light = (test, words) => {
    lit = test && every.map((i) => Number(test(i)));
    const count = lit ? lit.reduce((sum, one) => sum + one, 0) : 0;
    box.dataset.lit = lit ? count : "";
    said.textContent = lit ? words(count) : "";
    find(".clear").hidden = !lit;
    later();
    return count;
  };
  const clear = () => {
    search.value = "";
    light(null);
    choose(-1);
  };
  const follow = () => {
    if (!calls.length) return;
    const [k, when, lane] = calls[0];
    choose(k === chosen ? lanes.get(lane).findLast((i) => start[i] <= when) ?? k : k, true);
  };
  const next = (way) => {
    const order = every.filter((i) => (lit ? lit[i] : chosen < 0 || data.track[i] === data.track[chosen]));
    if (!order.length) return;
    order.sort((a, b) => start[a] - start[b]);
    const at = order.indexOf(chosen);
    choose(order[at < 0 ? (way > 0 ? 0 : order.length - 1) : (at + way + order.length) % order.length], true);
  };
  const show = (index) => {
    pick(main);
    const mine = every.filter((i) => data.finding[i] === index);
    const begin = Math.min(...mine.map((i) => start[i]));
    const end = Math.max(...mine.map(stop));
    const events = mine.reduce((sum, i) => sum + data.count[i], 0);
    light((i) => data.finding[i] === index, () => `${many(events)} ${events === 1 ? "event" : "events"}: evidence of ${data.findings[index][1]}`);
    choose(-1);
    const margin = (end - begin) * 0.06 + 1000;
    view(begin - margin, end + margin);
    pane.scrollTop = top(mine[0]) - 80;
    box.scrollIntoView({ block: "start" });
    canvas.focus({ preventScroll: true });
  };
  on(search, "input", () => {
    const text = search.value.trim().toLowerCase();
    if (!text) return light(null);
    const names = data.names.map((name) => name.toLowerCase().includes(text));
    return light((i) => names[data.name[i]], (count) => `${many(count)} of ${many(every.length)} spans`);
  });
  on(search, "keydown", (event) => {
    if (event.key === "Enter" && lit) next(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") clear();
  });
  for (const [name, act] of [
    ["in", () => zoom(0.5)],
    ["out", () => zoom(2)],
    ["fit", () => view(0, data.dur)],
    ["before", () => next(-1)],
    ["after", () => next(1)],
    ["clear", clear],
  ]) on(find("." + name), "click", act);
  for (const button of all(`button.show[data-of="${box.dataset.of}"]`)) {
    const index = Number(button.dataset.finding);
    on(button, "click", () => show(index));
  }

  const at = (event) => {
    const place = canvas.getBoundingClientRect();
    return [event.clientX - place.left, event.clientY - place.top];
  };
  const hit = ([x, y]) => {
    const index = tracks.findIndex((track) => y >= track.top + HEAD && y < track.top + HEAD + track.depth * ROW);
    if (index < 0) return -1;
    const lane = lanes.get(index * 100 + Math.floor((y - tracks[index].top - HEAD) / ROW)) || [];
    const when = from + ((to - from) * x) / width, slack = ((to - from) / width) * 2;
    let low = 0, high = lane.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[lane[middle]] <= when + slack) low = middle + 1;
      else high = middle;
    }
    for (let k = low - 1; k >= Math.max(0, low - 4); k--)
      if (stop(lane[k]) >= when - slack) return lane[k];
    return -1;
  };
  const touches = new Map();
  let moved = 0;
  on(canvas, "pointerdown", (event) => {
    touches.set(event.pointerId, at(event));
    canvas.setPointerCapture(event.pointerId);
    moved = 0;
  });
  on(canvas, "pointermove", (event) => {
    const here = at(event), before = touches.get(event.pointerId);
    if (before) {
      const other = [...touches].find(([id]) => id !== event.pointerId);
      moved += Math.abs(here[0] - before[0]) + Math.abs(here[1] - before[1]);
      if (other) {
        const was = Math.abs(before[0] - other[1][0]), is = Math.abs(here[0] - other[1][0]);
        if (was > 4 && is > 4) zoom(was / is, (here[0] + other[1][0]) / 2);
      } else {
        const shift = ((before[0] - here[0]) / width) * (to - from);
        view(from + shift, to + shift);
      }
      touches.set(event.pointerId, here);
    }
    over = hit(here);
    tip.hidden = over < 0 || touches.size > 0;
    if (!tip.hidden) {
      const about = data.findings[data.finding[over]];
      tip.replaceChildren(...[...what(over), about ? "evidence of " + about[1] : ""].map((line) => make("div", "", line)));
      const left = Math.min(here[0] + 14, width - tip.offsetWidth - 4);
      const below = here[1] + 18 + tip.offsetHeight < pane.scrollTop + pane.clientHeight;
      tip.style.transform = `translate(${Math.max(2, left)}px, ${below ? here[1] + 16 : here[1] - tip.offsetHeight - 10}px)`;
    }
    later();
  });
  const drop = (event) => {
    if (event.type === "pointerup" && touches.size === 1 && moved < 5) choose(hit(at(event)));
    touches.delete(event.pointerId);
  };
  on(canvas, "pointerup", drop);
  on(canvas, "pointercancel", drop);
  on(canvas, "pointerleave", () => {
    over = -1;
    tip.hidden = true;
    later();
  });
  on(canvas, "wheel", (event) => {
    // A wheel scrolls the page until the timeline is in use; with Ctrl, as a pinch comes, it always zooms.
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !sideways && document.activeElement !== canvas) return;
    event.preventDefault();
    if (sideways && !event.ctrlKey) {
      const shift = ((event.deltaX || event.deltaY) / width) * (to - from);
      view(from + shift, to + shift);
    } else zoom(Math.exp(Math.max(-100, Math.min(100, event.deltaY)) * 0.004), at(event)[0]);
  }, { passive: false });
  const keys = {
    "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), "0": () => view(0, data.dur),
    ArrowLeft: () => view(from - (to - from) * 0.15, to - (to - from) * 0.15),
    ArrowRight: () => view(from + (to - from) * 0.15, to + (to - from) * 0.15),
    ArrowUp: () => (pane.scrollTop -= 60), ArrowDown: () => (pane.scrollTop += 60),
    n: () => next(1), p: () => next(-1), l: follow, Escape: clear,
  };
  on(canvas, "keydown", (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  on(pane, "scroll", later);
  redraw.push(() => {
    style();
    later();
  });
  // Steps to choose from: the one of the median, whose evidence is marked, unless the address asks for another.
  const steps = all("a[data-of]", box);
  const pick = (link) => {
    for (const one of steps) one.ariaCurrent = String(one === link);
    data = JSON.parse(document.getElementById(link ? link.dataset.of : box.dataset.of).textContent);
    ({ start, len } = data);
    every = [...start.keys()];
    over = -1;
    canvas.ariaLabel = "Timeline of " + data.title;
    lanes.clear();
    height = AXIS;
    tracks = data.tracks.map(([label, , depth]) => {
      const top = height;
      height += HEAD + depth * ROW + GAP;
      return { label, depth, top };
    });
    for (const i of every) {
      const key = data.track[i] * 100 + data.row[i];
      lanes.set(key, lanes.get(key) || []);
      lanes.get(key).push(i); // the columns are in order of start
    }
    style();
    size();
    clear();
    view(0, data.dur);
  };
  const asked = () => steps.find((link) => link.hash === location.hash);
  arrivals.push(() => asked() && pick(asked()));
  const main = steps.find((link) => link.dataset.of === box.dataset.of);
  pick(asked() || main);
  new ResizeObserver(size).observe(pane);
}
named();
