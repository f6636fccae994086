// The timeline. Zoomed out it draws buckets, in levels of detail of which each is half as
// fine as the one before; zoomed in it draws single operations.
const TIME = data.timeline;
const AXIS = 26;
const OPERATIONS_SHOWN = 4000;  // of a lane at once
const LANE_ROWS = 3;

// One level: busy permille, operations and leading kernel by bucket.
function coarser(level) {
  const size = Math.ceil(level.busy.length / 2);
  const next = { busy: new Float32Array(size), operations: new Float64Array(size),
                 kernel: new Int32Array(size).fill(-1) };
  for (let i = 0; i < level.busy.length; ++i) {
    const j = i >> 1;
    const leads = i % 2 === 0 || level.busy[i] > level.busy[i - 1];
    if (level.operations[i] + level.busy[i] > 0 && leads) next.kernel[j] = level.kernel[i];
    next.busy[j] += level.busy[i] / 2;
    next.operations[j] += level.operations[i];
  }
  return next;
}

function readLane(raw) {
  const size = TIME.buckets;
  const level = { busy: new Float32Array(size), operations: new Float64Array(size),
                  kernel: new Int32Array(size).fill(-1) };
  for (let i = 0, bucket = 0; i < raw.buckets.length; i += 4) {
    bucket += raw.buckets[i];
    level.busy[bucket] = raw.buckets[i + 1];
    level.operations[bucket] = raw.buckets[i + 2];
    level.kernel[bucket] = raw.buckets[i + 3];
  }
  const levels = [level];
  while (levels[levels.length - 1].busy.length > 64) {
    levels.push(coarser(levels[levels.length - 1]));
  }
  const n = raw.operations.length / 3;
  const lane = {
    name: raw.name, process: raw.process, copies: raw.copies, levels, rows: 1,
    start: new Float64Array(n), end: new Float64Array(n), kernel: new Int32Array(n),
    row: new Uint8Array(n), reach: new Float64Array(n),  // the latest end so far
  };
  const free = new Float64Array(LANE_ROWS);
  for (let i = 0, at = 0, reach = 0; i < n; ++i) {
    at += raw.operations[3 * i];
    lane.start[i] = at;
    lane.end[i] = at + raw.operations[3 * i + 1];
    lane.kernel[i] = raw.operations[3 * i + 2];
    lane.reach[i] = reach = Math.max(reach, lane.end[i]);
    // Operations that overlap are drawn one below the other.
    let row = 0;
    while (row < LANE_ROWS - 1 && free[row] > at) ++row;
    lane.row[i] = row;
    free[row] = Math.max(free[row], lane.end[i]);
    lane.rows = Math.max(lane.rows, row + 1);
  }
  lane.complete = level.operations.reduce((sum, some) => sum + some, 0) === n;
  return lane;
}

// The first index for which array[index] > value; the array ascends.
function firstAbove(array, value) {
  let low = 0, high = array.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] > value) high = middle; else low = middle + 1;
  }
  return low;
}

const view = { from: 0, to: 1, width: 0, gutter: 0, laneHeight: 0 };
const lanes = TIME.lanes.map(readLane);
const oneProcess = new Set(lanes.map((lane) => lane.process)).size === 1;
const timeBox = $("timeline"), timeCanvas = $("timeline-canvas");
const timeToX = (time) => view.gutter + (time - view.from) / (view.to - view.from) *
  (view.width - view.gutter);
const xToTime = (x) => view.from + (x - view.gutter) / (view.width - view.gutter) *
  (view.to - view.from);

// Where the view may go: the recording and a little more.
function limits() {
  const span = Math.max(TIME.last - TIME.first, 100);
  return { from: TIME.first - span * 0.01, to: TIME.last + span * 0.01 };
}

function setView(from, to) {
  const limit = limits();
  const span = Math.min(Math.max(to - from, 50), limit.to - limit.from);
  let begin = (from + to) / 2 - span / 2;
  begin = Math.min(Math.max(begin, limit.from), limit.to - span);
  view.from = begin;
  view.to = begin + span;
  drawTimeline();
}

function zoom(factor, x) {
  const at = xToTime(x === undefined ? (view.width + view.gutter) / 2 : x);
  setView(at - (at - view.from) * factor, at + (view.to - at) * factor);
}
const pan = (part) => setView(view.from + part * (view.to - view.from),
                              view.to + part * (view.to - view.from));
const showAll = () => setView(limits().from, limits().to);

// A round number of nanoseconds for about one tick in `pixels`.
function tickStep(pixels) {
  const wanted = (view.to - view.from) * pixels / (view.width - view.gutter);
  const power = Math.pow(10, Math.floor(Math.log10(wanted)));
  return [1, 2, 5, 10].find((f) => f * power >= wanted) * power;
}

function drawAxis(context, height) {
  const step = tickStep(110);
  context.fillStyle = ink("--quiet");
  context.strokeStyle = ink("--line");
  context.textAlign = "left";
  const first = Math.ceil((view.from - TIME.first) / step);
  const last = Math.floor((view.to - TIME.first) / step);
  for (let tick = first; tick <= last; ++tick) {
    const x = Math.round(timeToX(TIME.first + tick * step)) + 0.5;
    if (x < view.gutter) continue;
    context.beginPath();
    context.moveTo(x, AXIS - 6);
    context.lineTo(x, height);
    context.stroke();
    const text = tick === 0 ? "0" : preciseTime(tick * step, step);
    if (x + context.measureText(text).width < view.width) context.fillText(text, x + 4, 13);
  }
}

function drawBuckets(context, lane, top, height, alpha) {
  const pixels = (view.width - view.gutter) / (view.to - view.from);
  let depth = 0;
  while (depth < lane.levels.length - 1 && TIME.width * 2 ** depth * pixels < 1) ++depth;
  const level = lane.levels[depth], width = TIME.width * 2 ** depth;
  const first = Math.max(0, Math.floor(view.from / width));
  const last = Math.min(level.busy.length - 1, Math.floor(view.to / width));
  for (let i = first; i <= last; ++i) {
    if (level.operations[i] + level.busy[i] === 0) continue;
    const x = timeToX(i * width), kernel = level.kernel[i];
    const tall = height * Math.min(1, Math.max(0.12, level.busy[i] / 1000));
    context.globalAlpha = alpha * (!lane.copies && isDim(kernel) ? 0.15 : 1);
    context.fillStyle = lane.copies ? copyColor() : colorOf(kernel);
    const left = Math.max(x, view.gutter);
    context.fillRect(left, top + height - tall, Math.max(x + width * pixels - left, 1), tall);
  }
  context.globalAlpha = 1;
}

function drawOperations(context, lane, top, height, range) {
  const tall = height / lane.rows;
  let lastX = -1, lastKernel = -2, lastRow = -1;
  for (let i = range.first; i < range.last; ++i) {
    if (lane.end[i] < view.from) continue;
    const x = Math.max(timeToX(lane.start[i]), view.gutter);
    const width = Math.max(Math.min(timeToX(lane.end[i]), view.width) - x, 1);
    const kernel = lane.kernel[i], row = lane.row[i];
    // Operations in the pixel that was drawn last would not be visible.
    if (width <= 1 && x - lastX < 0.7 && kernel === lastKernel && row === lastRow) continue;
    [lastX, lastKernel, lastRow] = [x, kernel, row];
    const y = top + row * tall;
    context.globalAlpha = !lane.copies && isDim(kernel) ? 0.15 : 1;
    context.fillStyle = lane.copies ? copyColor() : colorOf(kernel);
    context.fillRect(x, y, width > 3 ? width - 0.6 : width, tall - 0.8);
    if (kernel === state.selected && !lane.copies && width > 3) {
      context.strokeStyle = ink("--text");
      context.strokeRect(x + 0.5, y + 0.5, width - 1.6, tall - 1.8);
    }
    if (width > 34 && tall > 11) {
      context.fillStyle = theme() === "dark" ? "#f3f5f8" : "#17202b";
      const text = lane.copies ? lane.name : shortOf(kernel);
      context.fillText(fitText(context, text, width - 8), x + 4, y + tall / 2 + 0.5);
    }
  }
  context.globalAlpha = 1;
}

// Whether anything of any lane is in view.
function somethingInView() {
  return lanes.some((lane) => {
    const first = firstAbove(lane.reach, view.from);
    if (first < lane.start.length && lane.start[first] < view.to) return true;
    if (lane.complete) return false;
    const level = lane.levels[0];
    const last = Math.min(level.busy.length - 1, Math.floor(view.to / TIME.width));
    for (let i = Math.max(0, Math.floor(view.from / TIME.width)); i <= last; ++i) {
      if (level.operations[i] + level.busy[i] > 0) return true;
    }
    return false;
  });
}

function drawLane(context, lane, top) {
  const label = view.gutter === 0 ? 15 : 0;
  const range = { first: firstAbove(lane.reach, view.from),
                  last: firstAbove(lane.start, view.to) };
  const few = range.last - range.first <= OPERATIONS_SHOWN;
  const bucketWidth = TIME.width * (view.width - view.gutter) / (view.to - view.from);
  const y = top + 3 + label, height = view.laneHeight - 6 - label;
  if (!few || !lane.complete) {
    // Where not every operation is known by itself, buckets stand for the others.
    drawBuckets(context, lane, y, height, few && bucketWidth > 8 ? 0.35 : 1);
  }
  if (few && (lane.complete || bucketWidth > 8)) {
    drawOperations(context, lane, y, height, range);
  }
  context.fillStyle = ink("--quiet");
  const name = oneProcess ? lane.name : lane.name + " · " + lane.process;
  if (view.gutter === 0) {
    context.fillText(fitText(context, name, view.width - 8), 2, top + 9);
  } else {
    context.fillStyle = ink("--text");
    context.fillText(fitText(context, lane.name, view.gutter - 12), 0,
                     top + view.laneHeight / 2 - 7);
    context.fillStyle = ink("--quiet");
    context.fillText(fitText(context, lane.process, view.gutter - 12), 0,
                     top + view.laneHeight / 2 + 8);
  }
  context.strokeStyle = ink("--line");
  context.beginPath();
  context.moveTo(0, top + view.laneHeight - 0.5);
  context.lineTo(view.width, top + view.laneHeight - 0.5);
  context.stroke();
}

const drawTimeline = onFrame(() => {
  const begin = performance.now();
  view.width = timeBox.clientWidth;
  view.gutter = view.width < 640 ? 0 : 190;
  view.laneHeight = view.gutter === 0 ? 46 : 40;
  const whole = AXIS + lanes.length * view.laneHeight;
  $("timeline-size").style.height = whole + "px";
  const height = Math.min(whole, Math.max(160, Math.round(innerHeight * 0.62)));
  const context = prepare(timeCanvas, view.width, height);
  context.font = FONT;
  context.textBaseline = "middle";
  drawAxis(context, height);
  context.save();
  context.beginPath();
  context.rect(0, AXIS, view.width, height - AXIS);
  context.clip();
  const scrolled = timeBox.scrollTop;
  lanes.forEach((lane, index) => {
    const top = AXIS + index * view.laneHeight - scrolled;
    if (top + view.laneHeight > AXIS && top < height) drawLane(context, lane, top);
  });
  context.restore();
  const empty = lanes.length > 0 && !somethingInView();
  $("next-operation").hidden = !empty;
  $("range").textContent = lanes.length === 0 ? "No operation has times." :
    preciseTime(Math.max(view.from - TIME.first, 0), tickStep(4)) + " to " +
    preciseTime(Math.min(view.to, TIME.last) - TIME.first, tickStep(4)) + " of " +
    duration(TIME.last - TIME.first) + (empty ? ": nothing ran" : "");
  drawOverview();
  timeBox.dataset.from = view.from;
  timeBox.dataset.to = view.to;
  timeBox.dataset.drawMs = performance.now() - begin;
});
