'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const canvas = document.getElementById('timeline'), status = document.getElementById('where');
const search = document.getElementById('search'), found = document.getElementById('found');
const LABEL = 150, ROW = 17;
// Lanes are as high as their slices are deep.
const inner = data.threads.map(thread => Math.max(1, ...thread.merged.map((bins, depth) => bins.length ? depth + 1 : 0)));
for (const [, , , own, depth] of data.slices) inner[own] = Math.max(inner[own], depth + 1);
const tops = [0];
inner.forEach((rows, lane) => tops.push(tops[lane] + 18 + rows * ROW));
let from = 0, to = data.duration_ns || 1;
const span = ns => ns < 1e3 ? ns.toFixed(0) + ' ns' : ns < 1e6 ? (ns / 1e3).toFixed(2) + ' µs' : ns < 1e9 ? (ns / 1e6).toFixed(2) + ' ms' : (ns / 1e9).toFixed(3) + ' s';
const wanted = name => !search.value || name.toLowerCase().includes(search.value.toLowerCase());

function draw() {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = tops.at(-1) + 18;
  canvas.style.height = height + 'px'; canvas.width = width * scale; canvas.height = height * scale;
  const g = canvas.getContext('2d'); g.scale(scale, scale); g.font = '12px system-ui, sans-serif';
  const style = getComputedStyle(document.body), ink = style.color, root = getComputedStyle(document.documentElement);
  const x = t => LABEL + (t - from) / (to - from) * (width - LABEL);
  const bin = data.duration_ns / data.bins || 1;
  data.threads.forEach((thread, lane) => {
    const y = tops[lane], high = tops[lane + 1] - y, events = y + high - 13, most = Math.max(1, ...thread.events);
    g.fillStyle = ink; g.fillText(thread.name.slice(0, 22), 4, y + 20, LABEL - 8);
    g.save(); g.beginPath(); g.rect(LABEL, y, width - LABEL, high); g.clip();
    thread.events.forEach((count, i) => {
      if (!count || (i + 1) * bin < from || i * bin > to) return;
      g.fillStyle = root.getPropertyValue('--bar'); g.globalAlpha = .25 + .75 * count / most;
      g.fillRect(x(i * bin), events, Math.max(1, x((i + 1) * bin) - x(i * bin)), 9);
    });
    thread.merged.forEach((bins, depth) => bins.forEach(([i, share]) => {
      if ((i + 1) * bin < from || i * bin > to) return;
      g.fillStyle = ink; g.globalAlpha = .15 + .45 * share;
      g.fillRect(x(i * bin), y + 3 + depth * ROW, Math.max(1, x((i + 1) * bin) - x(i * bin)), ROW - 1);
    }));
    g.globalAlpha = 1;
    data.slices.forEach(([at, duration, name, own, depth]) => {
      if (own !== lane || at > to || at + duration < from) return;
      const left = x(at), size = Math.max(1, x(at + duration) - left);
      g.globalAlpha = wanted(data.names[name]) ? 1 : .12; g.fillStyle = `hsl(${name * 67 % 360} 55% 50%)`;
      const top = y + 3 + depth * ROW; g.fillRect(left, top, size, ROW - 1);
      if (size > 60) { g.fillStyle = '#fff'; g.fillText(data.names[name], left + 3, top + 12, size - 6); }
    });
    g.restore(); g.globalAlpha = 1;
  });
  g.fillStyle = ink;
  for (let i = 0; i <= 4; i++) {
    const t = from + (to - from) * i / 4;
    g.textAlign = i === 4 ? 'right' : 'left'; g.fillText('+' + span(t), x(t), height - 5);
  }
  status.textContent = `+${span(from)} to +${span(to)}`;
}
function zoom(factor, at = (from + to) / 2) {
  const whole = data.duration_ns || 1, size = Math.min(whole, Math.max(100, (to - from) * factor)), share = (at - from) / (to - from);
  from = Math.min(Math.max(0, at - size * share), whole - size); to = from + size; draw();
}
function pan(share) {
  const size = to - from; from = Math.min(Math.max(0, from + size * share), (data.duration_ns || 1) - size); to = from + size; draw();
}
const reset = () => { from = 0; to = data.duration_ns || 1; draw(); };
const keys = { '+': () => zoom(.5), '=': () => zoom(.5), '-': () => zoom(2), ArrowLeft: () => pan(-.25), ArrowRight: () => pan(.25), '0': reset, Home: reset };
canvas.addEventListener('keydown', event => { const key = keys[event.key]; if (key) { key(); event.preventDefault(); } });
canvas.addEventListener('wheel', event => {
  const box = canvas.getBoundingClientRect(), share = (event.clientX - box.left - LABEL) / (box.width - LABEL);
  if (event.ctrlKey && share > 0) { zoom(event.deltaY > 0 ? 1.25 : .8, from + (to - from) * share); event.preventDefault(); }
}, { passive: false });
for (const [id, act] of [['in', () => zoom(.5)], ['out', () => zoom(2)], ['left', () => pan(-.25)], ['right', () => pan(.25)], ['all', reset]])
  document.getElementById(id).addEventListener('click', act);
search.addEventListener('input', () => {
  draw();
  const rows = search.value ? data.slices.filter(slice => wanted(data.names[slice[2]])).slice(0, 20) : [];
  found.replaceChildren(...rows.map(([at, duration, name, own]) => {
    const item = document.createElement('li'), button = document.createElement('button');
    button.textContent = `${data.names[name]}, ${span(duration)}, ${data.threads[own].name}, at +${span(at)}`;
    button.addEventListener('click', () => { from = Math.max(0, at - duration); to = Math.min(data.duration_ns, at + 2 * duration); draw(); canvas.focus(); });
    item.append(button); return item;
  }));
});
new ResizeObserver(draw).observe(document.getElementById('frame'));
draw();
