// The sortable table of kernels; a row opens to its histogram and counters.
const COLUMNS = [
  { key: "share", title: "share", value: (k) => k.total, first: "descending" },
  { key: "count", title: "calls", value: (k) => k.count, first: "descending", wide: true },
  { key: "total", title: "total", value: (k) => k.total, first: "descending" },
  { key: "mean", title: "mean", value: (k) => k.mean, first: "descending", wide: true },
  { key: "sigma", title: "σ", value: (k) => k.sigma, first: "descending", wide: true },
  { key: "min", title: "min", value: (k) => k.min, first: "ascending", wide: true },
  { key: "p50", title: "p50", value: (k) => k.p50, first: "descending", wide: true },
  { key: "p99", title: "p99", value: (k) => k.p99, first: "descending", wide: true },
  { key: "max", title: "max", value: (k) => k.max, first: "descending", wide: true },
  { key: "name", title: "kernel", value: (k) => k.name, first: "ascending" },
];
const PAGE_ROWS = 100;
const sorting = { key: "total", direction: "descending", rows: PAGE_ROWS };
const opened = new Set();
const kernelTable = $("kernel-table");
const kernelBody = make("tbody");
const largestTotal = Math.max(1, ...data.kernels.map((kernel) => kernel.total));

function sortBy(column) {
  if (sorting.key === column.key) {
    sorting.direction = sorting.direction === "ascending" ? "descending" : "ascending";
  } else {
    sorting.key = column.key;
    sorting.direction = column.first;
  }
  fillTable();
}

function buildHead() {
  const row = make("tr");
  for (const column of COLUMNS) {
    const button = make("button", { type: "button" }, column.title);
    button.onclick = () => sortBy(column);
    row.append(make("th", { scope: "col", className: column.key === "name" ? "name" :
                            column.wide ? "wide" : "" }, button));
  }
  kernelTable.append(make("thead", {}, row), kernelBody);
}

function sortedKernels() {
  const column = COLUMNS.find((c) => c.key === sorting.key);
  const sign = sorting.direction === "ascending" ? 1 : -1;
  const order = data.kernels.map((_, index) => index)
    .filter((index) => !state.matches || state.matches.has(index));
  const values = data.kernels.map(column.value);
  order.sort((a, b) => {
    const x = values[a], y = values[b];
    return sign * (typeof x === "string" ? x.localeCompare(y) : x - y) || a - b;
  });
  return order;
}

function kernelRow(index) {
  const kernel = data.kernels[index];
  const time = (value) => kernel.timed > 0 ? duration(value) : "–";
  const bar = make("i");
  bar.style.width = `calc((100% - 12px) * ${kernel.total / largestTotal})`;
  const swatch = make("span", { className: "swatch" });
  swatch.style.background = colorOf(index);
  const open = opened.has(index);
  const name = make("button", { type: "button", title: kernel.name.slice(0, 1000) },
                    kernel.name.slice(0, 500));
  name.setAttribute("aria-expanded", open);
  const row = make("tr", { className: "kernel" },
    make("td", { className: "share" }, bar,
         make("span", {}, percent(kernel.total, data.kernel_ns))),
    make("td", { className: "wide" }, count(kernel.count)),
    make("td", {}, time(kernel.total)),
    ...["mean", "sigma", "min", "p50", "p99", "max"].map((key) =>
      make("td", { className: "wide" }, time(kernel[key]))),
    make("td", { className: "name" }, make("div", { className: "cell" }, swatch, name)));
  row.dataset.kernel = index;
  return row;
}

function counterTable(counters) {
  const table = make("table", {}, make("thead", {}, make("tr", {},
    ...["total", "mean", "dispatches", "counter"].map((title, i) =>
      make("th", { className: i === 3 ? "plain name" : "plain" }, title)))));
  const body = make("tbody");
  for (const [name, total, mean, dispatches, mixed] of counters.values) {
    body.append(make("tr", {}, make("td", {}, plainNumber(total)),
      make("td", {}, plainNumber(mean)), make("td", {}, count(dispatches)),
      make("td", { className: "name" }, name + (mixed ? " *" : ""))));
  }
  table.append(body);
  const measured = counters.passes.filter((times) => times > 0).length;
  const text = `${counters.process}: ${measured} of ${plural(counters.passes.length, "pass", "passes")} measured, ` +
    `in ${counters.passes.map(count).join(" + ")} dispatches` +
    (counters.architecture ? ` (${counters.architecture})` : "");
  return make("div", {}, table, make("p", { className: "hint" }, text +
    (counters.values.some((value) => value[4])
      ? "; * from means over different dispatches" : "")));
}

function detailsRow(index) {
  const kernel = data.kernels[index];
  const names = make("div", { className: "clip" }, make("code", {}, kernel.name));
  if (kernel.mangled && kernel.mangled !== kernel.name) {
    names.append(make("br"), make("code", { className: "hint" }, kernel.mangled));
  }
  const columns = make("div", { className: "columns" });
  const left = make("div", {}, make("h3", {}, "Durations"), histogramOf(kernel));
  const [sgprs, vgprs, accum] = kernel.registers;
  const facts = [plural(kernel.count, "call", "calls")].concat([["min", kernel.min], ["p50", kernel.p50], ["mean", kernel.mean],
                 ["p99", kernel.p99], ["max", kernel.max], ["σ", kernel.sigma]]
    .map(([title, value]) => `${title} ${kernel.timed > 0 ? duration(value) : "–"}`));
  if (vgprs || sgprs) facts.push(`${vgprs} VGPRs`, `${accum} AccVGPRs`, `${sgprs} SGPRs`);
  if (kernel.lds) facts.push(`${bytes(kernel.lds)} LDS`);
  if (kernel.group) facts.push(`group ${kernel.group}`);
  left.append(make("p", { className: "hint" }, facts.join(" · ")));
  const button = make("button", { type: "button" }, "Show the longest on the timeline");
  button.onclick = () => {
    state.selected = index;
    changed();
    if (!showLongest(index)) button.textContent = "None of them is shown by itself";
  };
  left.append(button);
  columns.append(left);
  if (kernel.counters) {
    columns.append(make("div", {}, make("h3", {}, "Counters"),
                        ...kernel.counters.map(counterTable)));
  }
  return make("tr", { className: "details" },
              make("td", { colSpan: COLUMNS.length }, names, columns));
}

function toggle(row) {
  const index = Number(row.dataset.kernel);
  const button = row.querySelector("button");
  if (opened.delete(index)) {
    row.nextElementSibling.remove();
  } else {
    opened.add(index);
    row.after(detailsRow(index));
  }
  button.setAttribute("aria-expanded", opened.has(index));
}

function fillTable() {
  const order = sortedKernels();
  [...kernelTable.tHead.rows[0].cells].forEach((cell, i) => {
    if (COLUMNS[i].key === sorting.key) cell.setAttribute("aria-sort", sorting.direction);
    else cell.removeAttribute("aria-sort");
  });
  const rows = document.createDocumentFragment();
  for (const index of order.slice(0, sorting.rows)) {
    rows.append(kernelRow(index));
    if (opened.has(index)) rows.append(detailsRow(index));
  }
  if (order.length === 0) {
    rows.append(make("tr", {}, make("td", { colSpan: COLUMNS.length, className: "hint" },
      data.kernels.length ? "No kernel's name contains this." : "No kernel was dispatched.")));
  }
  kernelBody.replaceChildren(rows);
  const more = order.length - sorting.rows;
  $("more-kernels").hidden = more <= 0;
  $("more-kernels").textContent = `Show ${plural(Math.min(more, PAGE_ROWS * 5), "more", "more")}`;
}

kernelBody.addEventListener("click", (event) => {
  const row = event.target.closest("tr.kernel");
  if (row) toggle(row);
});
$("more-kernels").onclick = () => { sorting.rows += PAGE_ROWS * 5; fillTable(); };
