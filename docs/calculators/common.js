// What the three calculators share: numbers as text, fields of a form, and drawing.
"use strict";
window.d2lperf = window.d2lperf || {};

// ------------------------------------------------------------------------------------ numbers

d2lperf.PREFIXES = {
  s: [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]],
  other: [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]],
};

// Three significant digits with a prefix of powers of 1000, as the package writes them.
d2lperf.format = (value, unit) => {
  if (value === 0 || !Number.isFinite(value)) return `${value} ${unit}`;
  const prefixes = d2lperf.PREFIXES[unit] || d2lperf.PREFIXES.other;
  const fits = ([size]) => Math.abs(value) >= 0.9995 * size;
  const [size, prefix] = prefixes.find(fits) || prefixes[prefixes.length - 1];
  const scaled = value / size;
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(scaled) * 1.0005)));
  const text = scaled.toLocaleString("en-US", {
    minimumFractionDigits: Math.min(digits, 20),
    maximumFractionDigits: Math.min(digits, 20),
  });
  return `${text} ${prefix}${unit}`;
};

d2lperf.percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

// -------------------------------------------------------------------------------------- forms

// The values of a form by name: numbers for number fields, texts for lists. Where a field is
// invalid, the browser's own message is shown in the form's message line, and null is returned.
d2lperf.read = (form) => {
  const message = form.querySelector("[role=alert]");
  const values = {};
  message.textContent = "";
  for (const field of form.querySelectorAll("input, select")) {
    const wrong = !field.checkValidity();
    field.setAttribute("aria-invalid", wrong);
    if (wrong) {
      message.textContent = `${field.labels[0].textContent.trim()}: ${field.validationMessage}`;
      return null;
    }
    values[field.name] = field.type === "number" ? field.valueAsNumber : field.value;
  }
  return values;
};

// Show the result of a form now and after each change.
d2lperf.calculator = (id, show) => {
  const form = document.getElementById(id);
  const update = () => {
    const values = d2lperf.read(form);
    if (values) show(values);
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", update);
  update();
};

// Fill a list with the accelerators of the data-sheet table.
d2lperf.listAccelerators = (select, chosen) => {
  for (const { name } of d2lperf.accelerators) {
    select.add(new Option(name, name, name === chosen, name === chosen));
  }
};

// ------------------------------------------------------------------------------------ drawing

d2lperf.svg = (tag, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
};

// Replace a figure: a list of shapes, and what it shows in words.
d2lperf.draw = (id, width, height, label, shapes) => {
  const picture = d2lperf.svg("svg", {
    viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label,
  });
  picture.append(...shapes);
  document.getElementById(id).replaceChildren(picture);
};

// Replace the rows of a table; the first cell of a row is its heading. `chosen` is one row's name.
d2lperf.rows = (id, rows, chosen) => {
  const lines = rows.map((cells) => {
    const line = document.createElement("tr");
    if (cells[0] === chosen) line.className = "chosen";
    line.append(...cells.map((text, i) => {
      const cell = document.createElement(i ? "td" : "th");
      if (!i) cell.scope = "row";
      cell.textContent = text;
      return cell;
    }));
    return line;
  });
  document.getElementById(id).replaceChildren(...lines);
};
