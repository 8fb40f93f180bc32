
(() => {
  "use strict";
  const LEVELS = 32767;
  const decoded = text => {
    const [scale, body] = text.split(";");
    const bytes = Uint8Array.from(atob(body), letter => letter.charCodeAt(0));
    const levels = new Int16Array(bytes.buffer);
    return Object.assign(Float64Array.from(levels, level => level < -LEVELS ? NaN : level / LEVELS * scale), {scale: +scale});
  };
  const signed = (value, digits = 4) => (value < 0 ? "" : "+") + value.toFixed(digits);
  const largest = values => values.reduce((most, value) => Math.max(most, Math.abs(value) || 0), 0) || 1;

  function live(root) {
    root.dataset.live = "1";
    const relevance = decoded(root.dataset.relevance), bias = decoded(root.dataset.bias), shares = decoded(root.dataset.shares);
    const restName = root.dataset.rest;
    const sides = [...root.querySelectorAll(".text")].map(text => [...text.children]);
    const [n, m] = sides.map(side => side.length);
    const label = (side, place) => sides[side][place].firstChild.nodeValue;
    const value = (i, j) => i === n ? bias[j === m ? n + m : n + j] : j === m ? bias[i] : relevance[i * m + j];
    const biasScale = largest(bias.slice(0, n + m));
    const readout = root.querySelector(".readout"), idle = readout.textContent;
    const table = root.querySelector(".map"), canvas = root.querySelector("canvas");
    const lines = [...root.querySelectorAll(".lines path")];
    const link = (i, j) => lines.forEach(line => line.classList.toggle("off",
      (i !== null && +line.dataset.i !== i) || (j !== null && +line.dataset.j !== j)));
    const map = canvas ? drawn(root, canvas, {n, m, value, label, restName, biasScale, scale: relevance.scale}) : framed(table, n, m);

    const mark = (i, j) => { map.mark(i, j); link(i, j); };
    const paint = (unit, amount, scale) => {
      const share = Math.min(1, Math.abs(amount) / scale) || 0;
      unit.className = (amount < 0 ? "n" : "p") + (share > 0.6 ? " x" : "");
      unit.style.setProperty("--s", share.toFixed(3));
      if (unit.lastChild.nodeName === "SMALL") unit.lastChild.textContent = signed(amount, 3);
    };
    const own = side => sides[side].forEach((unit, place) => paint(unit, shares[side * n + place], shares.scale));
    const bold = text => Object.assign(document.createElement("b"), {textContent: text});
    const name = (side, place) =>
      place === sides[side].length ? restName : Object.assign(document.createElement("bdi"), {textContent: label(side, place)});

    const reveal = unit => {
      const box = unit.parentNode, low = unit.offsetTop, high = low + unit.offsetHeight;
      if (low < box.scrollTop || high > box.scrollTop + box.clientHeight) box.scrollTop = low - box.clientHeight / 2;
    };
    function tellUnit(side, place) {
      const partners = sides[1 - side].map((_, other) => [other, side ? value(other, place) : value(place, other)]);
      partners.sort((a, b) => (Math.abs(b[1]) || 0) - (Math.abs(a[1]) || 0));
      reveal(sides[1 - side][partners[0][0]]);
      const named = partners.slice(0, 3).flatMap(([other, amount], rank) =>
        [rank ? ", " : " Strongest with ", name(1 - side, other), " ", bold(signed(amount))]);
      const apart = side ? value(n, place) : value(place, m);
      readout.replaceChildren(name(side, place), " adds ", bold(signed(shares[side * n + place])),
        ", of which ", bold(signed(apart)), " with the other text's " + restName + ".", ...named, ".");
    }
    function showUnit(side, place) {
      own(side);
      sides[1 - side].forEach((unit, other) =>
        paint(unit, side ? value(other, place) : value(place, other), relevance.scale));
      sides[side][place].classList.add("on");
      tellUnit(side, place);
      mark(side ? null : place, side ? place : null);
    }
    function showPair(i, j) {
      own(0); own(1);
      const named = [...(i < n ? [sides[0][i]] : []), ...(j < m ? [sides[1][j]] : [])];
      named.forEach(unit => { unit.classList.add("on"); reveal(unit); });
      readout.replaceChildren(name(0, i), " × ", name(1, j), " ", bold(signed(value(i, j))));
      mark(i, j);
    }
    let kept = null;
    const rest = () => kept ? kept() : (own(0), own(1), mark(null, null), readout.textContent = idle);

    sides.forEach((side, which) => side.forEach((unit, place) => {
      unit.tabIndex = place ? -1 : 0;
      unit.addEventListener("pointerenter", () => showUnit(which, place));
      unit.addEventListener("pointerleave", rest);
      unit.addEventListener("focus", () => {
        side.forEach(other => other.tabIndex = other === unit ? 0 : -1);
        kept = () => showUnit(which, place);
        kept();
      });
      unit.addEventListener("blur", () => { kept = null; rest(); });
      unit.addEventListener("keydown", event => {
        const turned = getComputedStyle(unit.parentNode).direction === "rtl" ? -1 : 1;
        const moves = {ArrowRight: turned, ArrowLeft: -turned, ArrowDown: 1, ArrowUp: -1,
          Home: -place, End: side.length - 1 - place};
        if (event.key === "Escape") unit.blur();
        if (!(event.key in moves)) return;
        event.preventDefault();
        (side[place + moves[event.key]] || unit).focus();
      });
    }));
    for (const item of root.querySelectorAll(".pairs li")) {
      item.addEventListener("pointerenter", () => showPair(+item.dataset.i, +item.dataset.j));
      item.addEventListener("pointerleave", rest);
    }
    const target = canvas || table;
    const point = event => { const place = map.at(event); place ? showPair(...place) : rest(); };
    target.addEventListener("pointermove", point);
    target.addEventListener("pointerdown", point);
    target.addEventListener("pointerleave", rest);
  }

  function framed(table, n, m) {
    const rows = [...table.rows];
    return {
      at(event) {
        const cell = event.target.closest("td"), i = cell ? cell.parentNode.rowIndex - 1 : -1;
        return i >= 0 && cell.cellIndex ? [i, cell.cellIndex - 1] : null;
      },
      mark(i, j) {
        table.querySelectorAll(".on").forEach(cell => cell.classList.remove("on"));
        if (i !== null) rows[i + 1].cells[0].classList.add("on");
        if (j !== null) rows[0].cells[j + 1].classList.add("on");
        if (i !== null && j !== null) rows[i + 1].cells[j + 1].classList.add("on");
      },
    };
  }

  function drawn(root, canvas, {n, m, value, label, restName, biasScale, scale}) {
    const panel = canvas.parentNode, base = document.createElement("canvas"), GAP = 6, FONT = 10, MARGIN = 96;
    let cell = 1, left = 0, top = 0, thick = 6, marked = [null, null];
    panel.classList.add("long");
    const start = (place, count, edge) => edge + place * cell + (place === count ? GAP : 0);
    const size = (place, count) => place === count ? thick : cell;
    const short = text => text.length > 16 ? text.slice(0, 15) + "…" : text;

    const longest = (side, count) => {
      const pen = base.getContext("2d");
      pen.font = FONT + "px system-ui, sans-serif";
      const widths = Array.from({length: count}, (_, place) => pen.measureText(short(label(side, place))).width);
      return Math.min(MARGIN, Math.ceil(Math.max(24, ...widths)) + 8);
    };

    function names(pen) {
      const every = Math.max(1, Math.ceil((FONT + 1) / cell));
      pen.fillStyle = getComputedStyle(root).getPropertyValue("--soft");
      pen.font = FONT + "px system-ui, sans-serif";
      pen.textBaseline = "middle";
      pen.textAlign = "right";
      for (let i = 0; i < n; i += every) pen.fillText(short(label(0, i)), left - 5, start(i, n, top) + cell / 2);
      pen.fillText(restName, left - 5, start(n, n, top) + thick / 2);
      pen.textAlign = "left";
      const upright = (text, x) => {
        pen.save();
        pen.translate(x, top - 5);
        pen.rotate(-Math.PI / 2);
        pen.fillText(text, 0, 0);
        pen.restore();
      };
      for (let j = 0; j < m; j += every) upright(short(label(1, j)), start(j, m, left) + cell / 2);
      upright(restName, start(m, m, left) + thick / 2);
    }
    function draw() {
      const style = getComputedStyle(root), ratio = window.devicePixelRatio || 1;
      const [red, blue] = ["--red", "--blue"].map(key => style.getPropertyValue(key).trim().split(/\s+/).join(","));
      const room = panel.clientWidth || 700;
      left = Math.min(longest(0, n), room / 4);
      top = longest(1, m);
      cell = Math.max(1, Math.min(14, Math.floor((room - left - GAP - 14) / m)));
      thick = Math.max(cell, 6);
      const wide = start(m, m, left) + thick + 2, high = start(n, n, top) + thick + 2;
      for (const each of [canvas, base]) { each.width = wide * ratio; each.height = high * ratio; }
      canvas.style.width = wide + "px";
      const pen = base.getContext("2d");
      pen.scale(ratio, ratio);
      const inset = cell > 5 ? 1 : 0;
      for (let i = 0; i <= n; i++) for (let j = 0; j <= m; j++) {
        if (i === n && j === m) continue;
        const amount = value(i, j), share = Math.min(1, Math.abs(amount) / (i < n && j < m ? scale : biasScale));
        for (const colour of ["rgba(128,128,128,.06)", `rgba(${amount < 0 ? blue : red},${share || 0})`]) {
          pen.fillStyle = colour;
          pen.fillRect(start(j, m, left), start(i, n, top), size(j, m) - inset, size(i, n) - inset);
        }
      }
      names(pen);
      mark(...marked);
    }
    function mark(i, j) {
      marked = [i, j];
      const pen = canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(base, 0, 0);
      pen.scale(ratio, ratio);
      pen.strokeStyle = getComputedStyle(root).getPropertyValue("--ink");
      const wide = start(m, m, left) + thick - left, high = start(n, n, top) + thick - top;
      if (i !== null) pen.strokeRect(left - 0.5, start(i, n, top) - 0.5, wide, size(i, n) + 0.5);
      if (j !== null) pen.strokeRect(start(j, m, left) - 0.5, top - 0.5, size(j, m) + 0.5, high);
    }
    function at(event) {
      const box = canvas.getBoundingClientRect(), zoom = parseFloat(canvas.style.width) / box.width;
      const place = (distance, count) => {
        const found = Math.floor(distance / cell);
        return found < count ? found : distance >= count * cell + GAP ? count : -1;
      };
      const i = place((event.clientY - box.top) * zoom - top, n), j = place((event.clientX - box.left) * zoom - left, m);
      return i >= 0 && j >= 0 ? [i, j] : null;
    }
    draw();
    new ResizeObserver(() => { if (panel.clientWidth !== panel.drawnAt) { panel.drawnAt = panel.clientWidth; draw(); } })
      .observe(panel);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    return {at, mark};
  }

  document.querySelectorAll(".likewise-explained:not([data-live])").forEach(live);
})();
