// The timeline's mouse, touch and keyboard.
// The operation under a point of the canvas.
function operationAt(x, y) {
  const index = Math.floor((y - AXIS + timeBox.scrollTop) / view.laneHeight);
  const lane = lanes[index];
  if (y < AXIS || !lane || x < view.gutter) return null;
  const label = view.gutter === 0 ? 15 : 0;
  const top = AXIS + index * view.laneHeight - timeBox.scrollTop + 3 + label;
  const row = Math.floor((y - top) / ((view.laneHeight - 6 - label) / lane.rows));
  const time = xToTime(x), slack = (xToTime(x + 2) - time);
  let best = -1;
  const last = firstAbove(lane.start, time + slack);
  for (let i = firstAbove(lane.reach, time - slack); i < last; ++i) {
    if (lane.end[i] < time - slack) continue;
    if (best < 0 || lane.row[i] === row) best = i;
    if (lane.row[i] === row && lane.start[i] <= time && lane.end[i] >= time) break;
  }
  const bucket = Math.floor(time / TIME.width);
  return { lane, operation: best, busy: lane.levels[0].busy[bucket] || 0,
           operations: lane.levels[0].operations[bucket] || 0,
           kernel: best >= 0 ? lane.kernel[best] : lane.levels[0].kernel[bucket] ?? -1 };
}

function tipFor(event) {
  const box = timeCanvas.getBoundingClientRect();
  const hit = operationAt(event.clientX - box.left, event.clientY - box.top);
  if (!hit || (hit.operation < 0 && hit.operations + hit.busy === 0)) return hideTip();
  const { lane, operation } = hit;
  const where = lane.process + ", " + lane.name;
  if (operation >= 0) {
    showTip(event, lane.copies ? lane.name : kernelOf(lane.kernel[operation]).name.slice(0, 300),
            "took " + duration(lane.end[operation] - lane.start[operation]) + ", began at " +
            duration(lane.start[operation] - TIME.first), where);
  } else {
    showTip(event, plural(hit.operations, "operation begins", "operations begin") + " within " +
            duration(TIME.width), "busy " + (hit.busy / 10).toFixed(1) + " %, most of it " +
            (lane.copies ? lane.name : shortOf(hit.kernel)), where);
  }
}

// Moves the view to the next operation of a kernel that is searched for or selected.
function nextMatch() {
  const wanted = (kernel) => state.matches ? state.matches.has(kernel)
                                           : kernel === state.selected;
  const after = (view.from + view.to) / 2 + 0.5;
  let best = null, first = null;
  for (const lane of lanes) {
    if (lane.copies) continue;
    for (let i = 0; i < lane.start.length; ++i) {
      if (!wanted(lane.kernel[i])) continue;
      const middle = (lane.start[i] + lane.end[i]) / 2;
      if (!first || middle < first.middle) first = { lane, i, middle };
      if (middle > after) {
        if (!best || middle < best.middle) best = { lane, i, middle };
        break;
      }
    }
  }
  const found = best || first;
  if (found) showOperation(found.lane, found.i);
}

// Moves the view, as wide as it is, to the next operation after it, or to the first one.
function nextOperation() {
  let next = Infinity, first = Infinity;
  for (const lane of lanes) {
    if (lane.start.length === 0) continue;
    first = Math.min(first, lane.start[0]);
    const i = firstAbove(lane.start, view.to);
    if (i < lane.start.length) next = Math.min(next, lane.start[i]);
  }
  const at = next < Infinity ? next : first;
  const span = view.to - view.from;
  if (at < Infinity) setView(at - span * 0.1, at + span * 0.9);
}

function showOperation(lane, i) {
  const span = Math.max((lane.end[i] - lane.start[i]) * 8, 200);
  const middle = (lane.start[i] + lane.end[i]) / 2;
  const top = AXIS + lanes.indexOf(lane) * view.laneHeight;
  if (top - timeBox.scrollTop < AXIS ||
      top + view.laneHeight - timeBox.scrollTop > timeBox.clientHeight) {
    timeBox.scrollTop = top - AXIS;
  }
  setView(middle - span / 2, middle + span / 2);
}

// The longest operation of a kernel that is known by itself.
function showLongest(kernel) {
  let best = null;
  for (const lane of lanes) {
    if (lane.copies) continue;
    for (let i = 0; i < lane.start.length; ++i) {
      const length = lane.end[i] - lane.start[i];
      if (lane.kernel[i] === kernel && (!best || length > best.length)) {
        best = { lane, i, length };
      }
    }
  }
  if (best) showOperation(best.lane, best.i);
  timeBox.scrollIntoView({ block: "center" });
  return best !== null;
}

const pointers = new Map();
let moved = 0;

timeBox.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  moved = 0;
  timeBox.classList.add("dragging");
});
window.addEventListener("pointerup", endPointer);
window.addEventListener("pointercancel", endPointer);
function endPointer(event) {
  pointers.delete(event.pointerId);
  if (pointers.size === 0) timeBox.classList.remove("dragging");
}
window.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) {
    if (event.target === timeCanvas) tipFor(event);
    return;
  }
  const box = timeCanvas.getBoundingClientRect();
  const now = { x: event.clientX, y: event.clientY };
  if (pointers.size === 1) {
    const time = xToTime(before.x) - xToTime(now.x);
    if (time !== 0) setView(view.from + time, view.to + time);
    if (event.pointerType === "mouse") timeBox.scrollTop -= now.y - before.y;
  } else {
    const other = [...pointers.entries()].find(([id]) => id !== event.pointerId)[1];
    const was = Math.abs(before.x - other.x), is = Math.abs(now.x - other.x);
    if (was > 8 && is > 8) zoom(was / is, (now.x + other.x) / 2 - box.left);
  }
  moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
  pointers.set(event.pointerId, now);
  hideTip();
});
timeBox.addEventListener("pointerleave", hideTip);
timeBox.addEventListener("click", (event) => {
  if (moved > 4) return;
  const box = timeCanvas.getBoundingClientRect();
  const hit = operationAt(event.clientX - box.left, event.clientY - box.top);
  const kernel = hit && !hit.lane.copies && hit.operations + hit.busy > 0 ? hit.kernel : -1;
  state.selected = kernel === state.selected ? -1 : kernel;
  changed();
});
timeBox.addEventListener("dblclick", (event) => {
  zoom(0.4, event.clientX - timeCanvas.getBoundingClientRect().left);
});
timeBox.addEventListener("wheel", (event) => {
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))),
         event.clientX - timeCanvas.getBoundingClientRect().left);
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    pan((event.deltaX || event.deltaY) / view.width);
  }
}, { passive: false });
timeBox.addEventListener("scroll", drawTimeline);
timeBox.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": showAll,
    "Home": () => setView(TIME.first, TIME.first + view.to - view.from),
    "End": () => setView(TIME.last - (view.to - view.from), TIME.last),
    "ArrowLeft": () => pan(-0.2), "ArrowRight": () => pan(0.2), "n": nextMatch,
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
$("zoom-in").onclick = () => zoom(0.5);
$("zoom-out").onclick = () => zoom(2);
$("zoom-all").onclick = showAll;
$("next-match").onclick = nextMatch;
$("next-operation").onclick = nextOperation;
onChange(() => {
  $("next-match").hidden = !state.matches && state.selected < 0;
  drawTimeline();
});
