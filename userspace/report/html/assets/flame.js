// The flame graph: all, processes, queues, kernels, from top to bottom.
const FLAME_ROW = 26;

function flameTree() {
  const node = (name, children) => {
    const ns = children.reduce((sum, child) => sum + child.ns, 0);
    return { name, children: children.sort((a, b) => b.ns - a.ns), ns, kernel: -2 };
  };
  const processes = data.flame.processes.map((process) =>
    node(process.name, process.queues.map((queue) =>
      node(queue.name, queue.kernels.map(([kernel, ns, times]) => ({
        name: kernelOf(kernel).name, short: shortOf(kernel), children: [], ns, times, kernel,
      }))))));
  const root = node("all kernel time", processes);
  const place = (parent, begin) => {
    parent.begin = begin;
    for (const child of parent.children) {
      child.parent = parent;
      child.level = parent.level + 1;
      place(child, begin);
      begin += child.ns;
    }
  };
  root.level = 0;
  place(root, 0);
  return root;
}

const flameRoot = flameTree();
const flameBox = $("flame"), flameCanvas = $("flame-canvas");
let flameTop = flameRoot, flameAt = flameRoot;

function flameScale(width) {
  const scale = flameTop.ns > 0 ? width / flameTop.ns : 0;
  return (node) => {
    if (node.level <= flameTop.level) return { x: 0, width };
    return { x: (node.begin - flameTop.begin) * scale, width: node.ns * scale };
  };
}

function drawFlameNode(context, node, place) {
  const { x, width } = place(node);
  if (width < 0.4) return false;
  const y = node.level * FLAME_ROW;
  const own = node.kernel >= -1;
  context.globalAlpha = (own && isDim(node.kernel) ? 0.18 : 1) *
    (node.level < flameTop.level ? 0.55 : 1);
  context.fillStyle = own ? colorOf(node.kernel)
                          : ink(node.level % 2 === 0 ? "--hover" : "--line");
  context.fillRect(x, y, Math.max(width - 1, 0.5), FLAME_ROW - 1);
  if (width > 30) {
    context.fillStyle = own && theme() === "light" ? "#17202b" : ink("--text");
    context.fillText(fitText(context, node.short || node.name, width - 12), x + 6,
                     y + FLAME_ROW / 2);
  }
  context.globalAlpha = 1;
  if (node === flameAt && (document.activeElement === flameBox || node !== flameTop)) {
    context.strokeStyle = ink("--text");
    context.strokeRect(x + 0.5, y + 0.5, Math.max(width - 2, 1), FLAME_ROW - 2);
  }
  return true;
}

const drawFlame = onFrame(() => {
  const width = flameBox.clientWidth;
  const context = prepare(flameCanvas, width, 4 * FLAME_ROW);
  context.font = FONT;
  context.textBaseline = "middle";
  const place = flameScale(width);
  const below = (node) => {
    if (!drawFlameNode(context, node, place)) return;
    node.children.forEach(below);
  };
  for (let node = flameTop.parent; node; node = node.parent) {
    drawFlameNode(context, node, place);
  }
  below(flameTop);
  $("flame-all").hidden = flameTop === flameRoot;
  const path = [];
  for (let node = flameAt; node; node = node.parent) path.unshift(node.name.slice(0, 200));
  $("flame-text").textContent = flameRoot.ns === 0 ? "No kernel has times." :
    path.join(" → ") + ": " + duration(flameAt.ns) + ", " +
    percent(flameAt.ns, flameRoot.ns) +
    (flameAt.times ? ", " + plural(flameAt.times, "dispatch", "dispatches") : "") +
    (data.flame.left_out > 0 && flameAt === flameRoot
      ? "; " + duration(data.flame.left_out) + " of small parts is not shown" : "");
});

function flameUnder(event) {
  const box = flameCanvas.getBoundingClientRect();
  const x = event.clientX - box.left;
  const level = Math.floor((event.clientY - box.top) / FLAME_ROW);
  const place = flameScale(box.width);
  if (level <= flameTop.level) {
    let node = flameTop;
    while (node && node.level > level) node = node.parent;
    return node;
  }
  let node = flameTop;
  while (node && node.level < level) {
    node = node.children.find((child) => {
      const part = place(child);
      return x >= part.x && x < part.x + part.width;
    });
  }
  return node;
}

function flameZoom(node) {
  flameAt = node;
  flameTop = node.children.length ? node : node.parent || node;
  if (node.kernel >= 0) {
    state.selected = node.kernel;
    changed();
  }
  drawFlame();
}

flameCanvas.addEventListener("click", (event) => {
  const node = flameUnder(event);
  if (node) flameZoom(node);
});
flameCanvas.addEventListener("pointermove", (event) => {
  const node = flameUnder(event);
  if (!node) return hideTip();
  showTip(event, node.name.slice(0, 300), duration(node.ns) + ", " +
          percent(node.ns, flameRoot.ns) + " of the kernel time",
          node.times ? plural(node.times, "dispatch", "dispatches") : "");
});
flameCanvas.addEventListener("pointerleave", hideTip);
flameBox.addEventListener("focus", drawFlame);
flameBox.addEventListener("blur", drawFlame);
flameBox.addEventListener("keydown", (event) => {
  const siblings = flameAt.parent ? flameAt.parent.children : [flameAt];
  const at = siblings.indexOf(flameAt);
  const target = {
    ArrowDown: flameAt.children[0], ArrowUp: flameAt.parent,
    ArrowLeft: siblings[at - 1], ArrowRight: siblings[at + 1],
  }[event.key];
  if (event.key === "Enter") flameZoom(flameAt);
  else if (event.key === "Backspace" || event.key === "Escape") {
    flameTop = flameAt = flameTop.parent || flameRoot;
  } else if (target) {
    flameAt = target;
    if (target.level <= flameTop.level) flameTop = target;
  } else if (!event.key.startsWith("Arrow")) {
    return;
  }
  event.preventDefault();
  drawFlame();
});
$("flame-all").onclick = () => { flameTop = flameAt = flameRoot; drawFlame(); };
onChange(drawFlame);
