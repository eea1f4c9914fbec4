// What fits? Bytes on each device in a training step, by part, for each stage of ZeRO.
"use strict";

// Bytes of a weight, its gradient, the optimizer's copy of the weight, and a kept number.
d2lperf.PRECISIONS = {
  float32: [4, 4, 0, 4],
  autocast: [4 + 2, 4, 0, 2],
  "16 bit": [2, 2, 4, 2],
};
d2lperf.AVERAGES = { sgd: 0, momentum: 1, adam: 2 };

// Bytes on each device by part; d2lperf.costs.training_bytes has the same formulas.
d2lperf.trainingBytes = ({ parameters, optimizer, precision, batch, kept, stage, devices }) => {
  const [weight, gradient, copy, number] = d2lperf.PRECISIONS[precision];
  const share = (fromStage) => (stage >= fromStage ? devices : 1);
  return {
    weights: (parameters * weight) / share(3),
    gradients: (parameters * gradient) / share(2),
    optimizer: (parameters * (copy + 4 * d2lperf.AVERAGES[optimizer])) / share(1),
    activations: batch * kept * number,
  };
};

d2lperf.total = (parts) => Object.values(parts).reduce((sum, bytes) => sum + bytes, 0);

d2lperf.STAGES = ["DDP", "ZeRO 1", "ZeRO 2", "ZeRO 3, FSDP2"];

d2lperf.drawMemory = (stages, chosen, card) => {
  const { svg, format, total } = d2lperf;
  const [width, left, right, bar, gap, top] = [640, 130, 80, 30, 16, 56];
  const longest = Math.max(card.memory * 1.15, ...stages.map(total));
  const x = (bytes) => left + (bytes / longest) * (width - left - right);
  const height = top + stages.length * (bar + gap) + 8;
  const at = x(card.memory);
  const [shapes, texts] = [[], []];
  Object.keys(stages[0]).forEach((part, i) => {
    shapes.push(svg("rect", { x: left + 125 * i, y: 4, width: 14, height: 14, class: `part-${part}` }));
    shapes.push(svg("text", { x: left + 125 * i + 20, y: 16 }, part));
  });
  stages.forEach((parts, stage) => {
    const y = top + stage * (bar + gap);
    const name = stage === chosen ? "strong end" : "end";
    shapes.push(svg("text", { x: left - 8, y: y + 20, class: name }, d2lperf.STAGES[stage]));
    let before = 0;
    for (const [part, bytes] of Object.entries(parts)) {
      const size = { x: x(before), y, width: x(before + bytes) - x(before), height: bar };
      shapes.push(svg("rect", { ...size, class: `part-${part}` }));
      before += bytes;
    }
    const fits = before <= card.memory ? "" : "strong";
    const from = x(before) + 6; // after the card's line, where it would cross the number
    const place = from < at && at < from + 60 ? at + 6 : from;
    texts.push(svg("text", { x: place, y: y + 20, class: fits }, format(before, "B")));
  });
  shapes.push(svg("line", { x1: at, x2: at, y1: top - 8, y2: height, class: "mark" }));
  const anchor = at > width / 2 ? "end" : "";
  texts.push(svg("text", { x: at, y: top - 14, class: anchor }, `${card.name}: ${format(card.memory, "B")}`));
  const words = stages.map((parts, i) => `${d2lperf.STAGES[i]} ${format(total(parts), "B")}`);
  const label = `Bytes on each device: ${words.join(", ")}; the card has ${format(card.memory, "B")}.`;
  d2lperf.draw("fits-figure", width, height, label, [...shapes, ...texts]);
};

d2lperf.showMemory = (values) => {
  const { format, total } = d2lperf;
  const stage = Number(values.stage);
  const stages = d2lperf.STAGES.map((_, i) => d2lperf.trainingBytes({ ...values, stage: i }));
  const card = d2lperf.accelerators.find(({ name }) => name === values.card);
  const parts = stages[stage];
  const all = total(parts);
  const rows = Object.entries(parts).map(([part, bytes]) => [
    part, format(bytes, "B"), d2lperf.percent(bytes / all),
  ]);
  rows.push(["together", format(all, "B"), "100 %"]);
  d2lperf.rows("fits-rows", rows, "together");
  const state = all - parts.activations;
  const batch = Math.floor((card.memory - state) / (parts.activations / values.batch));
  const verdict = all <= card.memory ? "It fits" : "It does not fit";
  let text = `${verdict}: ${format(all, "B")} of ${format(card.memory, "B")}.`;
  if (state > card.memory) text += " No batch fits beside the state.";
  else if (parts.activations > 0 && batch < 1) text += " Not even one example fits beside the state.";
  else if (parts.activations > 0) text += ` At most ${batch.toLocaleString("en-US")} examples fit on each device.`;
  document.getElementById("fits-verdict").textContent = text;
  d2lperf.drawMemory(stages, stage, card);
};

document.addEventListener("DOMContentLoaded", () => {
  d2lperf.listAccelerators(document.getElementById("fits").elements.card, "NVIDIA H100 SXM");
  d2lperf.calculator("fits", d2lperf.showMemory);
});
