// A histogram of durations on a logarithmic axis.
function histogramOf(durations) {
  const width = 520, height = 130, bottom = 20, top = 16;
  const svg = makeSvg("svg", {
    viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img",
    "aria-label": "Histogram of durations from " + duration(durations.min) + " to " +
      duration(durations.max),
  });
  const bars = durations.histogram;
  if (!bars.length) return svg;
  const log = (ns) => Math.log2(Math.max(ns, 1));
  let from = log(bars[0][0]), to = log(bars[bars.length - 1][1]);
  if (to - from < 1) { from -= 0.5; to += 0.5; }
  const x = (ns) => 4 + (log(ns) - from) / (to - from) * (width - 8);
  const most = Math.max(...bars.map((bar) => bar[2]));
  for (const [low, high, times] of bars) {
    const tall = Math.max(1.5, times / most * (height - bottom - top));
    const bar = makeSvg("rect", {
      x: x(low) + 0.5, y: height - bottom - tall, width: Math.max(1.5, x(high) - x(low) - 1),
      height: tall, rx: 1.5, fill: "var(--accent)", opacity: 0.65,
    });
    bar.append(makeSvg("title", {}, duration(low) + " to " + duration(high) + ": " +
      plural(times, "dispatch", "dispatches")));
    svg.append(bar);
  }
  svg.append(makeSvg("line", { x1: 0, x2: width, y1: height - bottom, y2: height - bottom,
                               stroke: "var(--line)" }));
  let last = -100;
  for (const [label, value] of [["p50", durations.p50], ["p99", durations.p99]]) {
    const at = x(value);
    svg.append(makeSvg("line", { x1: at, x2: at, y1: top - 4, y2: height - bottom,
                                 stroke: "var(--quiet)", "stroke-dasharray": "3 3" }));
    if (at - last > 34) {
      svg.append(makeSvg("text", { x: Math.min(at + 3, width - 26), y: 10 }, label));
    }
    last = at;
  }
  // A few round durations.
  const ends = [...new Set([durations.min, durations.p50, durations.max])];
  last = -100;
  for (const value of ends) {
    const at = Math.min(Math.max(x(value), 24), width - 26);
    if (at - last < 70) continue;
    svg.append(makeSvg("text", { x: at, y: height - 5, "text-anchor": "middle" },
                       duration(value)));
    last = at;
  }
  return svg;
}
