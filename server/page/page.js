// The status page of imgfeed: asks /status.json every two seconds and shows it. Nothing is loaded from elsewhere.

const PERIOD = 2000; // ms from one question to the next
const PREVIEW_PERIOD = 10000; // ms from one look at a session's last batch to the next
const KEPT = 600; // moments of the history

const $ = (id) => document.getElementById(id);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

let pid = 0; // of the server that the history is of
let history = [];
let lostSince = 0;
const sessions = new Map(); // by number: what is on the page

/** element makes one with text, class and children. */
function element(tag, { text, ...attributes } = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  if (text !== undefined) e.textContent = text;
  e.append(...children);
  return e;
}

/** say changes a text only if it differs, so that what is selected stays so. */
function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const count = (n) => whole.format(n);
const rate = (n) => (n < 100 ? short : whole).format(n) + "/s";

function bytes(n) {
  let unit = 0;
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
  return short.format(n) + " " + units[unit];
}

function duration(s) {
  if (s === null || s === undefined) return "–";
  const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  if (m) return `${m} min ${Math.floor(s % 60)} s`;
  return `${Math.round(s)} s`;
}

/** waits reports whether a session waits for batches. */
const waits = (s) => s.waiting_for !== "client" && s.waiting_for !== "idle";

const clock = (t) => new Date(t * 1000).toTimeString().slice(0, 8);

/** showAdvice shows sentences, and commands, which are indented, in boxes to copy from. */
function showAdvice(box, text) {
  if (box.dataset.shown === text) return;
  box.dataset.shown = text;
  box.replaceChildren(...text.split("\n").filter(Boolean).map((line) => (line.startsWith("    ") ? command(line.trim()) : element("p", { text: line }))));
}

/** command shows a command: a click selects all of it, and where the browser allows that a button copies it. */
function command(text) {
  const box = element("div", { class: "command" }, element("code", { text }));
  if (navigator.clipboard) {
    const button = element("button", { text: "Copy", type: "button" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), PERIOD);
    });
    box.append(button);
  }
  return box;
}

/** tiles shows [name, text] pairs in a list. */
function tiles(list, pairs) {
  while (list.children.length < pairs.length) list.append(element("div", {}, element("dt"), element("dd")));
  while (list.children.length > pairs.length) list.lastChild.remove();
  pairs.forEach(([name, text], i) => {
    say(list.children[i].children[0], name);
    say(list.children[i].children[1], text);
  });
}

/** rows shows a table's body anew. */
function rows(body, list) {
  const key = JSON.stringify(list);
  if (body.dataset.shown === key) return;
  body.dataset.shown = key;
  const names = [...body.parentElement.tHead.rows[0].cells].map((cell) => cell.textContent); // for narrow windows, which have no room for columns
  body.replaceChildren(...list.map((cells) => element("tr", {}, ...cells.map((text, i) => element("td", { text, "data-name": names[i] })))));
}

function axes(format) {
  const [faint, line] = [color("faint"), color("line")];
  const grid = { stroke: line, width: 1 };
  return [
    { stroke: faint, grid, ticks: grid, space: 90, values: (_, ticks) => ticks.map(clock) },
    { stroke: faint, grid, ticks: grid, size: 62, values: (_, ticks) => ticks.map(format) },
  ];
}

const SERIES = {
  throughput: [["images/s", "decode", (m) => m.images]],
  // One on top of the other, so that the uppermost line is the sum.
  stages: [
    ["wait for work", "wait", (m) => m.read + m.decode + m.resample + m.wait, (m) => m.wait],
    ["resize, augment", "resample", (m) => m.read + m.decode + m.resample, (m) => m.resample],
    ["decode", "decode", (m) => m.read + m.decode, (m) => m.decode],
    ["read", "read", (m) => m.read, (m) => m.read],
  ],
};
const plots = {};

function drawPlots() {
  if (!history.length) return; // of nothing uPlot would show years
  for (const [id, series] of Object.entries(SERIES)) {
    const place = $(id);
    const data = [history.map((m) => m.time), ...series.map(([, , height]) => history.map(height))];
    if (!plots[id]) {
      plots[id] = new uPlot(
        {
          width: place.clientWidth,
          height: 160,
          padding: [8, 28, 0, 0], // room for half of the last moment's name
          axes: axes(id === "stages" ? (v) => whole.format(100 * v) + " %" : (v) => (v < 10 ? short : whole).format(v)),
          scales: { x: { range: (_, low, high) => [Math.min(low, high - 10), high] }, y: { range: id === "stages" ? [0, 1] : (_, low, high) => [0, Math.max(1, high * 1.1)] } },
          legend: { live: true }, // of the last moment, while nothing is pointed at
          series: [
            { label: "time", value: (_, t) => clock(t ?? history.at(-1).time) },
            ...series.map(([label, name, height, own]) => ({
              label,
              stroke: color(name),
              width: 1.5,
              points: { show: false },
              fill: id === "stages" ? color(name) : undefined,
              value: (_, __, ___, i) => {
                const m = history[i ?? history.length - 1];
                return own ? whole.format(100 * own(m)) + " %" : rate(height(m));
              },
            })),
          ],
        },
        data,
        place,
      );
    } else {
      plots[id].setData(data);
    }
  }
}

function removePlots() {
  for (const id of Object.keys(plots)) {
    plots[id].destroy();
    delete plots[id];
  }
}

/** newSession makes what the page shows of a session. */
function newSession(number) {
  const parts = {};
  for (const name of ["name", "epoch", "progress", "rate", "left", "verdict"]) parts[name] = element("span", { class: name });
  parts.bar = element("progress", { max: 1, value: 0 });
  parts.progress.append(parts.bar);
  parts.rate.classList.add("number");
  parts.left.classList.add("number");
  parts.advice = element("div", { class: "advice" });
  parts.details = element("dl", { class: "tiles" });
  parts.transform = element("code");
  parts.batch = element("div");
  const box = element(
    "details",
    { class: "session", "data-session": number },
    element("summary", {}, parts.name, parts.epoch, parts.progress, parts.rate, parts.left, parts.verdict),
    element(
      "div",
      { class: "inside" },
      parts.advice,
      parts.details,
      parts.batch,
      element("details", { class: "transform" }, element("summary", { text: "The transform" }), parts.transform),
    ),
  );
  parts.box = box;
  box.addEventListener("toggle", () => box.open && showBatch(number, parts));
  return parts;
}

const PICTURE = 120; // CSS pixels of the longer side of a picture
const PIXELATED = 64; // pixels up to which an image is shown with its pixels as squares

const size = ({ width, height }) => `${width}\u00a0×\u00a0${height}`; // in one line

/** picture shows an image of so many CSS pixels for each of its own, with a line below. */
function picture({ width, height, picture: src }, scale, alt, line) {
  const img = element("img", { src, alt, title: alt, width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) });
  if (Math.max(width, height) <= PIXELATED) img.classList.add("pixelated");
  const box = element("div", { class: "picture" }, img, element("div", { class: "faint", text: line }));
  box.style.width = `max(${img.width}px, 3.5rem)`;
  return box;
}

/** sampleFigure shows a sample of a batch: as it is stored, and beside that what the transform gave. */
function sampleFigure(s) {
  const name = s.class || `label ${s.label}`;
  const pictures = element("div", { class: "pictures" });
  if (s.original) {
    const scale = PICTURE / Math.max(s.original.width, s.original.height);
    pictures.append(picture(s.original, scale, `${name}, as it is stored`, `stored ${size(s)}`));
  } else if (s.width) {
    pictures.append(element("p", { class: "faint", text: `stored ${size(s)}: too large to be decoded for this page` }));
  }
  if (s.views.length) pictures.append(element("span", { class: "arrow faint", "aria-hidden": "true", text: "→" }));
  const scale = PICTURE / Math.max(...s.views.map((v) => Math.max(v.width, v.height)));
  s.views.forEach((v, k) => {
    const many = s.views.length > 1;
    pictures.append(picture(v, scale, many ? `${name}, view ${k}` : `${name}, as the model gets it`, `${many ? `view ${k}, ` : ""}${size(v)}`));
  });
  const blank = s.bad && s.bad.by === undefined;
  const caption = element("figcaption", {}, element("b", { text: blank ? "blank" : name }), s.words && !blank ? ` ${s.words} ·` : "", ` label ${s.label} · index ${s.index} · `, element("code", { text: s.key }));
  for (const f of s.fields || []) caption.append(element("div", {}, `${f.name}: `, element("code", { text: f.value })));
  if (s.bad) {
    const what = blank ? "Zeros were sent for this sample" : `This one was sent in the place of sample ${s.bad.index} (${s.bad.key})`;
    caption.append(element("div", { class: "warn", text: `${what}: ${s.bad.error}` }));
  }
  if (s.error) caption.append(element("div", { class: "warn", text: s.error }));
  return element("figure", { class: s.views.length > 1 ? "sample many" : "sample" }, pictures, caption);
}

/** showBatch shows the last batch as the model sees it, while the session is open on the page. */
async function showBatch(number, parts) {
  clearTimeout(parts.timer);
  if (!parts.box.open || !parts.box.isConnected) return;
  let again = PREVIEW_PERIOD;
  if (!document.hidden) {
    try {
      const reply = await fetch(`sessions/${number}/batch.json`);
      if (!reply.ok) {
        parts.shown = "";
        if (reply.status === 404) again = PERIOD; // between epochs, for a moment
        parts.batch.replaceChildren(element("p", { class: "faint", text: (await reply.text()).trim() }));
      } else if (reply.headers.get("ETag") !== parts.shown) {
        const batch = await reply.json();
        const samples = element("div", { class: "samples" }, ...batch.samples.map(sampleFigure));
        await Promise.all([...samples.querySelectorAll("img")].map((img) => img.decode()));
        const several = batch.samples.length > 1 ? `${batch.samples.length} of its ${count(batch.count)} images` : `one of its ${count(batch.count)} images`;
        const text = `Epoch ${batch.epoch}, batch ${batch.batch}, at ${clock(batch.time)}: ${several}, each as it is stored and as the model gets it, before normalisation.`;
        parts.batch.replaceChildren(element("p", { class: "faint", text }), samples);
        parts.shown = reply.headers.get("ETag");
      }
    } catch {
      // The server is away; the page says so.
    }
  }
  clearTimeout(parts.timer); // of another call, where the session was closed and opened meanwhile
  parts.timer = setTimeout(() => showBatch(number, parts), again);
}

function showSessions(list, advice) {
  $("no-sessions").hidden = list.length > 0;
  const open = new Set(list.map((s) => s.session));
  for (const [number, parts] of sessions) {
    if (open.has(number)) continue;
    parts.box.remove();
    sessions.delete(number);
  }
  let place = 0;
  for (const s of list) {
    let parts = sessions.get(s.session);
    if (!parts) {
      parts = newSession(s.session);
      sessions.set(s.session, parts);
    }
    const running = s.epoch !== null;
    say(parts.name, `${s.split} · rank ${s.rank} of ${s.world}`);
    say(parts.epoch, running ? `epoch ${s.epoch}` : "no epoch");
    parts.bar.value = running && s.epoch_batches ? s.epoch_sent / s.epoch_batches : 0;
    parts.bar.setAttribute("aria-label", running ? `${s.epoch_sent} of ${s.epoch_batches} batches` : "no epoch");
    say(parts.rate, rate(s.images_per_second).replace("/s", " images/s"));
    say(parts.left, running && s.epoch_sent < s.epoch_batches ? `${duration(s.seconds_left)} left` : "");
    say(parts.verdict, s.verdict);
    if ($("sessions").children[place] !== parts.box) $("sessions").insertBefore(parts.box, $("sessions").children[place] || null);
    place++;
    parts.box.classList.toggle("waits", waits(s));
    showAdvice(parts.advice, s.advice === advice ? "" : s.advice); // above all sessions it is said once
    say(parts.transform, JSON.stringify(s.transform));
    tiles(parts.details, [
      ["session", String(s.session)],
      ["client's process", s.client_pid ? String(s.client_pid) : "–"],
      ["batch size", count(s.batch_size)],
      ["batches of this epoch", running ? `${count(s.epoch_sent)} of ${count(s.epoch_batches)}` : "–"],
      ["images delivered", count(s.images)],
      ["blank, substituted", `${count(s.blanks)}, ${count(s.substitutes)}`],
      ["slots free, lent, all", `${s.slots_free}, ${s.slots_lent}, ${s.slots}`],
      ["ring", bytes(s.ring_bytes)],
      ["waited for a slot", duration(s.slot_wait)],
    ]);
  }
}

const percent = (part, all) => (all ? `${whole.format((100 * part) / all)} %` : "–");

/** showStore shows what comes from buckets and web servers, if there are any. */
function showStore(store) {
  $("store-section").hidden = !store;
  if (!store) return;
  const { requests, retries, store_bytes: fetched, cache_bytes: kept, memory_bytes: memory } = store.rates;
  const from = (n) => (n === null ? "–" : `${percent(n, memory + kept + fetched)}, ${bytes(n)}/s`);
  const all = [
    ["bytes from memory", from(memory)],
    ["bytes from the cache", from(kept)],
    ["bytes from the store", from(fetched)],
    ["requests", `${rate(requests)}, ${count(store.under_way)} of ${count(store.under_way_max)} under way`],
    ["repeated requests", rate(retries)],
    ["hit rate of the cache", percent(kept, kept + fetched)],
    ["cache filled", store.cache_failure || `${percent(store.cache_used, store.cache_max)} of ${bytes(store.cache_max)}`],
  ];
  tiles($("store"), all.filter(([name]) => store.cache_max || !name.includes("cache")));
}

/** showFeeders shows the machines that make samples for this server, if it may have any. */
function showFeeders(feeders) {
  $("feeders-section").hidden = !feeders;
  if (!feeders) return;
  const row = (name, state, f) =>
    [name, state, rate(f.samples_per_second), percent(f.share, 1), `${bytes(f.bytes_per_second)}/s`, count(f.late), count(f.again)];
  const state = (f) => (f.connections ? "connected" : `not connected${f.trouble && `: ${f.trouble}`}`);
  const connected = feeders.each.filter((f) => f.connections).length;
  rows($("feeders"), [...feeders.each.map((f) => row(f.address, state(f), f)), row("all", `${connected} of ${feeders.each.length} connected`, feeders)]);
}

function show(status) {
  if (status.pid !== pid) {
    pid = status.pid;
    history = [];
    removePlots();
    for (const parts of sessions.values()) parts.box.remove();
    sessions.clear();
  }
  history = history.concat(status.history).slice(-KEPT);
  const errors = Object.values(status.errors).reduce((a, b) => a + b, 0);
  document.title = `imgfeed · ${rate(status.images_per_second)}`;
  say($("server"), `${status.server}, process ${status.pid}, up ${duration(status.now - status.started)}`);
  tiles($("now"), [
    ["images a second", rate(status.images_per_second)],
    ["images delivered", count(status.images)],
    ["sessions", count(status.sessions.length)],
    ["ring memory", `${bytes(status.ring_bytes)} of ${bytes(status.ring_limit_bytes)}`],
    ["read from shards", bytes(status.read_bytes)],
    ["blank, substituted, errors", `${count(status.blanks)}, ${count(status.substitutes)}, ${count(errors)}`],
  ]);
  showStore(status.store);
  showFeeders(status.feeders);
  say($("verdict"), status.verdict[0].toUpperCase() + status.verdict.slice(1) + ".");
  showAdvice($("advice"), status.advice);
  $("limit").classList.toggle("waits", status.sessions.some((s) => waits(s)));
  $("damaged-section").hidden = !status.damaged.length;
  $("damaged").replaceChildren(...status.damaged.map((text) => element("li", { text })));
  showSessions(status.sessions, status.advice);
  $("bad-section").hidden = !status.bad.length;
  rows($("bad"), status.bad.map((b) => [clock(b.time), b.split, String(b.index), b.key, b.error]));
  rows(
    $("sets"),
    status.sets.map((s) => [s.split, count(s.samples), count(s.classes), `${s.partitions_here.length} of ${s.partitions}`, s.stored, s.path]),
  );
  tiles($("settings"), [
    ["decoding threads", count(status.threads)],
    ["memory for batches, at most", bytes(status.ring_limit_bytes)],
    ["started", `${new Date(status.started * 1000).toDateString()}, ${clock(status.started)}`],
  ]);
  drawPlots();
}

async function ask() {
  if (!document.hidden) {
    try {
      const since = history.length ? history[history.length - 1].time : 0;
      const reply = await fetch(`status.json?since=${since}`, { signal: AbortSignal.timeout(10 * PERIOD) });
      if (!reply.ok) throw new Error(await reply.text());
      const status = await reply.json();
      lostSince = 0;
      $("lost").hidden = true;
      show(status);
    } catch (e) {
      lostSince ||= Date.now() / 1000;
      $("lost").hidden = false;
      document.title = "imgfeed · no answer";
      say($("lost"), `No answer from the server since ${clock(lostSince)}; what is shown is from before. Asking again.`);
      if (!(e instanceof TypeError || e instanceof DOMException)) console.error(e); // not the network: ours
    }
  }
  setTimeout(ask, PERIOD);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  removePlots();
  drawPlots();
});
addEventListener("resize", () => {
  for (const [id, plot] of Object.entries(plots)) plot.setSize({ width: $(id).clientWidth, height: 160 });
});
ask();
