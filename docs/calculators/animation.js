// The ring and the pipeline, turn by turn; a player that one can pause.
"use strict";

// How many summands each chunk of each worker has, before the first turn and after each turn of a
// ring. In turn t worker w sends chunk (w - t) mod n to worker w + 1, as in notebook 09.
d2lperf.ringStates = (n) => {
  const mod = (value) => ((value % n) + n) % n;
  const states = [Array.from({ length: n }, () => Array(n).fill(1))];
  for (let turn = 0; turn < 2 * (n - 1); turn += 1) {
    const before = states[turn];
    const after = before.map((row) => [...row]);
    for (let worker = 0; worker < n; worker += 1) {
      const chunk = mod(worker - turn);
      const sent = before[worker][chunk];
      after[mod(worker + 1)][chunk] = turn < n - 1 ? sent + before[mod(worker + 1)][chunk] : sent;
    }
    states.push(after);
  }
  return states;
};

// Tasks {pass, stage, micro, turn} of a pipeline by the rules of notebook 08c: a stage goes forward
// if it can and fewer than `limit[stage]` micro-batches are open there, else backward.
d2lperf.pipelineTasks = (stages, micro, limit) => {
  const done = new Map();
  const forward = Array(stages).fill(0);
  const backward = Array(stages).fill(0);
  for (let turn = 0; backward[0] < micro; turn += 1) {
    const before = (pass, stage, i) => done.get(`${pass}${stage},${i}`) < turn; // undefined: no
    for (let s = 0; s < stages; s += 1) {
      const [f, b] = [forward[s], backward[s]];
      if (f < micro && f - b < limit[s] && (s === 0 || before("F", s - 1, f))) {
        done.set(`F${s},${f}`, turn);
        forward[s] += 1;
      } else if (b < f && (s === stages - 1 || before("B", s + 1, b))) {
        done.set(`B${s},${b}`, turn);
        backward[s] += 1;
      }
    }
  }
  return [...done].map(([key, turn]) => {
    const [stage, i] = key.slice(1).split(",").map(Number);
    return { pass: key[0], stage, micro: i, turn };
  });
};

// A player: buttons, a slider for the turn and a line of text. `show(values)` returns the number of
// turns, the one to start with, and a function that draws a turn and returns the text for it.
d2lperf.player = (id, show) => {
  const form = document.getElementById(id);
  const { turn, play } = form.elements;
  let clock = null;
  let scene = null;
  const pause = () => {
    clearInterval(clock);
    clock = null;
    play.textContent = "Play";
  };
  const draw = () => {
    form.querySelector("output").textContent = scene.draw(turn.valueAsNumber);
  };
  const go = (step) => {
    turn.value = turn.valueAsNumber + step;
    draw();
    if (turn.value === turn.max) pause();
  };
  const restart = () => {
    pause();
    const values = d2lperf.read(form);
    if (!values) return;
    scene = show(values);
    turn.max = scene.turns;
    turn.value = scene.start;
    draw();
  };
  play.addEventListener("click", () => {
    if (clock !== null) return pause();
    if (turn.value === turn.max) turn.value = 0;
    play.textContent = "Pause";
    clock = setInterval(() => go(1), 900);
    return draw();
  });
  form.elements.back.addEventListener("click", () => { pause(); go(-1); });
  form.elements.forward.addEventListener("click", () => { pause(); go(1); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => (target === turn ? (pause(), draw()) : restart()));
  restart();
};

d2lperf.ringScene = ({ workers: n }) => {
  const states = d2lperf.ringStates(n);
  const draw = (turn) => {
    const [cell, left, top] = [46, 90, 30];
    const shapes = states[turn].flatMap((row, worker) => row.flatMap((count, chunk) => {
      const [x, y] = [left + chunk * cell, top + worker * cell];
      const arrived = turn > 0 && (worker - 1 - (turn - 1) - chunk) % n === 0;
      const kind = count === n ? "cell full" : "cell";
      const size = { width: cell - 4, height: cell - 4, class: arrived ? `${kind} arrived` : kind };
      const name = count === n ? "middle on-full" : "middle";
      return [
        d2lperf.svg("rect", { x, y, ...size }),
        d2lperf.svg("text", { x: x + 21, y: y + 26, class: name }, `${count}/${n}`),
      ];
    }));
    for (let i = 0; i < n; i += 1) {
      shapes.push(d2lperf.svg("text", { x: left - 8, y: top + i * cell + 26, class: "end" }, `worker ${i}`));
      shapes.push(d2lperf.svg("text", { x: left + i * cell + 21, y: top - 10, class: "middle" }, `${i}`));
    }
    const adding = "reduce-scatter: each worker adds the chunk that arrives";
    const half = turn < n ? adding : "all-gather: finished chunks go round";
    const before = "Before the first turn, each worker has its own data.";
    const text = turn ? `Turn ${turn} of ${2 * (n - 1)}, ${half}.` : before;
    d2lperf.draw("ring-figure", left + n * cell, top + n * cell, text, shapes);
    return text;
  };
  return { turns: 2 * (n - 1), start: 0, draw };
};

d2lperf.pipelineScene = ({ stages, micro, schedule }) => {
  const limit = Array.from({ length: stages }, (_, s) => (schedule === "GPipe" ? micro : stages - s));
  const tasks = d2lperf.pipelineTasks(stages, micro, limit);
  const turns = Math.max(...tasks.map((task) => task.turn)) + 1;
  const idle = d2lperf.percent(1 - tasks.length / (turns * stages));
  const draw = (turn) => {
    const [width, height, left] = [Math.min(30, 700 / turns), 36, 70];
    const shapes = tasks.filter((task) => task.turn < turn).flatMap((task) => {
      const [x, y] = [left + task.turn * width, task.stage * height];
      const kind = task.pass === "F" ? "part-compute" : "part-communicate";
      return [
        d2lperf.svg("rect", { x, y, width: width - 2, height: height - 4, class: kind }),
        d2lperf.svg("text", { x: x + width / 2 - 1, y: y + 21, class: "middle on-part" }, task.micro),
      ];
    });
    for (let s = 0; s < stages; s += 1) {
      const place = { x: left - 8, y: s * height + 21, class: "end" };
      shapes.push(d2lperf.svg("text", place, `stage ${s}`));
    }
    const first = tasks.filter((t) => t.stage === 0 && t.turn < turn);
    const open = first.reduce((n, t) => n + (t.pass === "F" ? 1 : -1), 0);
    const text = `Turn ${turn} of ${turns}; open on stage 0: ${open}; idle over the whole step: ${idle}.`;
    d2lperf.draw("pipeline-figure", left + turns * width, stages * height, text, shapes);
    return text;
  };
  return { turns, start: turns, draw };
};

document.addEventListener("DOMContentLoaded", () => {
  d2lperf.player("ring", d2lperf.ringScene);
  d2lperf.player("pipeline", d2lperf.pipelineScene);
});
