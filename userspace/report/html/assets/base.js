// Helpers. Everything that comes from the recording reaches the page as text, through
// textContent or a canvas.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

// An element; children are elements or texts.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
function makeSvg(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// About three digits.
function digits(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function duration(ns) {
  if (ns === null || ns === undefined) return "–";
  if (ns < 0) return "−" + duration(-ns);
  if (ns < 999.5) return (Number.isInteger(ns) ? ns : digits(ns)) + " ns";
  if (ns < 999.5e3) return digits(ns / 1e3) + " µs";
  if (ns < 999.5e6) return digits(ns / 1e6) + " ms";
  if (ns < 120e9) return digits(ns / 1e9) + " s";
  const minutes = Math.floor(ns / 60e9);
  return minutes < 120 ? minutes + " min " + Math.round(ns / 1e9 % 60) + " s"
                       : Math.floor(minutes / 60) + " h " + minutes % 60 + " min";
}

// A time with as many digits as it takes to tell it from one that is `step` away.
function preciseTime(ns, step) {
  const [unit, name] = [[1e9, " s"], [1e6, " ms"], [1e3, " µs"], [1, " ns"]]
    .find(([size]) => Math.abs(ns) >= size) || [1, " ns"];
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  return (ns / unit).toFixed(Math.min(decimals, 9)) + name;
}

const count = (number) => number.toLocaleString("en-US");
const plural = (number, one, many) => count(number) + " " + (number === 1 ? one : many);
const percent = (part, whole) => whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "–";

function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) { number /= 1024; ++unit; }
  return (unit === 0 ? number : digits(number)) + " " + units[unit];
}

function plainNumber(value) {
  if (value === null) return "–";
  return Number.isInteger(value) ? count(value) : value.toPrecision(6).replace(/\.?0+$/, "");
}

// A name without its parameters, template arguments and namespaces, for narrow places.
function shortName(name) {
  let text = "", depth = 0;
  for (const c of name.slice(0, 400)) {
    if (c === "<") ++depth;
    else if (c === ">") depth = Math.max(0, depth - 1);
    else if (depth === 0 && c === "(" && text && !text.endsWith(" ")) break;
    else if (depth === 0) text += c;
  }
  text = text.replace(/^(void|bool|int|float) /, "").replace(/\[.*$/, "").trim();
  const parts = text.split("::");
  return parts[parts.length - 1] || name.slice(0, 60);
}

const OTHERS = { name: "(other kernels)", count: 0, total: 0 };
const kernelOf = (index) => data.kernels[index] || OTHERS;
const shortNames = data.kernels.map((kernel) => shortName(kernel.name));
const shortOf = (index) => shortNames[index] || "other kernels";

// Colours: the kernels with the most time have their own, the others are grey.
const PALETTES = {
  light: ["#5b8db8", "#dda061", "#74a580", "#c77d86", "#8d7fb3", "#b39a68", "#65aab0",
          "#cb8cae", "#94a765", "#7f8da3"],
  dark: ["#5f8fbb", "#c98f55", "#6da07a", "#bd7780", "#8a7bb3", "#a8905f", "#5fa5aa",
         "#c083a5", "#8fa35f", "#76869e"],
};
const theme = () => document.documentElement.dataset.theme || "light";
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function colorOf(index) {
  const palette = PALETTES[theme()];
  if (index >= 0 && index < palette.length) return palette[index];
  return theme() === "dark" ? "#4d5663" : "#b9c0ca";
}
const copyColor = () => theme() === "dark" ? "#6d7686" : "#9aa4b2";

// The search text, its matches and the selection. Views of them register a listener.
const state = { query: "", matches: null, selected: -1 };
const listeners = [];
const onChange = (listener) => listeners.push(listener);
const changed = () => listeners.forEach((listener) => listener());

function search(query) {
  state.query = query.trim().toLowerCase();
  state.matches = null;
  if (state.query) {
    state.matches = new Set();
    data.kernels.forEach((kernel, index) => {
      const text = [kernel.name, kernel.mangled || "", kernel.group || ""].join("\n");
      if (text.toLowerCase().includes(state.query)) state.matches.add(index);
    });
  }
  changed();
}
const isDim = (kernel) => state.matches !== null && !state.matches.has(kernel);

// Draws at most once for each frame of the screen.
function onFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  };
}

// Fits the canvas to its size on the screen; returns its context.
function prepare(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = height + "px";
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

// Text that is cut to a width.
function fitText(context, text, width) {
  if (width < 14) return "";
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? text.slice(0, low) + "…" : "";
}

function showTip(event, title, ...lines) {
  const tip = $("tip");
  tip.replaceChildren(make("b", {}, title), ...lines.map((line) => make("div", {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  const below = event.clientY + 18;
  tip.style.top = (below + box.height < innerHeight ? below
                                                    : event.clientY - box.height - 12) + "px";
}
const hideTip = () => { $("tip").hidden = true; };
