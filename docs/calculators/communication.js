// What does communication cost? The model with three numbers of notebook 09.
"use strict";

// The longest chain of messages, the busiest worker's messages, and its bytes relative to the data;
// d2lperf.costs has the same.
d2lperf.WAYS = {
  "one server": (n) => [2, 2 * (n - 1), 2 * (n - 1)],
  "every worker serves": (n) => [2, 2 * (n - 1), (2 * (n - 1)) / n],
  ring: (n) => [2 * (n - 1), 2 * (n - 1), (2 * (n - 1)) / n],
  "halving and doubling": (n) => {
    const levels = 2 * Math.ceil(Math.log2(n));
    return [levels, levels, (2 * (n - 1)) / n];
  },
};

d2lperf.allReduceSeconds = (way, workers, nbytes, latency_s, message_s, bytes_per_s) => {
  const [chain, messages, share] = d2lperf.WAYS[way](workers);
  return chain * latency_s + messages * message_s + (share * nbytes) / bytes_per_s;
};

d2lperf.communicationShare = (compute_s, communication_s) =>
  communication_s / (compute_s + communication_s);

d2lperf.drawSteps = (compute_s, seconds) => {
  const { svg, format } = d2lperf;
  const [width, left, right, bar, gap, top] = [640, 160, 80, 30, 16, 34];
  const longest = compute_s + Math.max(...Object.values(seconds));
  const x = (time) => left + (time / longest) * (width - left - right);
  const shapes = ["compute", "communicate"].flatMap((part, i) => [
    svg("rect", { x: left + 130 * i, y: 4, width: 14, height: 14, class: `part-${part}` }),
    svg("text", { x: left + 130 * i + 20, y: 16 }, part),
  ]);
  Object.entries(seconds).forEach(([way, time], i) => {
    const y = top + i * (bar + gap);
    shapes.push(
      svg("text", { x: left - 8, y: y + 20, class: "end" }, way),
      svg("rect", { x: left, y, width: x(compute_s) - left, height: bar, class: "part-compute" }),
      svg("rect", {
        x: x(compute_s), y, width: x(compute_s + time) - x(compute_s), height: bar,
        class: "part-communicate",
      }),
      svg("text", { x: x(compute_s + time) + 6, y: y + 20 }, format(compute_s + time, "s")),
    );
  });
  const words = Object.entries(seconds).map(([way, time]) => `${way} ${format(compute_s + time, "s")}`);
  const height = top + Object.keys(seconds).length * (bar + gap);
  d2lperf.draw("communication-figure", width, height, `Time of a step: ${words.join(", ")}.`, shapes);
};

d2lperf.showCommunication = (values) => {
  const { format } = d2lperf;
  const compute_s = values.compute_ms / 1e3;
  const seconds = {};
  const rows = Object.keys(d2lperf.WAYS).map((way) => {
    const [chain, messages, share] = d2lperf.WAYS[way](values.workers);
    seconds[way] = d2lperf.allReduceSeconds(
      way, values.workers, values.megabytes * 1e6, values.latency_us / 1e6, values.message_us / 1e6,
      values.gigabytes_per_s * 1e9,
    );
    return [
      way, chain.toLocaleString("en-US"), messages.toLocaleString("en-US"), share.toPrecision(3), format(seconds[way], "s"),
      d2lperf.percent(d2lperf.communicationShare(compute_s, seconds[way])),
    ];
  });
  const fastest = Object.keys(seconds).reduce((a, b) => (seconds[b] < seconds[a] ? b : a));
  d2lperf.rows("communication-rows", rows, fastest);
  d2lperf.drawSteps(compute_s, seconds);
};

document.addEventListener("DOMContentLoaded", () => {
  d2lperf.calculator("communication", d2lperf.showCommunication);
});
