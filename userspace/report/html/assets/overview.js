// The strip below the timeline: the whole recording, and which part of it is in view.
// Dragging moves that part.
const stripBox = $("overview"), stripCanvas = $("overview-canvas");
const STRIP_HEIGHT = 28;

// Busy permille of the busiest lane, by bucket of the finest level.
const stripBusy = (() => {
  const busy = new Float32Array(TIME.buckets);
  for (const lane of lanes) {
    const level = lane.levels[0];
    for (let i = 0; i < busy.length; ++i) {
      if (level.operations[i] + level.busy[i] > 0) busy[i] = Math.max(busy[i], level.busy[i], 80);
    }
  }
  return busy;
})();

const stripLeft = () => view.gutter;
const stripX = (time) => {
  const limit = limits();
  return stripLeft() + (time - limit.from) / (limit.to - limit.from) *
    (view.width - stripLeft());
};
const stripTime = (x) => {
  const limit = limits();
  return limit.from + (x - stripLeft()) / (view.width - stripLeft()) *
    (limit.to - limit.from);
};

function drawOverview() {
  const whole = limits(), all = view.from <= whole.from && view.to >= whole.to;
  stripBox.hidden = lanes.length === 0;
  if (lanes.length === 0) return;
  const context = prepare(stripCanvas, view.width, STRIP_HEIGHT);
  const columns = new Float32Array(Math.max(1, Math.ceil(view.width)));
  for (let i = 0; i < stripBusy.length; ++i) {
    if (stripBusy[i] === 0) continue;
    const first = Math.max(0, Math.floor(stripX(i * TIME.width)));
    const last = Math.min(columns.length - 1, Math.floor(stripX((i + 1) * TIME.width)));
    for (let x = first; x <= last; ++x) columns[x] = Math.max(columns[x], stripBusy[i]);
  }
  context.fillStyle = ink("--hover");
  context.fillRect(stripLeft(), 0, view.width - stripLeft(), STRIP_HEIGHT);
  context.fillStyle = ink("--accent");
  context.globalAlpha = 0.55;
  columns.forEach((busy, x) => {
    if (busy === 0 || x < stripLeft()) return;
    const tall = (STRIP_HEIGHT - 6) * Math.min(1, busy / 1000);
    context.fillRect(x, STRIP_HEIGHT - 3 - tall, 1, tall);
  });
  context.globalAlpha = 1;
  if (all) return;
  const from = stripX(view.from), to = Math.max(stripX(view.to), from + 3);
  context.globalAlpha = 0.2;
  context.fillRect(from, 0, to - from, STRIP_HEIGHT);
  context.globalAlpha = 1;
  context.strokeStyle = ink("--accent");
  context.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), STRIP_HEIGHT - 1);
}

let stripGrab = null;  // how far the pointer is from the middle of the part in view
function moveStrip(event) {
  const time = stripTime(event.clientX - stripCanvas.getBoundingClientRect().left);
  const half = (view.to - view.from) / 2;
  setView(time - stripGrab - half, time - stripGrab + half);
}
stripBox.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  const time = stripTime(event.clientX - stripCanvas.getBoundingClientRect().left);
  const inside = time >= view.from && time <= view.to;
  stripGrab = inside ? time - (view.from + view.to) / 2 : 0;
  stripBox.setPointerCapture(event.pointerId);
  moveStrip(event);
});
stripBox.addEventListener("pointermove", (event) => {
  if (stripGrab !== null) moveStrip(event);
});
for (const end of ["pointerup", "pointercancel"]) {
  stripBox.addEventListener(end, () => { stripGrab = null; });
}
