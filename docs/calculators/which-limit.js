// Which limit? The roofline model with overhead, on each accelerator of the data-sheet table.
"use strict";

// Seconds by limit; d2lperf.costs.work_times has the same formulas.
d2lperf.workTimes = (flops, bytes, calls, device) => ({
  overhead: calls * device.overhead_s,
  memory: bytes / device.bytes_per_s,
  arithmetic: flops / device.flops_per_s,
});

d2lperf.limitOf = (times) =>
  Object.keys(times).reduce((most, name) => (times[name] > times[most] ? name : most));

d2lperf.drawRoofline = (values, devices, chosen) => {
  const { svg, format } = d2lperf;
  const [width, height, left, right, top, bottom] = [640, 360, 70, 36, 34, 44];
  const intensity = values.flops / values.bytes;
  const ridges = devices.map((d) => d.flops_per_s / d.bytes_per_s);
  const reached = devices.map((d) => values.flops / d.seconds);
  const roofs = devices.map((d) => Math.min(d.flops_per_s, d.bytes_per_s * intensity));
  const decade = (value, round) => 10 ** round(Math.log10(value));
  const xs = [Math.min(intensity, ...ridges) / 4, Math.max(intensity, ...ridges) * 4];
  const [x0, x1] = [decade(xs[0], Math.floor), decade(xs[1], Math.ceil)];
  const y0 = decade(Math.min(...reached, ...roofs) / 2, Math.floor);
  const y1 = decade(Math.max(...devices.map((d) => d.flops_per_s)), Math.ceil);
  const along = (value, from, to) => Math.log(value / from) / Math.log(to / from);
  const x = (value) => left + along(value, x0, x1) * (width - left - right);
  const y = (value) => height - bottom - along(value, y0, y1) * (height - top - bottom);
  const shapes = [];
  const every = (from, to) => Math.max(1, Math.ceil(Math.log10(to / from) / 7));
  const ticks = (from, to) => {
    const marks = [];
    const step = 10 ** every(from, to);
    for (let mark = from; mark <= to * 1.001; mark *= step) marks.push(mark);
    return marks;
  };
  for (const mark of ticks(x0, x1)) {
    shapes.push(svg("line", { x1: x(mark), x2: x(mark), y1: top, y2: height - bottom, class: "grid" }));
    const plain = mark < 1e6 && mark >= 1e-3;
    const text = plain ? Number(mark.toPrecision(1)).toLocaleString("en-US") : mark.toExponential(0);
    shapes.push(svg("text", { x: x(mark), y: height - bottom + 16, class: "middle" }, text));
  }
  for (const mark of ticks(y0, y1)) {
    shapes.push(svg("line", { x1: left, x2: width - right, y1: y(mark), y2: y(mark), class: "grid" }));
    const [number, unit] = format(mark, "FLOP/s").split(" ");
    const rounded = Number(number.replaceAll(",", "")).toLocaleString("en-US");
    const text = `${rounded} ${unit.replace("FLOP/s", "")}`;
    shapes.push(svg("text", { x: left - 6, y: y(mark) + 4, class: "end" }, text));
  }
  shapes.push(svg("text", { x: (left + width) / 2, y: height - 6, class: "middle" }, "FLOPs for each byte"));
  shapes.push(svg("text", { x: 4, y: 16 }, "FLOP/s"));
  const ordered = [...devices].sort((a, b) => (a.name === chosen) - (b.name === chosen));
  for (const device of ordered) {
    const ridge = device.flops_per_s / device.bytes_per_s;
    // The sloped part begins at the left edge, or where it comes into the picture from below.
    const start = Math.max(x0, y0 / device.bytes_per_s);
    const corners = [[start, start * device.bytes_per_s], [ridge, device.flops_per_s], [x1, device.flops_per_s]];
    const points = corners.map(([a, b]) => `${x(a)},${y(b)}`).join(" ");
    shapes.push(svg("polyline", { points, class: device.name === chosen ? "roof chosen" : "roof" }));
  }
  shapes.push(svg("line", { x1: x(intensity), x2: x(intensity), y1: top, y2: height - bottom, class: "mark" }));
  const at = devices.find((d) => d.name === chosen);
  shapes.push(svg("circle", { cx: x(intensity), cy: y(values.flops / at.seconds), r: 6, class: "point" }));
  shapes.push(svg("text", { x: (left + width - right) / 2, y: 16, class: "middle strong" },
    `${chosen}: at most ${format(values.flops / at.seconds, "FLOP/s")}`));
  const label = `Roofline of ${chosen}. The work has ${intensity.toPrecision(3)} FLOPs for each byte, ` +
    `its limit is ${at.limit}.`;
  d2lperf.draw("limit-figure", width, height, label, shapes);
};

d2lperf.showLimits = (values) => {
  const { format } = d2lperf;
  const devices = d2lperf.accelerators.map((sheet) => {
    const device = {
      name: sheet.name,
      flops_per_s: values.format === "8" ? sheet.flops_8 : sheet.flops_16,
      bytes_per_s: sheet.bytes_per_s,
      overhead_s: values.overhead_us / 1e6,
    };
    const times = d2lperf.workTimes(values.flops, values.bytes, values.calls, device);
    return { ...device, times, limit: d2lperf.limitOf(times), seconds: Math.max(...Object.values(times)) };
  });
  d2lperf.rows("limit-rows", devices.map(({ name, times, limit, seconds }) => [
    name, format(times.overhead, "s"), format(times.memory, "s"), format(times.arithmetic, "s"),
    limit, format(seconds, "s"),
  ]), values.device);
  d2lperf.drawRoofline(values, devices, values.device);
};

document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("limit");
  d2lperf.listAccelerators(form.elements.device, "NVIDIA H100 SXM");
  // Before the form's own listener, which reads the fields.
  form.elements.example.addEventListener("input", ({ target }) => {
    const numbers = JSON.parse(target.value);
    for (const [name, value] of Object.entries(numbers)) form.elements[name].value = value;
  });
  d2lperf.calculator("limit", d2lperf.showLimits);
});
