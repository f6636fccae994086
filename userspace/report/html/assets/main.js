// The rest of the page.
function fillProblems() {
  const lines = [];
  if (data.damaged) lines.push("The recording is damaged: parts of it could not be read.");
  for (const recording of data.recordings) {
    const where = data.recordings.length > 1 && recording.host ? recording.host + ": " : "";
    recording.incomplete.forEach((why) => lines.push(where + why));
    if (recording.lost > 0) lines.push(where + plural(recording.lost, "record", "records") + " lost");
    if (!recording.from_beginning) lines.push(where + "joined in the middle");
  }
  for (const process of data.processes.slice(0, 20)) {
    if (process.problem) lines.push(process.name + ": " + process.problem);
  }
  if (data.entries_omitted > 0) {
    lines.push(plural(data.entries_omitted, "entry is", "entries are") +
               " beyond what a report keeps in memory.");
  }
  if (lines.length === 0 && data.losses) lines.push("Something was lost.");
  if (lines.length === 0) return;
  $("problems").hidden = false;
  $("problems").append(make("h2", {}, "Incomplete"),
    make("ul", {}, ...lines.map((line) => make("li", {}, line))));
}

function fillHead() {
  const recording = data.recordings[0] || {};
  const parts = [];
  if (recording.when) parts.push(recording.when);
  const hosts = [...new Set(data.recordings.map((r) => r.host).filter(Boolean))];
  if (hosts.length) parts.push("on " + hosts.slice(0, 4).join(", ") +
                               (hosts.length > 4 ? " and others" : ""));
  if (recording.kernel) parts.push("Linux " + recording.kernel);
  $("subtitle").textContent = parts.join(" · ");
  if (hosts.length) document.title = "GPU report: " + hosts[0];
  $("footer").textContent = "rocattach " + data.version +
    (data.losses ? "" : " · nothing lost") + " · quantiles are right to 1.6 %";
}

function fillTiles() {
  const sum = (key) => data.processes.reduce((total, process) => total + process[key], 0);
  let busy = 0, span = 0, overlap = 0;
  for (const process of data.processes) {
    for (const gpu of process.gpus) { busy += gpu.busy; span += gpu.span; overlap += gpu.overlap; }
  }
  const copied = data.copies.reduce((total, copies) => total + copies.bytes, 0);
  const tiles = [
    [plural(data.process_count, "process", "processes"), data.processes
      .filter((process) => process.verdict === "attached").length + " attached"],
    [count(data.kernels.reduce((total, kernel) => total + kernel.count, 0) +
           (data.other_kernels ? data.other_kernels.count : 0)), "dispatches"],
    [duration(data.kernel_ns), "of kernel time"],
    [percent(busy, span), "GPU busy" + (overlap > 0
      ? ", several queues " + percent(overlap, busy) + " of it" : "")],
    [count(sum("copies")), "copies, " + bytes(copied)],
  ];
  $("tiles").append(...tiles.map(([value, title]) =>
    make("div", { className: "tile" }, make("b", {}, value), make("span", {}, title))));
}

function fillGroups() {
  $("groups").replaceChildren();
  if (data.groups.length === 0) return;
  const total = data.groups.reduce((sum, group) => sum + group.total, 0);
  const bar = make("div", { className: "group-bar" });
  const legend = make("div", { className: "legend" });
  data.groups.forEach((group, index) => {
    const color = group.name ? colorOf(index) : colorOf(-1);
    const name = group.name || "in no group";
    const part = make("i", { title: name });
    part.style.background = color;
    part.style.flex = String(Math.max(group.total, total / 1000));
    bar.append(part);
    const swatch = make("span", { className: "swatch" });
    swatch.style.background = color;
    legend.append(make("span", {}, swatch,
      `${name} ${percent(group.total, total)}, ${duration(group.total)}`));
  });
  $("groups").append(bar, legend);
}

function fillCopies() {
  if (data.copies.length === 0) return;
  $("copies").hidden = false;
  const titles = ["calls", "bytes", "total", "mean", "σ", "p99", "max", "GB/s", "direction"];
  const body = make("tbody");
  for (const copies of data.copies) {
    const rate = copies.total > 0 ? digits(copies.timed_bytes / copies.total) : "–";
    const cells = [count(copies.count), bytes(copies.bytes), duration(copies.total),
                   duration(copies.mean), duration(copies.sigma), duration(copies.p99),
                   duration(copies.max), rate];
    body.append(make("tr", {}, ...cells.map((text, i) =>
      make("td", { className: i > 2 && i < 7 ? "wide" : "" }, text)),
      make("td", { className: "name" }, copies.direction)));
  }
  $("copy-table").append(make("thead", {}, make("tr", {}, ...titles.map((title, i) =>
    make("th", { className: (i === 8 ? "name " : i > 2 && i < 7 ? "wide " : "") + "plain" },
         title)))), body);
}

function gpuLine(gpu) {
  const name = [gpu.product, gpu.name].filter(Boolean).join(", ");
  let text = `GPU ${gpu.gpu}${name ? " (" + name + ")" : ""}: busy ` +
    `${gpu.late > 0 ? "at least " : ""}${duration(gpu.busy)} of ${duration(gpu.span)} ` +
    `(${percent(gpu.busy, gpu.span)})`;
  if (gpu.gaps > 0) {
    text += `, ${plural(gpu.gaps, "idle gap", "idle gaps")}, median ${duration(gpu.gap_p50)}, ` +
      `longest ${duration(gpu.gap_max)}`;
  }
  if (gpu.overlap > 0) text += `, several queues at once for ${duration(gpu.overlap)}`;
  return text;
}

function fillProcesses() {
  const tone = { attached: "good", refused: "bad", missed: "bad" };
  for (const process of data.processes) {
    const head = make("p", {}, make("b", {}, process.name));
    head.append(make("span", { className: "badge " + (tone[process.verdict] || "warn") },
                     process.verdict || "no verdict"));
    const lines = [[plural(process.dispatches, "dispatch", "dispatches"),
      duration(process.kernel_ns) + " of kernel time",
      plural(process.copies, "copy", "copies"),
      process.untimed > 0 ? count(process.untimed) + " without times" : "",
      process.end].filter(Boolean).join(" · ")];
    lines.push(...process.gpus.filter((gpu) => gpu.span > 0).map(gpuLine));
    if (process.workload) lines.push(process.workload);
    const detail = [process.reason, process.detail].filter(Boolean).join(": ");
    if (detail) lines.push(detail);
    if (process.command) {
      head.append(make("code", { className: "clip quiet" }, process.command));
    }
    const element = make("div", { className: "process" }, head,
      ...lines.map((line) => make("p", { className: "quiet" }, line)));
    if (process.problem) element.append(make("p", { className: "bad" }, process.problem));
    $("processes").append(element);
  }
  const more = data.process_count - data.processes.length;
  if (more > 0) note("process-note", plural(more, "more process is", "more processes are") +
    " in the recording (rocattach report --limit 0).");
}

function note(id, text) {
  $(id).hidden = false;
  $(id).textContent = text;
}

function fillNotes() {
  const parts = [];
  if (!TIME.complete) parts.push("Of very many operations the longest are shown by themselves; " +
    "paler bars stand for the others.");
  if (TIME.without_lane > 0) parts.push(plural(TIME.without_lane, "operation", "operations") +
    " without a lane: too many queues, or times that cannot be true.");
  const errors = data.recordings.map((recording) => recording.clock_error || 0);
  if (Math.max(0, ...errors) > 0) parts.push("Times of different machines are compared with " +
    "an error of at most " + duration(Math.max(...errors)) + ".");
  if (parts.length) note("timeline-note", parts.join(" "));
  const others = data.other_kernels;
  if (others) note("kernel-note", "The table has the " + count(data.kernels.length) +
    " kernels with the most time; " + plural(others.kernels, "other", "others") + " took " +
    duration(others.total) + " in " + plural(others.count, "dispatch", "dispatches") + ".");
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  fillGroups();
  fillTable();
  drawTimeline();
  drawFlame();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
buildHead();
fillHead();
fillProblems();
fillTiles();
fillCopies();
fillProcesses();
fillNotes();
setTheme(theme());
showAll();
dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
$("theme").onclick = () => setTheme(theme() === "dark" ? "light" : "dark");

let typing = 0;
$("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => search($("search").value), 80);
});
$("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  clearTimeout(typing);
  search($("search").value);
  nextMatch();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target === $("search")) return;
  event.preventDefault();
  $("search").focus();
});
onChange(() => {
  fillTable();
  $("found").textContent = state.matches ? plural(state.matches.size, "kernel", "kernels") : "";
});
new ResizeObserver(() => { drawTimeline(); drawFlame(); }).observe(document.body);
document.documentElement.dataset.ready = "true";
