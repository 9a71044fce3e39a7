"use strict";
// Everything of strangers (names, paths, output) becomes text nodes: nothing here makes HTML of a string.
// Rows and pictures are built when they come into sight.

const DATA = JSON.parse(document.getElementById("data").textContent);
const { run: RUN, tests: TESTS, findings: FINDINGS, frames: FRAMES, sources: SOURCES } = DATA;

const KINDS = {
  definitely_lost: "definitely lost",
  indirectly_lost: "indirectly lost",
  possibly_lost: "possibly lost",
  double_free: "double free",
  unknown_free: "unknown free",
  still_reachable: "still reachable",
};
const LOST = ["definitely_lost", "indirectly_lost", "possibly_lost"];
const ROW = 58;

const $ = (id) => document.getElementById(id);

/** An element; what is not an element among `children` becomes text. */
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "kind") element.style.setProperty("--kind", `var(--${value})`);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

const number = (value) => value.toLocaleString("en-US");
const count = (value, what) => `${number(value)} ${what}${value === 1 ? "" : what.endsWith("x") ? "es" : "s"}`;

/** `4,096 B`, and for large ones `12,345,678 B (11.8 MiB)`. */
function bytes(value) {
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let scaled = value / 1024, unit = 0;
  while (scaled >= 1024 && unit < 3) { scaled /= 1024; unit += 1; }
  const exact = `${number(value)} B`;
  return value < 10240 ? exact : `${exact} (${scaled.toFixed(1)} ${units[unit]})`;
}

function seconds(nanoseconds) {
  const value = nanoseconds / 1e9;
  return value < 1 ? `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms` : `${value.toFixed(value < 100 ? 2 : 0)} s`;
}

const isFree = (kind) => kind === "double_free" || kind === "unknown_free";
const frame = (it) => (typeof it === "number" ? FRAMES[it] : it);
const fileName = (path) => path.slice(path.lastIndexOf("/") + 1);
const functionOf = (it) => it.function || `${it.module ? fileName(it.module) + "+" : ""}0x${it.address.toString(16)}`;
const at = (place) => place.file && [place.file, place.line, place.line && place.column].filter(Boolean).join(":");
const testName = (test) => `${test.binary} ${test.name}`;

/** How many frames, from the innermost on, are not only what has started the user's code. */
function ownEnd(stack) {
  for (let index = stack.length; index > 0; index -= 1) if (frame(stack[index - 1]).own) return index;
  return stack.length;
}

/** The frame of a stack that the allocation site is. */
const siteFrame = (stack, site) =>
  site && (stack ?? []).map(frame).find((it) => it.own && it.file === site.file && it.line === site.line);

// --- Search -----------------------------------------------------------------------------------------------

const lower = (text) => (text ?? "").toLowerCase();
let frameTexts;
const textOfFrame = (it) => lower(`${functionOf(it)} ${at(it) ?? ""}`);
const nameOfTest = (test) => (test.lower ??= lower(`${test.package} ${test.binary} ${test.name}`));
const textOfTest = (test) => `${nameOfTest(test)} ${lower(`${test.status.word} ${test.status.detail}`)}`;

/** What is said of a finding besides its call stacks. */
function textOfFinding(finding) {
  const strings = (value) =>
    typeof value === "string" ? value : value && typeof value === "object" && !Array.isArray(value) ? Object.values(value).map(strings).join(" ") : "";
  return (finding.text ??= lower(Object.entries(finding).map(([key, value]) => (key === "text" ? "" : strings(value))).join(" ") + " " + KINDS[finding.kind]));
}

/** Whether something has all words of the query, each somewhere: a function of a finding or of a test. */
function matcher(query) {
  const words = lower(query).split(/\s+/).filter(Boolean);
  if (words.length === 0) return { finding: () => true, test: () => true, frame: () => false };
  frameTexts ??= FRAMES.map(textOfFrame);
  const hits = words.map((word) => frameTexts.map((text) => text.includes(word)));
  const inStack = (stack, word, which) =>
    (stack ?? []).slice(0, ownEnd(stack ?? [])).some((it) => (typeof it === "number" ? hits[which][it] : textOfFrame(it).includes(word)));
  const inFinding = (finding, word, which) =>
    textOfFinding(finding).includes(word) || inStack(finding.stack, word, which) || inStack(finding.allocated, word, which) || inStack(finding.freed_first, word, which);
  return {
    finding: (finding) => words.every((word, which) => nameOfTest(TESTS[finding.test]).includes(word) || inFinding(finding, word, which)),
    test: (test) => words.every((word, which) => textOfTest(test).includes(word) || findingsOf(test).some((finding) => inFinding(finding, word, which))),
    frame: (name) => words.some((word) => lower(name).includes(word)),
  };
}

// --- State ------------------------------------------------------------------------------------------------

const findingsOf = (test) => FINDINGS.slice(test.first, test.first + test.number);
const kindsThere = Object.keys(KINDS).filter((kind) => FINDINGS.some((finding) => finding.kind === kind));
// What is accepted is told by the places of findings among those of their test.
FINDINGS.forEach((finding, id) => { finding.id = id; });
for (const test of TESTS) {
  for (const row of test.accepted ?? []) if (row.list === "findings") FINDINGS[test.first + row.place].accepted = row;
}
const isKnown = (finding) => finding.accepted && finding.accepted.bytes === finding.bytes && finding.accepted.blocks === finding.blocks;
const isNew = (finding) => !finding.accepted && TESTS[finding.test].baseline;
const known = FINDINGS.filter(isKnown).length;
const others = kindsThere.filter((kind) => kind !== "still_reachable");

const CLASSES = { leaking: "bad", failed: "bad", "leaking, not counted": "warn", incomplete: "warn", "not checked": "warn", clean: "good" };

/** What a test is, as the summary counts it: one can be both failed and leaking. */
function classesOf(test) {
  if (test.classes) return test.classes;
  const leaks = test.verdict === "leaks";
  const is = {
    leaking: leaks && test.counts,
    failed: test.outcome !== "passed",
    "leaking, not counted": leaks && !test.counts,
    incomplete: test.verdict === "incomplete",
    "not checked": test.verdict === "not_checked",
    clean: test.outcome === "passed" && test.verdict === "clean",
  };
  return (test.classes = Object.keys(CLASSES).filter((name) => is[name]));
}
const tone = (test) => CLASSES[classesOf(test)[0]];
const weight = (test) => Object.keys(CLASSES).indexOf(classesOf(test)[0]);
const classes = Object.keys(CLASSES).filter((name) => TESTS.some((test) => classesOf(test).includes(name)));
const testsInOrder = TESTS.map((test, index) => [test, index]).sort(([one, first], [other, second]) => weight(one) - weight(other) || first - second).map(([test]) => test);

const state = {
  view: FINDINGS.length > 0 ? "findings" : "tests",
  query: "",
  // Whether those are shown that are wholly accepted.
  known: new Set(known === FINDINGS.length ? ["accepted"] : []),
  kinds: new Set(others.length > 0 ? others : kindsThere),
  classes: new Set(classes),
  ofTest: null,
  shown: [],
  selected: 0,
  fullStacks: false,
  zoom: [],
  // Which of the two flame graphs.
  picture: "leaked",
};
let match = matcher("");

const VIEWS = {
  findings: { title: "Findings", number: () => FINDINGS.length },
  tests: { title: "Tests", number: () => TESTS.length },
  flame: { title: "Flame graph" },
  checked: { title: "What was checked" },
};

// --- List -------------------------------------------------------------------------------------------------

const isShown = (finding) => state.kinds.has(finding.kind) && (state.ofTest === null || finding.test === state.ofTest) && (state.known.has("accepted") || !isKnown(finding));

function filtered() {
  if (state.view === "tests") return testsInOrder.filter((test) => classesOf(test).some((name) => state.classes.has(name)) && match.test(test));
  const found = FINDINGS.filter((finding) => isShown(finding) && match.finding(finding));
  return found.sort((one, other) => other.bytes - one.bytes || other.blocks - one.blocks || one.id - other.id);
}

function refresh(keep) {
  const before = keep ? state.shown[state.selected] : undefined;
  state.shown = filtered();
  state.selected = Math.max(0, state.shown.indexOf(before));
  const all = state.view === "tests" ? TESTS.length : FINDINGS.length;
  const what = state.view === "tests" ? "test" : "finding";
  const shown = state.shown.length;
  $("count").textContent = shown === all ? count(all, what) : `${number(shown)} of ${count(all, what)}`;
  $("sizer").style.height = `${shown * ROW}px`;
  if (!keep) $("rows").scrollTop = 0;
  drawn.clear();
  $("sizer").replaceChildren();
  if (shown === 0) $("sizer").append(el("p", { class: "empty" }, all === 0 ? `No ${what}s.` : "Nothing has all of that."));
  drawRows();
  showDetail();
}

const drawn = new Map();
function drawRows() {
  const { scrollTop, clientHeight } = $("rows");
  const first = Math.max(0, Math.floor(scrollTop / ROW) - 6);
  const last = Math.min(state.shown.length, Math.ceil((scrollTop + clientHeight) / ROW) + 6);
  for (const [index, element] of drawn) {
    if (index < first || index >= last) { element.remove(); drawn.delete(index); }
  }
  for (let index = first; index < last; index += 1) {
    let element = drawn.get(index);
    if (!element) {
      element = (state.view === "tests" ? testRow : findingRow)(state.shown[index]);
      element.style.top = `${index * ROW}px`;
      element.id = `row-${index}`;
      element.addEventListener("click", () => { select(index); open(); });
      drawn.set(index, element);
      $("sizer").append(element);
    }
    element.setAttribute("aria-selected", String(index === state.selected));
  }
  $("rows").setAttribute("aria-activedescendant", `row-${state.selected}`);
}

/** What the baseline, or whatever accepts leaks, says of a finding. */
function accepted(finding) {
  if (isKnown(finding)) return el("span", { class: "badge good" }, "accepted");
  if (finding.accepted) return el("span", { class: "badge warn" }, "more than accepted");
  return isNew(finding) && el("span", { class: "badge bad" }, "new");
}

let largest;
function findingRow(finding) {
  largest ??= FINDINGS.reduce((most, it) => Math.max(most, it.bytes), 1);
  const amount = isFree(finding.kind) ? count(finding.blocks, "time") : `${number(finding.bytes)} B`;
  const more = isFree(finding.kind) ? "" : `in ${count(finding.blocks, "block")}`;
  const site = siteFrame(finding.stack, finding.site);
  const name = site ? functionOf(site) : finding.stack?.length ? functionOf(frame(finding.stack[0])) : "call stack not recorded";
  const row = el("div", { class: "row", role: "option", kind: finding.kind },
    el("div", { class: "line" },
      el("i", { class: "dot" }), el("span", { class: "first" }, amount),
      el("span", { class: "muted" }, `${KINDS[finding.kind]}${more ? " " + more : ""}`),
      accepted(finding),
      finding.site && el("span", { class: "push path mono" }, el("bdi", { dir: "ltr" }, at({ file: finding.site.file, line: finding.site.line })))),
    el("div", { class: "line second" }, el("span", { class: "mono" }, name), el("span", { class: "push" }, testName(TESTS[finding.test]))),
    el("i", { class: "share" }));
  row.querySelector(".share").style.width = `${(100 * finding.bytes) / largest}%`;
  return row;
}

function testRow(test) {
  return el("div", { class: "row", role: "option" },
    el("div", { class: "line" },
      el("span", { class: `badge ${tone(test)}` }, test.status.word), el("span", { class: "first", style: "flex-shrink: 1" }, test.name),
      el("span", { class: "push muted" }, seconds(test.duration_ns))),
    el("div", { class: "line second" }, el("span", { class: "mono" }, test.binary), el("span", {}, test.status.detail)));
}

function select(index) {
  if (state.shown.length === 0) return;
  state.selected = Math.min(Math.max(index, 0), state.shown.length - 1);
  const rows = $("rows");
  const top = state.selected * ROW;
  if (top < rows.scrollTop) rows.scrollTop = top;
  else if (top + ROW > rows.scrollTop + rows.clientHeight) rows.scrollTop = top + ROW - rows.clientHeight;
  drawRows();
  showDetail();
}

/** Puts the details in sight, on a small screen in place of the list. */
function open() {
  if (state.shown.length === 0) return;
  document.body.classList.add("opened");
}

function drawFilters() {
  const chip = (name, title, number_, set, kind) => el("button", {
    class: "chip", type: "button", kind, "aria-pressed": String(set.has(name)), "data-filter": name,
    onclick: () => { if (set.has(name)) set.delete(name); else set.add(name); drawFilters(); refresh(true); },
  }, el("i"), title, " ", el("span", { class: "muted" }, number(number_)));
  const filters = state.view === "tests"
    ? classes.map((name) => chip(name, name, TESTS.filter((test) => classesOf(test).includes(name)).length, state.classes,
      { bad: "definitely_lost", warn: "possibly_lost", good: "good" }[CLASSES[name]]))
    : kindsThere.map((kind) => chip(kind, KINDS[kind], FINDINGS.filter((finding) => finding.kind === kind).length, state.kinds, kind));
  if (state.view === "findings" && known > 0) filters.push(chip("accepted", "accepted", known, state.known));
  if (state.view === "findings" && state.ofTest !== null) {
    filters.unshift(el("button", {
      class: "chip only", type: "button", title: "Show those of all tests",
      onclick: () => { state.ofTest = null; drawFilters(); refresh(true); },
    }, el("span", {}, `in ${testName(TESTS[state.ofTest])}`), "✕"));
  }
  $("filters").replaceChildren(...filters);
  $("filters").hidden = filters.length === 0;
}

// --- Details ----------------------------------------------------------------------------------------------

function showDetail() {
  const shown = state.shown[state.selected];
  const detail = $("detail");
  detail.scrollTop = 0;
  detail.removeAttribute("style");
  if (!shown) { detail.replaceChildren(el("p", { class: "empty" }, "Nothing is selected.")); return; }
  detail.replaceChildren(...(state.view === "tests" ? testDetail(shown) : findingDetail(shown)));
  address(state.view === "tests" ? `test/${TESTS.indexOf(shown)}` : `finding/${shown.id}`);
}

/** Rows of a definition list; of values that are there. */
const facts = (...pairs) => el("dl", { class: "facts" },
  pairs.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

/** What a newer version of the tool says of something, by its own names. */
function further(it, known) {
  const plain = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : String(value));
  const is = ([name, value]) => !known.includes(name) && value !== null && value !== false && !(Array.isArray(value) && value.length === 0);
  return Object.entries(it).filter(is).map(([name, value]) => [name.replaceAll("_", " "), plain(value)]);
}

const acceptedBy = (by) => (by === "baseline" ? "by the baseline" : by.rule !== undefined ? `by rule '${by.rule}'` : `by ${JSON.stringify(by)}`);
const hit = (row) => `'${row.rule}': ${bytes(row.bytes)} in ${count(row.blocks, "block")}${row.exceeded ? `, exceeded: ${row.exceeded}` : ""}`;
const KNOWN = ["kind", "bytes", "blocks", "below", "root", "held_by", "process", "site", "stack", "freed_first", "allocated", "test", "id", "text", "accepted"];

function findingDetail(finding) {
  const test = TESTS[finding.test];
  const free = isFree(finding.kind);
  const title = free ? count(finding.blocks, "time") : `${bytes(finding.bytes)} in ${count(finding.blocks, "block")}`;
  const below = finding.below.blocks > 0 && `${bytes(finding.below.bytes)} in ${count(finding.below.blocks, "block")}`;
  const goTo = el("button", { class: "link", type: "button", onclick: () => showTest(finding.test) }, testName(test));
  const site = siteFrame(finding.stack, finding.site);
  const row = finding.accepted;
  const by = row && `${bytes(row.bytes)} in ${count(row.blocks, "block")}, ${acceptedBy(row.by)}`;
  return [
    el("p", {}, el("span", { class: "badge", kind: finding.kind }, KINDS[finding.kind]), " ", accepted(finding)),
    el("h2", {}, title),
    facts(["Test", [goTo, " ", el("span", { class: `badge ${tone(test)}` }, test.status.word)]], ["Site", finding.site && el("code", {}, at(finding.site))], ["And below it", below], ["Accepted", by],
      ["Held by thread", finding.held_by], ["In child process", finding.process && el("code", {}, finding.process)], ...further(finding, KNOWN)),
    site && source(site, finding.kind, free ? "freed here" : "allocated here"),
    ...stacks(free ? "Freed at" : "Call stack", finding.stack, finding.kind),
    ...(finding.root ? stacks("Hangs below what was allocated at", finding.root, finding.kind) : []),
    ...(finding.kind === "double_free" ? [
      ...stacks("Freed first at", finding.freed_first, finding.kind, "Not noted; use --free-stacks."),
      ...stacks("Allocated at", finding.allocated, finding.kind, "Outside of the test's body."),
    ] : []),
  ].filter(Boolean);
}

/** The lines around a frame's; none where the source could not be read when the page was written. */
function source(it, kind, label) {
  const lines = SOURCES[it.file];
  if (!lines || lines[it.line] === undefined) return null;
  const shown = [];
  for (let line = it.line - 2; line <= it.line + 2; line += 1) {
    if (lines[line] === undefined) continue;
    const text = lines[line];
    const here = line === it.line;
    const [start, end] = it.mark ?? [0, 0];
    const parts = here && end > start ? [text.slice(0, start), el("mark", {}, text.slice(start, end)), text.slice(end)] : [text];
    shown.push(el("span", { class: here ? "src here" : "src" }, el("i", {}, line), ...parts, here && label && el("span", { class: "label" }, `◂ ${label}`), "\n"));
  }
  return el("div", { class: "source", kind }, el("div", { class: "name mono" }, at(it)), el("pre", {}, el("code", {}, shown)));
}

function stacks(title, stack, kind, unknown) {
  if (!stack) return [el("h3", {}, title), el("p", { class: "muted" }, unknown ?? "The call stack was not recorded.")];
  const list = el("ol", { class: "stack", kind });
  const all = stack.map(frame);
  const last = all.findLastIndex((it) => it.own);
  // As on the terminal: outside the outermost own frame is only what has started it, and one that is not known may be the user's.
  const folds = (it, index) => !it.own && (it.function || (last >= 0 && index > last));
  const one = (it) => {
    const excerpt = it.own && SOURCES[it.file]?.[it.line] !== undefined;
    const place = at(it) ?? (it.module ? `${it.module}+0x${it.address.toString(16)}` : "");
    const item = el("li", { class: it.own ? "own" : "foreign" }, el("div", { class: "fn" }, functionOf(it)));
    const toggle = () => { const old = item.querySelector(".source"); if (old) old.remove(); else item.append(source(it, kind)); };
    item.append(el("div", { class: "at" }, excerpt ? el("button", { class: "link", type: "button", title: "Show the source", onclick: toggle }, place) : place, it.inlined ? " (inlined)" : ""));
    return item;
  };
  for (let index = 0; index < all.length;) {
    let end = index;
    while (!state.fullStacks && end < all.length && folds(all[end], end)) end += 1;
    if (end === index) { list.append(one(all[index])); index += 1; continue; }
    const run = all.slice(index, end);
    const of = [...new Set(run.map((it) => it.family).filter(Boolean))].join(", ") || "the runtime";
    const item = el("li", { class: "foreign" });
    item.append(el("button", { class: "fold", type: "button", onclick: () => item.replaceWith(...run.map(one)) }, `… ${count(run.length, "frame")} of ${of}`));
    list.append(item);
    index = end;
  }
  const toggle = el("button", { class: "link quiet", type: "button", onclick: () => { state.fullStacks = !state.fullStacks; showDetail(); } }, state.fullStacks ? "fold" : "all frames");
  return [el("h3", {}, title, " ", toggle), list];
}

const TEST_KNOWN = ["package", "binary", "name", "outcome", "exit_code", "signal", "verdict", "reasons", "counts", "attempt", "attempts", "duration_ns",
  "recorder", "recorder_reason", "allocators", "budget", "definitely_lost", "indirectly_lost", "possibly_lost", "still_reachable", "bad_frees", "kernel",
  "growth", "at_peak", "temporary_files", "heap", "losses", "output", "status", "accepted", "baseline", "rules", "first", "number", "lower", "classes"];

/** `3 known, 1 new`. */
const compared = (of) => Object.entries(of).filter(([, value]) => value > 0).map(([name, value]) => `${number(value)} ${name}`).join(", ") || "nothing known";

/** What a test has allocated. */
function heap(of) {
  const least = of.peak_bytes_at_least;
  const peak = least === undefined ? bytes(of.peak_bytes) : `between ${bytes(least)} and ${bytes(of.peak_bytes)} (several threads or processes)`;
  return `peak ${peak}, ${count(of.total_blocks, "block")} of ${bytes(of.total_bytes)} allocated in all`;
}

function testDetail(test) {
  const limits = Object.entries(test.budget ?? {}).map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "number" ? number(value) : value}`).join(", ");
  const end = test.signal !== undefined ? `signal ${test.signal}` : test.exit_code !== undefined && test.outcome !== "passed" ? `exit code ${test.exit_code}` : "";
  const attempts = test.attempts && `${count(test.attempts.total, "attempt")}, ${number(test.attempts.leaking)} leaking, ${number(test.attempts.failed)} failed`;
  const findings = findingsOf(test);
  const parts = [
    el("span", { class: `badge ${tone(test)}` }, test.status.word),
    el("h2", {}, test.name),
    el("p", { class: "muted" }, test.status.detail),
    facts(["Binary", el("code", {}, test.binary)], ["Outcome", test.outcome.replaceAll("_", " ") + (end && ` (${end})`)],
      ["Verdict", test.verdict.replaceAll("_", " ") + (test.verdict === "leaks" && !test.counts ? ", which does not count" : "")],
      ["Budget", limits || "0 bytes"], ["Baseline", test.baseline && compared(test.baseline)], ["Rules", test.rules && test.rules.map((row) => el("div", {}, hit(row)))], ["Time", seconds(test.duration_ns)], ["Attempts", attempts],
      ["Recorder", test.recorder && test.recorder + (test.recorder_reason ? `: ${test.recorder_reason}` : "")], ["Allocators", (test.allocators ?? []).join(", ")],
      ["Heap", test.heap && heap(test.heap)], ...further(test, TEST_KNOWN)),
  ];
  const sums = [...LOST, "still_reachable"].filter((kind) => test[kind]?.blocks > 0);
  if (sums.length > 0 || test.bad_frees > 0) {
    parts.push(el("h3", {}, "Memory"), el("table", {}, sums.map((kind) => el("tr", {},
      el("td", {}, el("span", { class: "badge", kind }, KINDS[kind])), el("td", { class: "number" }, bytes(test[kind].bytes)), el("td", { class: "number" }, count(test[kind].blocks, "block")))),
    test.bad_frees > 0 && el("tr", {}, el("td", {}, el("span", { class: "badge", kind: "double_free" }, "bad frees")), el("td"), el("td", { class: "number" }, count(test.bad_frees, "time")))));
  }
  if ((test.losses ?? []).length > 0) parts.push(el("h3", {}, "Not seen"), el("ul", { class: "plain" }, test.losses.map((loss) => el("li", {}, loss.message))));
  if (findings.length > 0) {
    const most = 50;
    parts.push(el("h3", {}, "Findings"), findings.slice(0, most).map(miniRow));
    parts.push(el("p", {}, el("button", { class: "link", type: "button", onclick: () => showFindingsOf(TESTS.indexOf(test)) },
      findings.length > most ? `and ${number(findings.length - most)} more: show all in the list` : "show in the list")));
    const graph = flameGraph(lost(findings), { zoom: [] });
    if (graph) parts.push(el("h3", {}, "Leaked bytes by call stack"), graph);
  }
  if (test.at_peak) {
    const graph = flameGraph(atPeak([test]), { zoom: [] });
    parts.push(el("h3", {}, "Alive at the peak by call stack"), graph ?? el("p", { class: "muted" }, test.at_peak.unknown ? `Not known: ${test.at_peak.unknown}.` : "Nothing."));
  }
  parts.push(...left(test));
  for (const name of ["stdout", "stderr"]) {
    const written = test.output?.[name];
    if (written && written.trim()) parts.push(el("h3", {}, name), el("pre", { class: "card output" }, written));
  }
  if (test.output?.dropped_bytes > 0) parts.push(el("p", { class: "muted" }, `${bytes(test.output.dropped_bytes)} of output were not kept.`));
  return parts.flat().filter(Boolean);
}

const miniRow = (finding) => el("button", { class: "mini", type: "button", kind: finding.kind, onclick: () => showFinding(finding) },
  el("span", { class: "line" }, el("i", { class: "dot" }),
    el("b", {}, isFree(finding.kind) ? count(finding.blocks, "time") : `${number(finding.bytes)} B`), el("span", { class: "muted" }, KINDS[finding.kind]),
    finding.site && el("code", {}, at({ file: finding.site.file, line: finding.site.line }))));

/** A bar for each iteration, from the least to the most; of many each is the last of some. */
function sparkline(bytes) {
  const low = Math.min(...bytes), range = Math.max(...bytes) - low || 1, columns = Math.min(bytes.length, 40);
  const shown = Array.from({ length: columns }, (_, column) => bytes[Math.floor(((column + 1) * bytes.length) / columns) - 1]);
  return shown.map((it) => "▁▂▃▄▅▆▇"[Math.floor(((it - low) * 6) / range)]).join("");
}

/** What the iterations of a test's body come to. */
const growthOf = ({ bytes: alive, iterations, warmup, ended }) => [
  alive.length > 0 && `${sparkline(alive)} ${number(alive.at(-1))} B alive after ${count(alive.length, "iteration")}`, `${number(warmup)} of ${number(iterations)} to warm up`, ended,
].filter(Boolean).join(" · ");

/** What a test has left in the kernel and in its temporary directory. */
function left(test) {
  const kernel = test.kernel ?? {};
  const card = (title, it) => el("div", { class: "card" }, el("div", {}, title, it.site && [" ", el("code", { class: "muted" }, at(it.site))]), it.stack && stacks("Call stack", it.stack, "possibly_lost"));
  const section = (title, list, name) => list?.length > 0 ? [el("h3", {}, title), ...list.map((it) => card(name(it), it))] : [];
  const of = (...parts) => parts.filter(Boolean).join(" · ");
  const size = (it) => it.bytes != null && bytes(it.bytes);
  const files = test.temporary_files;
  const { growth } = test;
  return [
    ...(growth ? [el("h3", {}, "Growth"), el("p", {}, growthOf(growth)), ...growth.grown.map((it) => card(of(sparkline(it.bytes), `${number(it.bytes.at(-1))} B at the end`), it))] : []),
    ...section("Descriptors left open", kernel.descriptors, (it) => of(`fd ${it.numbers.join(", ")}`, it.kind, it.description, it.call, size(it), it.held_by && `held by thread ${it.held_by}`, it.once && "kept by a one-time initializer")),
    ...section("IPC objects left behind", kernel.ipc, (it) => of(it.kind, it.name ?? `id ${it.id}`, it.call, size(it))),
    ...section("Processes left", kernel.children, (it) => of(`process ${it.id}`, it.command, it.state)),
    ...section("Threads left running", kernel.threads, (it) => of(`thread ${it.name}`, it.now && "still running")),
    ...section("Timers left", kernel.timers, (it) => of(`timer ${it.id}`, it.clock, it.notify)),
    ...section("Memory left mapped", kernel.mappings, (it) => of(size(it), count(it.count, "mapping"), it.kind, it.description, it.call, it.once && "kept by a one-time initializer")),
    ...(kernel.report ? [el("h3", {}, "Allocated in the kernel, and not seen to be freed"), el("table", {}, kernel.report.totals.map((it) => el("tr", {},
      el("td", {}, it.call ?? "no system call"), el("td", {}, el("code", {}, it.place)), el("td", { class: "number" }, bytes(it.bytes)), el("td", { class: "number" }, `of ${number(it.allocated_bytes)} B`))))] : []),
    ...(files?.count > 0 ? [el("h3", {}, "Files left in its temporary directory"), el("p", {}, `${count(files.count, "file")}, ${bytes(files.bytes)}: ${files.paths.join(", ")}${files.count > files.paths.length ? ", …" : ""}`)] : []),
  ];
}

// --- Flame graph ------------------------------------------------------------------------------------------

/** What of findings was lost. */
const lost = (findings) => findings.filter((finding) => LOST.includes(finding.kind));

/** What was alive at the peaks of tests, where that is known. */
function atPeak(tests) {
  const of = (test) => {
    const { stacks, rest } = test.at_peak;
    const index = TESTS.indexOf(test);
    return [...stacks.map((it) => ({ ...it, test: index })), { ...rest, test: index, stack: null, otherwise: "[other call stacks]" }];
  };
  return tests.filter((test) => test.at_peak).flatMap(of);
}

/** The tree of allocations, by tests and then by names, from the outside in. */
function tree(allocations) {
  const root = { name: "all", bytes: 0, blocks: 0, type: "test", children: new Map(), parent: null, depth: 0 };
  for (const allocation of allocations) {
    if (allocation.bytes === 0) continue;
    let node = root;
    const step = (name, type) => {
      node.bytes += allocation.bytes; node.blocks += allocation.blocks;
      let child = node.children.get(name);
      if (!child) node.children.set(name, (child = { name, bytes: 0, blocks: 0, type, children: new Map(), parent: node, depth: node.depth + 1 }));
      node = child;
    };
    step(testName(TESTS[allocation.test]), "test");
    const stack = allocation.stack ?? [];
    if (!allocation.stack) step(allocation.otherwise ?? "[call stack not recorded]", "foreign");
    for (let index = ownEnd(stack) - 1; index >= 0; index -= 1) {
      const it = frame(stack[index]);
      step(functionOf(it), it.own ? "own" : "foreign");
    }
    node.bytes += allocation.bytes; node.blocks += allocation.blocks;
  }
  return root;
}

/** Bars of what is wide enough to be seen, and one for all that is not. `at` has the names that lead to the bar that fills the width. */
function flameGraph(allocations, where) {
  const root = tree(allocations);
  if (root.bytes === 0) return null;
  const box = el("div", { class: "flame" });
  const said = el("div", { class: "under muted" }, "Point at a bar to see what it is.");
  const draw = () => {
    let zoomed = root;
    for (const name of where.zoom) zoomed = zoomed.children.get(name) ?? zoomed;
    const bars = [];
    let deepest = 0;
    const bar = (node, left, width, depth, extra) => {
      deepest = Math.max(deepest, depth);
      const say = `${node.name}: ${bytes(node.bytes)} in ${count(node.blocks, "block")}, ${((100 * node.bytes) / root.bytes).toFixed(1)} %`;
      const element = el("button", {
        type: "button", class: `bar ${node.type} ${extra ?? ""} ${match.frame(node.name) ? "match" : ""}`, title: say,
        onmouseenter: () => { said.textContent = say; }, onfocus: () => { said.textContent = say; },
        onclick: node.type === "rest" ? undefined : () => { where.zoom = names(node); draw(); },
      }, width < 1.5 ? "" : node.name);
      if (width < 0.6) element.classList.add("thin");
      element.style.cssText = `left:${left}%;width:${width}%;top:${depth * 21}px`;
      bars.push(element);
    };
    const names = (node) => (node.parent ? [...names(node.parent), node.name] : []);
    const parents = [];
    for (let node = zoomed.parent; node; node = node.parent) parents.unshift(node);
    parents.forEach((node, depth) => bar(node, 0, 100, depth, "around"));
    const level = (node, left, depth) => {
      const width = (100 * node.bytes) / zoomed.bytes;
      bar(node, left, width, depth);
      let next = left;
      const rest = { name: "", bytes: 0, blocks: 0, type: "rest", number: 0 };
      for (const child of [...node.children.values()].sort((one, other) => other.bytes - one.bytes || (one.name < other.name ? -1 : 1))) {
        const part = (100 * child.bytes) / zoomed.bytes;
        if (part < 0.2) { rest.bytes += child.bytes; rest.blocks += child.blocks; rest.number += 1; continue; }
        level(child, next, depth + 1);
        next += part;
      }
      const part = (100 * rest.bytes) / zoomed.bytes;
      if (part >= 0.1) { rest.name = `${number(rest.number)} smaller`; bar(rest, next, part, depth + 1); }
    };
    level(zoomed, 0, parents.length);
    box.style.height = `${(deepest + 1) * 21}px`;
    box.replaceChildren(...bars);
  };
  box.redraw = draw;
  draw();
  return el("div", {}, box, said);
}

const PICTURES = {
  leaked: {
    title: "leaked", says: "Bytes that were definitely, indirectly or possibly lost, by test and call stack.", nothing: "No bytes were lost.",
    allocations: () => lost(FINDINGS.filter(isShown)),
  },
  peak: {
    title: "at the peak", says: "Bytes that were alive when each test had allocated the most, by test and call stack.", nothing: "No test has allocated anything.",
    allocations: () => atPeak(state.ofTest === null ? TESTS : [TESTS[state.ofTest]]),
  },
};
const peaks = TESTS.filter((test) => test.at_peak);
// Where nothing was lost there is one picture to see.
if (peaks.length > 0 && lost(FINDINGS).length === 0) state.picture = "peak";

/** Which picture to draw, where there are two. */
const pictureChips = () => peaks.length > 0 && Object.entries(PICTURES).map(([name, { title }]) => el("button", {
  class: "chip", type: "button", "aria-pressed": String(state.picture === name), "data-picture": name,
  onclick: () => { state.picture = name; state.zoom = []; drawFlame(); },
}, title));

const unknownAtPeak = (tests) => tests.filter((test) => test.at_peak?.unknown).map((test) => `${testName(test)}: ${test.at_peak.unknown}`);

function drawFlame() {
  const picture = PICTURES[state.picture];
  const graph = flameGraph(picture.allocations(), state);
  const unknown = state.picture === "peak" ? unknownAtPeak(TESTS) : [];
  const legend = (color, text) => { const it = el("span", { class: "legend" }, el("i"), text); it.firstChild.style.background = `var(--${color})`; return it; };
  $("whole").replaceChildren(
    el("div", { class: "flamehead" },
      pictureChips(),
      el("p", { class: "muted" }, `${picture.says} The wider, the more; a click zooms, Escape goes back.`),
      legend("own", "your code"), legend("foreign", "std, C library, allocator"), legend("mark", "found by the search")),
    graph ?? el("p", { class: "empty" }, picture.nothing),
    ...(unknown.length > 0 ? [el("h3", {}, "Not known"), el("ul", { class: "plain" }, unknown.slice(0, 200).map((it) => el("li", {}, it)))] : []));
}

// --- What was checked -------------------------------------------------------------------------------------

const EXITS = {
  0: "every test passed and is clean", 1: "tests failed, none leaks", 2: "tests leak, none failed", 3: "tests failed and tests leak", 4: "no test was run",
  10: "incomplete", 11: "the tool could not do its work", 12: "the build failed",
};

function drawChecked() {
  const list = (items) => el("ul", { class: "plain" }, items.map((item) => el("li", {}, item)));
  const incomplete = TESTS.filter((test) => test.verdict === "incomplete");
  const rules = new Map();
  for (const row of TESTS.flatMap((test) => test.rules ?? [])) {
    const sum = rules.get(row.rule) ?? { rule: row.rule, bytes: 0, blocks: 0 };
    rules.set(row.rule, { ...sum, bytes: sum.bytes + row.bytes, blocks: sum.blocks + row.blocks, exceeded: sum.exceeded ?? row.exceeded });
  }
  const steering = { ebpf: "eBPF", ptrace: "ptrace and hardware breakpoints" }[RUN.steering.by] ?? RUN.steering.by;
  const status = { checked: ["good", "checked"], one_unit: ["good", "as one unit"], not_checked: ["warn", "not checked"] };
  $("whole").replaceChildren(...[
    el("h3", {}, "The run"),
    facts(["Exit code", `${RUN.exit_code}: ${EXITS[RUN.exit_code] ?? "?"}`], ["Time", seconds(RUN.duration_ns)], ["Interrupted", RUN.interrupted && "yes, before all tests had run"],
      ["Recorder", `${RUN.recorder} (${RUN.recorder_reason})`], ["Steered by", steering + (RUN.steering.reason ? `: ${RUN.steering.reason}` : "")], ["cargo leakcheck", DATA.version]),
    el("h3", {}, "Not checked"),
    RUN.steering.checks_off.length + RUN.not_checked.length === 0 ? el("p", { class: "muted" }, "Nothing was left out.")
      : list([...RUN.steering.checks_off, ...RUN.not_checked.map((it) => [el("b", {}, it.what), `: ${it.reason}`])]),
    ...(incomplete.length > 0 ? [el("h3", {}, "Not seen"), list(incomplete.slice(0, 200).map((test) => [
      el("button", { class: "link", type: "button", onclick: () => showTest(TESTS.indexOf(test)) }, testName(test)), `: ${test.reasons.join("; ")}`])),
    incomplete.length > 200 && el("p", { class: "muted" }, `and ${count(incomplete.length - 200, "more test")}`)] : []),
    ...(rules.size > 0 ? [el("h3", {}, "Rules that were for something"), list([...rules.values()].map(hit))] : []),
    el("h3", {}, "Targets"),
    el("table", {}, el("tr", {}, ["Target", "Kind", ""].map((name) => el("th", {}, name)), ["Tests", "Checked", "Ignored"].map((name) => el("th", { class: "number" }, name)), el("th", {}, "Why")),
      RUN.targets.map((it) => el("tr", {}, el("td", {}, el("code", {}, it.binary)), el("td", {}, it.kind),
        el("td", {}, el("span", { class: `badge ${status[it.status]?.[0] ?? ""}` }, status[it.status]?.[1] ?? it.status)),
        el("td", { class: "number" }, it.tests ?? "?"), el("td", { class: "number" }, it.checked), el("td", { class: "number" }, it.ignored), el("td", { class: "muted" }, it.reason ?? "")))),
  ].filter(Boolean));
}

// --- Frame of the page ------------------------------------------------------------------------------------

function drawTiles() {
  const { summary } = RUN;
  const tile = (value, title, tone_, name) => {
    const only = state.view === "tests" && state.classes.size === 1 && state.classes.has(name);
    const there = classes.includes(name);
    return el(there ? "button" : "div", {
      class: `tile ${value > 0 ? tone_ : ""}`, type: there && "button", "aria-pressed": there && String(only), "data-tile": name,
      onclick: there && (() => { state.classes = new Set(only ? classes : [name]); show("tests"); }),
    }, el("b", {}, number(value)), el("span", {}, title));
  };
  const sums = LOST.map((kind) => [kind, TESTS.reduce((sum, test) => sum + test[kind].bytes, 0)]);
  const all = sums.reduce((sum, [, value]) => sum + value, 0);
  const bar = el("div", { class: "bar" }, sums.map(([kind, value]) => { const part = el("i", { title: `${KINDS[kind]}: ${bytes(value)}` }); part.style.cssText = `width:${all && (100 * value) / all}%;background:var(--${kind})`; return part; }));
  $("tiles").replaceChildren(
    tile(summary.leaking, "leaking", "bad", "leaking"), tile(summary.failed, "failed", "bad", "failed"), tile(summary.clean, "clean", "good", "clean"),
    ...(summary.leaking_not_counted > 0 ? [tile(summary.leaking_not_counted, "leaking, not counted", "warn", "leaking, not counted")] : []),
    tile(summary.incomplete, "incomplete", "warn", "incomplete"), tile(summary.not_checked, "not checked", "warn", "not checked"),
    el("div", { class: `tile wide ${all > 0 ? "bad" : "good"}` }, el("b", {}, bytes(all)), el("span", {}, "lost, whatever the budgets", summary.baseline ? `; by the baseline ${compared(summary.baseline)}` : ""), bar));
}

function drawTabs() {
  $("tabs").replaceChildren(...Object.entries(VIEWS).map(([name, view], index) => el("button", {
    type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(state.view === name), title: `${view.title} (${index + 1})`, onclick: () => show(name),
  }, view.title, view.number && el("span", {}, number(view.number())))));
}

function address(text) {
  // A page in a frame, or of another scheme, may forbid it.
  try { history.replaceState(null, "", `#${text}`); } catch { /* It is only for a bookmark. */ }
}

function show(view) {
  state.view = view;
  document.body.classList.remove("opened");
  const listed = view === "findings" || view === "tests";
  $("list").hidden = $("detail").hidden = !listed;
  $("whole").hidden = listed;
  drawTabs();
  drawTiles();
  if (listed) { drawFilters(); refresh(false); return; }
  address(view);
  if (view === "flame") drawFlame(); else drawChecked();
}

/** Shows one of a list, whatever is filtered. */
function showOne(view, it) {
  if (view === "findings") { state.kinds.add(it.kind); if (isKnown(it)) state.known.add("accepted"); if (state.ofTest !== it.test) state.ofTest = null; } else state.classes.add(classesOf(it)[0]);
  show(view);
  if (!state.shown.includes(it)) { setQuery(""); refresh(false); }
  select(state.shown.indexOf(it));
  open();
}
const showTest = (index) => showOne("tests", TESTS[index]);
const showFinding = (finding) => showOne("findings", finding);
function showFindingsOf(index) {
  state.ofTest = index;
  findingsOf(TESTS[index]).forEach((finding) => { state.kinds.add(finding.kind); if (isKnown(finding)) state.known.add("accepted"); });
  setQuery("");
  show("findings");
}

function setQuery(query) {
  $("search").value = query;
  state.query = query;
  match = matcher(query);
}

let waiting;
$("search").addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    setQuery($("search").value);
    if (state.view === "checked") show("findings");
    else if (state.view === "flame") $("whole").querySelector(".flame")?.redraw();
    else refresh(false);
  }, 60);
});

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("leakcheck-theme", theme); } catch { /* Not everywhere is there a place to keep it. */ }
}
function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
try {
  const theme = localStorage.getItem("leakcheck-theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch { /* As above. */ }
$("theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));

const KEYS = [["j k, ↓ ↑", "next, previous"], ["Enter", "open"], ["Escape", "back"], ["/", "search"], ["1 – 4", "views"], ["f", "all frames, or folded"], ["t", "dark or light"], ["?", "this"]];
$("keys").append(el("h2", {}, "Keys"), el("dl", {}, KEYS.map(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])));
$("keys").addEventListener("click", () => $("keys").close());
$("help").addEventListener("click", () => $("keys").showModal());

function back() {
  const searching = document.activeElement === $("search");
  if (searching && $("search").value) { setQuery(""); if (state.view === "flame") drawFlame(); else refresh(true); } else if (searching) $("search").blur();
  else if (state.view === "flame" && state.zoom.length > 0) { state.zoom.pop(); $("whole").querySelector(".flame")?.redraw(); }
  else { document.body.classList.remove("opened"); $("rows").focus(); }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const typing = document.activeElement === $("search");
  const { key } = event;
  const moves = { ArrowDown: 1, ArrowUp: -1, ...(typing ? {} : { j: 1, k: -1, PageDown: 8, PageUp: -8, Home: -1e9, End: 1e9 }) };
  const listed = state.view === "findings" || state.view === "tests";
  const reading = document.activeElement === $("detail") && key !== "j" && key !== "k";
  if (key in moves && listed && !reading) select(state.selected + moves[key]);
  else if (key === "Escape") back();
  else if (key === "Enter" && (typing || document.activeElement === document.body || document.activeElement === $("rows"))) { open(); $("detail").focus(); }
  else if (typing) return;
  else if (key === "/") { $("search").focus(); $("search").select(); }
  else if (key === "t") setTheme(isDark() ? "light" : "dark");
  else if (key === "f") { state.fullStacks = !state.fullStacks; if (listed) showDetail(); }
  else if (key === "?") $("keys").showModal();
  else if (key >= "1" && key <= "4") show(Object.keys(VIEWS)[Number(key) - 1]);
  else return;
  event.preventDefault();
});
$("rows").addEventListener("scroll", drawRows, { passive: true });
addEventListener("resize", () => { if (!$("list").hidden) drawRows(); });

// --- Start ------------------------------------------------------------------------------------------------

document.title = `${DATA.headline} – cargo leakcheck`;
$("headline").textContent = DATA.headline;
document.body.classList.toggle("clean", RUN.summary.leaking === 0 && RUN.summary.failed === 0);
const [, view, which] = /^#(\w+)(?:\/(\d+))?$/.exec(location.hash) ?? [];
if (view === "finding" && FINDINGS[which]) showFinding(FINDINGS[which]);
else if (view === "test" && TESTS[which]) showTest(which);
else show(view in VIEWS ? view : state.view);
requestAnimationFrame(() => performance.mark("rows"));
