// The session player: steps through one conversation that the server has prepared whole.
//
// Nothing is decided or priced here. `data` holds every figure of every turn; this file only
// looks up, adds up what was charged so far, and draws. No request is made.

const SVG = "http://www.w3.org/2000/svg";
const SIDES = ["a", "b"];
const NARROW_SPACE = "\u202f";
const PAGE_TURNS = 10; // turns that Page Up and Page Down go
const SHORT_TABLE = 8; // candidates shown before all are asked for
const THINNEST_PX = 2.2;
const THICKEST_PX = 13;
const BEND = 0.22; // how far an arc leaves the straight line, as a share of its length
const HEADROOM_DEGREES = 12;
const APART_PX = 56; // a user in a city with a site is drawn this far from it
const PLAY = "M3 1v12l9-6z";
const PAUSE = "M2 1h3v12H2zM9 1h3v12H9z";
const STRIP_PX = 116;
const STRIP_MIDDLE = 14; // height of the band between the two rows of bars

// Where each conversation was left, for as long as the browser tab lives.
const memory = new Map();

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".player");
  if (!root || !data) return undefined;
  root.player?.stop();
  root.player = new Player(root, unpack(data));
  return () => root.player.stop(true);
}

/** Header and columns of the message: its length, JSON, and typed arrays on 8-byte bounds. */
function unpack(bytes) {
  const buffer = bytes.slice().buffer;
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const kinds = { f4: Float32Array, f8: Float64Array, i4: Int32Array, u1: Uint8Array };
  const columns = {};
  for (const [name, [kind, offset, size]] of Object.entries(header.columns)) {
    columns[name] = new kinds[kind](buffer, 8 + header.start + offset, size);
  }
  return { ...header, columns };
}

// --- figures in words, as the server writes them ---------------------------------------------

function number(value, decimals = 0) {
  if (!Number.isFinite(value)) return "n/a";
  const text = Math.abs(value).toLocaleString("en-US", {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });
  return value < 0 && /[1-9]/.test(text) ? "\u2212" + text : text;
}

function significant(value) {
  if (!Number.isFinite(value)) return "n/a";
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  let decimals = Math.min(2 - magnitude, 3);
  if (Math.abs(value) < 0.0005) decimals = -magnitude;
  return number(value, Math.max(decimals, 0));
}

function duration(ms) {
  return Math.abs(ms) >= 1000
    ? `${significant(ms / 1000)}${NARROW_SPACE}s`
    : `${number(ms)}${NARROW_SPACE}ms`;
}

function mass(scale, grams, withUnit = true) {
  const text = significant(grams * scale.factor);
  return withUnit && text !== "n/a" ? `${text}${NARROW_SPACE}${scale.unit}` : text;
}

// --- small helpers ---------------------------------------------------------------------------

function element(tag, attributes = {}, text) {
  const made = tag.startsWith("svg:")
    ? document.createElementNS(SVG, tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function place(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
}

function mercator(latitude) {
  const held = Math.min(Math.max(latitude, -84), 84);
  return (Math.log(Math.tan(Math.PI / 4 + (held * Math.PI) / 360)) * 180) / Math.PI;
}

/** A bent line between two points, and its middle with the direction there. */
function arc([x0, y0], [x1, y1], bend) {
  const cx = (x0 + x1) / 2 + 2 * bend * (y1 - y0);
  const cy = (y0 + y1) / 2 - 2 * bend * (x1 - x0);
  return {
    path: `M${x0.toFixed(1)} ${y0.toFixed(1)}Q${cx.toFixed(1)} ${cy.toFixed(1)} ${x1.toFixed(1)} ${y1.toFixed(1)}`,
    middle: [(x0 + 2 * cx + x1) / 4, (y0 + 2 * cy + y1) / 4],
    angle: (Math.atan2(y1 - y0, x1 - x0) * 180) / Math.PI,
  };
}

function isDark(colour) {
  const parts = /^#(..)(..)(..)/.exec(colour.trim());
  if (!parts) return false;
  const [red, green, blue] = parts.slice(1).map((part) => parseInt(part, 16));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 128;
}

class Player {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.kept = memory.get(data.key) ?? { turn: 0, side: 0, all: false };
    memory.set(data.key, this.kept);
    this.rate = memory.get("rate") ?? 4;
    this.find = (selector) => root.querySelector(selector);
    this.abort = new AbortController();
    this.prepare();
    this.paint();
    this.fill();
    this.listen();
    this.resize();
    if (this.kept.playing) this.play();
    root.dataset.ready = data.key;
  }

  /** The turn shown, counted from 0 among those that are here. */
  get turn() {
    return this.kept.turn;
  }

  /** The same as it is called: counted from 1 in the whole conversation. */
  get shownTurn() {
    return this.data.before + this.kept.turn + 1;
  }

  of(name, side) {
    return this.data.columns[`${SIDES[side]}_${name}`];
  }

  /** Figures that all turns need: sums so far, longest bars, who moved how often. */
  prepare() {
    const { data } = this;
    this.kept.turn = Math.min(this.kept.turn, data.turns - 1);
    this.soFar = [0, 1].map((side) => {
      let sum = data.carbonBefore[side];
      return Float64Array.from(this.of("carbon", side), (grams) => (sum += grams));
    });
    this.total = data.carbonInAll;
    this.largest = Math.max(...[0, 1].map((side) => this.of("carbon", side).reduce((a, b) => Math.max(a, b), 0)));
    this.mostRecomputed = Math.max(
      1,
      ...[0, 1].map((side) => this.of("recomputed", side).reduce((a, b) => Math.max(a, b), 0)),
    );
  }

  stop(forGood = false) {
    this.abort.abort();
    this.sized?.disconnect();
    clearTimeout(this.timer);
    if (forGood) this.kept.playing = false;
  }

  // --- what does not change from turn to turn --------------------------------------------------

  /** Colours of the theme that is shown now. */
  paint() {
    const { data, root } = this;
    const style = getComputedStyle(root);
    const dark = isDark(style.getPropertyValue("--st-background-color"));
    this.colours = dark ? data.dark : data.light;
    const variables = {
      "--a": this.colours.policies[0],
      "--b": this.colours.policies[1],
      "--sea": this.colours.sea,
      "--land": this.colours.land,
      "--coast": this.colours.coast,
      "--halo": this.colours.land,
      ...Object.fromEntries(data.parts.map((_, i) => [`--part-${i}`, this.colours.parts[i]])),
    };
    for (const [name, value] of Object.entries(variables)) root.style.setProperty(name, value);
    root.classList.toggle("present", data.present);
    this.find(".scale").style.background = `linear-gradient(90deg, ${data.intensity.colours
      .map((rgb) => `rgb(${rgb})`)
      .join(", ")})`;
  }

  fill() {
    const { data } = this;
    SIDES.forEach((side, i) => {
      this.find(`.lane-${side} b`).textContent = data.policies[i].name;
      this.find(`.lane-${side} b`).title = data.policies[i].name;
    });
    const input = this.find(".jump input");
    input.min = data.before + 1;
    input.max = data.before + data.turns;
    this.find(".jump span").textContent = `of ${number(data.turnsInAll)}`;
    this.find(".speed select").value = String(this.rate);
    this.find(".scale-ends").textContent =
      `${data.intensity.low} to ${data.intensity.high}+ gCO2e/kWh at this hour`;
    this.find(".strip-note").textContent =
      `${data.policies[0].name} above, ${data.policies[1].name} below; height: carbon of the turn, up to ` +
      `${mass(data.turnMass, this.largest)} CO2e. Triangles: moves. Click to go there; keys: arrows, Home, End, space, M.`;
    this.find(".parts-key").replaceChildren(
      ...data.parts.map((part, i) => {
        const item = element("span", { class: "key" });
        item.append(element("i", { class: `swatch part-${i}` }), part.name);
        return item;
      }),
    );
    this.deploymentColours();
    this.candidateHead();
    this.showPlaying();
  }

  /** The deployments most used get a colour of their own. */
  deploymentColours() {
    const { data } = this;
    const uses = new Map();
    for (const side of [0, 1]) {
      for (const d of this.of("deployment", side)) if (d >= 0) uses.set(d, (uses.get(d) ?? 0) + 1);
    }
    const order = [...uses.keys()].sort((a, b) => uses.get(b) - uses.get(a) || a - b);
    const colours = this.colours.deployments;
    this.colourOf = new Map(
      order.map((d, i) => [d, i < colours.length ? colours[i] : this.colours.other]),
    );
    const key = this.find(".strip-key");
    key.replaceChildren();
    for (const d of order.slice(0, colours.length)) {
      const item = element("span", { class: "key" });
      const swatch = element("i", { class: "swatch" });
      swatch.style.background = this.colourOf.get(d);
      item.append(swatch, data.deployments.label[d]);
      key.append(item);
    }
    if (order.length > colours.length) {
      const item = element("span", { class: "key" });
      const swatch = element("i", { class: "swatch" });
      swatch.style.background = this.colours.other;
      item.append(swatch, `${order.length - colours.length} others`);
      key.append(item);
    }
  }

  candidateHead() {
    const { data } = this;
    const unit = data.turnMass.unit;
    const columns = [
      ["Candidate", ""],
      ["Feasible?", ""],
      ["Cached", "tokens"],
      ["Recompute", unit],
      ["New prompt", unit],
      ["Answer", unit],
      ["Host", unit],
    ];
    if (data.embodied) columns.push(["Embodied", unit]);
    columns.push(["Total", unit]);
    if (data.policies[this.kept.side].ahead) columns.push(["Later", "expected"]);
    columns.push(["First token", ""], ["Quality", ""]);
    const row = this.find("thead tr");
    row.replaceChildren(
      ...columns.map(([name, of]) => {
        const cell = element("th", { scope: "col" }, name);
        if (of) cell.append(element("small", {}, of));
        return cell;
      }),
    );
    const buttons = data.policies.map((policy, i) => {
      const button = element("button", { type: "button" }, policy.name);
      button.setAttribute("aria-pressed", String(this.kept.side === i));
      button.style.borderBottom = `3px solid ${this.colours.policies[i]}`;
      button.addEventListener("click", () => {
        this.kept.side = i;
        this.candidateHead();
        this.showCandidates();
      });
      return button;
    });
    this.find(".switch").replaceChildren(...buttons);
  }

  // --- keys and pointers -----------------------------------------------------------------------

  listen() {
    const { signal } = this.abort;
    const on = (node, event, act) => node.addEventListener(event, act, { signal });
    const actions = {
      first: () => this.go(0),
      back: () => this.go(this.turn - 1),
      play: () => (this.kept.playing ? this.pause() : this.play(true)),
      next: () => this.go(this.turn + 1),
      last: () => this.go(this.data.turns - 1),
      move: () => this.go(this.nextMove()),
      all: () => {
        this.kept.all = !this.kept.all;
        this.showCandidates();
      },
    };
    for (const button of this.root.querySelectorAll("[data-do]")) {
      on(button, "click", () => {
        if (button.dataset.do !== "play" && button.dataset.do !== "all") this.pause();
        actions[button.dataset.do]();
      });
    }
    const keys = {
      ArrowLeft: actions.back,
      ArrowRight: actions.next,
      ArrowDown: actions.back,
      ArrowUp: actions.next,
      Home: actions.first,
      End: actions.last,
      PageUp: () => this.go(this.turn - PAGE_TURNS),
      PageDown: () => this.go(this.turn + PAGE_TURNS),
      " ": actions.play,
      m: actions.move,
    };
    const canvas = this.find("canvas");
    on(this.root, "keydown", (event) => {
      const target = event.composedPath()[0];
      const own = target.closest?.("input, select, .scroll");
      const pressed = event.key === " " && target.closest?.("button");
      const vertical = /^Arrow(Up|Down)$/.test(event.key) && target !== canvas;
      if (own || pressed || vertical || event.ctrlKey || event.metaKey || event.altKey) return;
      const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!act) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.key !== " ") this.pause();
      act();
    });
    const input = this.find(".jump input");
    on(input, "change", () => {
      this.pause();
      const wanted = Number(input.value);
      const turn = Math.round(wanted) - 1 - this.data.before;
      this.go(Number.isFinite(wanted) && input.value !== "" ? turn : this.turn);
    });
    on(this.find(".speed select"), "change", (event) => {
      this.rate = Number(event.target.value);
      memory.set("rate", this.rate);
    });
    const toTurn = (event) => {
      const box = canvas.getBoundingClientRect();
      this.go(Math.floor(((event.clientX - box.left) / box.width) * this.data.turns));
    };
    on(canvas, "pointerdown", (event) => {
      this.pause();
      canvas.setPointerCapture(event.pointerId);
      toTurn(event);
    });
    on(canvas, "pointermove", (event) => {
      if (canvas.hasPointerCapture(event.pointerId)) toTurn(event);
    });
    this.sized = new ResizeObserver(() => this.resize());
    this.sized.observe(this.root);
  }

  nextMove() {
    const moved = [this.of("moved_from", 0), this.of("moved_from", 1)];
    for (let turn = this.turn + 1; turn < this.data.turns; turn++) {
      if (moved[0][turn] >= 0 || moved[1][turn] >= 0) return turn;
    }
    return this.data.turns - 1;
  }

  go(turn) {
    this.kept.turn = Math.min(Math.max(turn, 0), this.data.turns - 1);
    this.show();
  }

  play(fromButton = false) {
    if (fromButton && this.turn === this.data.turns - 1) this.kept.turn = 0;
    this.kept.playing = true;
    this.showPlaying();
    this.show();
    clearTimeout(this.timer);
    let due = performance.now();
    const step = () => {
      if (this.turn >= this.data.turns - 1) {
        this.pause();
        return;
      }
      this.go(this.turn + 1);
      due = Math.max(due + 1000 / this.rate, performance.now());
      this.timer = setTimeout(step, due - performance.now());
    };
    this.timer = setTimeout(step, 1000 / this.rate);
  }

  pause() {
    if (!this.kept.playing) return;
    clearTimeout(this.timer);
    this.kept.playing = false;
    this.showPlaying();
    this.speak();
  }

  showPlaying() {
    const button = this.find("[data-do=play]");
    button.querySelector("path").setAttribute("d", this.kept.playing ? PAUSE : PLAY);
    button.querySelector("span").textContent = this.kept.playing ? "Pause" : "Play";
    button.setAttribute("aria-label", this.kept.playing ? "Pause" : "Play");
  }

  // --- one turn ----------------------------------------------------------------------------------

  show() {
    this.showRace();
    this.showMap();
    SIDES.forEach((_, side) => this.showCard(side));
    this.showCursor();
    this.showCandidates();
    const { data, turn } = this;
    const input = this.find(".jump input");
    if (input.getRootNode().activeElement !== input) input.value = String(this.shownTurn);
    this.find(".when").textContent = data.when[turn];
    this.root.dataset.turn = String(this.shownTurn);
    if (!this.kept.playing) this.speak();
  }

  speak() {
    const { data, turn } = this;
    this.find(".spoken").textContent =
      `Turn ${this.shownTurn} of ${data.turnsInAll}. ` +
      data.policies.map((policy) => `${policy.name}: ${policy.verdict[turn]}.`).join(" ");
  }

  showRace() {
    const { data, turn } = this;
    const longest = Math.max(...this.total) || 1;
    const now = this.soFar.map((sums) => sums[turn]);
    SIDES.forEach((side, i) => {
      const lane = this.find(`.lane-${side}`);
      lane.querySelector(".whole").style.width = `${(100 * this.total[i]) / longest}%`;
      lane.querySelector(".bar").style.width = `${(100 * now[i]) / longest}%`;
      lane.querySelector("em").textContent =
        `${mass(data.totalMass, now[i])} of ${mass(data.totalMass, this.total[i])}`;
    });
    const last = this.shownTurn === data.turnsInAll;
    const percent = now[1] > 0 ? 100 * (1 - now[0] / now[1]) : NaN;
    let words = "";
    if (!Number.isFinite(percent)) words = "n/a";
    else if (Math.abs(percent) < 0.05) words = "as much";
    else words = `${number(Math.abs(percent), 1)}${NARROW_SPACE}% ${percent > 0 ? "less" : "more"}`;
    const than = words === "as much" ? "as" : "than";
    this.find(".saving strong").textContent = words;
    this.find(".saving span").textContent =
      `CO2e ${than} ${data.policies[1].name} ${last ? "in all" : "so far"}`;
  }

  // The map

  resize() {
    const { data } = this;
    const width = Math.max(this.find(".map").clientWidth, 200);
    const tall = width < 500 ? 0.78 : 0.62;
    const height = Math.round(Math.min(width * tall, data.present ? 520 : 390));
    if (this.width === width && this.height === height && this.drawnDark === this.colours) {
      this.drawStrip();
      this.show();
      return;
    }
    this.width = width;
    this.height = height;
    this.drawnDark = this.colours;
    for (const svg of this.root.querySelectorAll(".world svg")) {
      place(svg, { viewBox: `0 0 ${width} ${height}`, height });
    }
    const spots = [...data.regions, ...data.users];
    const eastings = spots.map((spot) => spot.longitude);
    const northings = spots.map((spot) => mercator(spot.latitude));
    const west = Math.min(...eastings) - HEADROOM_DEGREES;
    const east = Math.max(...eastings) + HEADROOM_DEGREES;
    const south = Math.min(...northings) - HEADROOM_DEGREES;
    const north = Math.max(...northings) + 1.6 * HEADROOM_DEGREES;
    const scale = Math.min(width / (east - west), height / (north - south), 14);
    const left = (west + east) / 2 - width / 2 / scale;
    const top = (south + north) / 2 + height / 2 / scale;
    this.project = ({ longitude, latitude }) => [
      (longitude - left) * scale,
      (top - mercator(latitude)) * scale,
    ];
    // The outline is in degrees, north up.
    this.find(".land").setAttribute(
      "transform",
      `scale(${scale} ${-scale}) translate(${-left} ${-top})`,
    );
    this.sitesAt = data.regions.map(this.project);
    this.usersAt = data.users.map((user) => this.besideSites(this.project(user)));
    this.drawSites();
    this.drawMarks();
    this.drawStrip();
    this.show();
  }

  /** A user in a city that has a site is drawn below it, so that an arc can be seen. */
  besideSites([x, y]) {
    const near = this.sitesAt.some(([a, b]) => Math.hypot(a - x, b - y) < APART_PX / 3);
    if (!near) return [x, y];
    return [Math.max(x, 14), y + APART_PX < this.height - 14 ? y + APART_PX : y - APART_PX];
  }

  drawSites() {
    const { data } = this;
    const size = data.present ? 16 : 12.5;
    const radius = data.present ? 10 : 8;
    const group = this.find(".sites");
    group.replaceChildren();
    this.dots = [...this.sitesAt, ...this.usersAt].map(([x, y]) => [
      x - radius - 2,
      y - radius - 2,
      2 * radius + 4,
      2 * radius + 4,
    ]);
    this.labelBoxes = [];
    this.siteNodes = data.regions.map((region, i) => {
      const [x, y] = this.sitesAt[i];
      const site = element("svg:g", { class: "site" });
      const dot = element("svg:circle", { cx: x, cy: y, r: radius });
      const title = element("svg:title");
      dot.append(title);
      const wide = (region.city.length + 6) * size * 0.54;
      const tall = size * 1.3;
      const away = radius + 11; // room for the ring of a move
      const middle = Math.min(Math.max(x - wide / 2, 4), this.width - wide - 4);
      const box = this.freest(
        [
          [x + away, y - tall / 2, wide, tall],
          [x - away - wide, y - tall / 2, wide, tall],
          [middle, y - away - tall, wide, tall],
          [middle, y + away, wide, tall],
        ],
        [...this.dots, ...this.labelBoxes],
      );
      const label = element("svg:text", { x: box[0], y: box[1] + size });
      const intensity = element("svg:tspan", { class: "intensity" });
      label.append(element("svg:tspan", {}, region.city + " "), intensity);
      // A name with no room gives way; the site then shows it when pointed at.
      if (this.covered(box, this.labelBoxes) > 0) label.style.display = "none";
      else this.labelBoxes.push(box);
      site.append(dot, label);
      group.append(site);
      return { dot, title, intensity };
    });
  }

  /** Area of `box` (left, top, width, height) that `others` cover or that is outside the map. */
  covered([left, top, wide, tall], others) {
    const shared = ([a, b, w, h]) =>
      Math.max(0, Math.min(left + wide, a + w) - Math.max(left, a)) *
      Math.max(0, Math.min(top + tall, b + h) - Math.max(top, b));
    const inside = shared([3, 3, this.width - 6, this.height - 6]);
    return others.reduce((sum, other) => sum + shared(other), 4 * (wide * tall - inside));
  }

  /** The first of the boxes that least of anything else covers. */
  freest(boxes, others) {
    let best = boxes[0];
    let least = Infinity;
    for (const box of boxes) {
      const area = this.covered(box, others);
      if (area < least - 1) [best, least] = [box, area];
    }
    return best;
  }

  drawMarks() {
    const arcs = this.find(".arcs");
    const marks = this.find(".marks");
    const trail = this.find(".trail");
    arcs.replaceChildren();
    marks.replaceChildren();
    trail.replaceChildren();
    this.trailNodes = new Map();
    // The other policy first, so that ours lies on top.
    this.markNodes = [1, 0]
      .map((side) => {
        const of = `of-${SIDES[side]}`;
        const serve = arcs.appendChild(element("svg:path", { class: of }));
        const move = arcs.appendChild(element("svg:path", { class: `move ${of}` }));
        const head = marks.appendChild(
          element("svg:path", { class: `head ${of}`, d: "M-10 -9L12 0L-10 9Z" }),
        );
        const ring = marks.appendChild(element("svg:circle", { class: `ring ${of}` }));
        const chip = marks.appendChild(element("svg:g", { class: "chip" }));
        const box = chip.appendChild(element("svg:rect", { class: of, rx: 6 }));
        const label = chip.appendChild(element("svg:text", {}));
        return { serve, move, head, ring, chip, box, label };
      })
      .reverse();
    this.personNode = marks.appendChild(element("svg:g", { class: "person" }));
    this.personNode.append(
      element("svg:circle", { cy: -4.5, r: 4 }),
      element("svg:path", { d: "M-7.5 9a7.5 7.5 0 0 1 15 0z" }),
    );
  }

  intensityColour(value) {
    const { low, high, colours } = this.data.intensity;
    const share = Math.min(Math.max((value - low) / (high - low), 0), 1) * (colours.length - 1);
    const i = Math.min(Math.floor(share), colours.length - 2);
    const mixed = colours[i].map((one, k) =>
      Math.round(one + (share - i) * (colours[i + 1][k] - one)),
    );
    return `rgb(${mixed})`;
  }

  showMap() {
    const { data, turn } = this;
    const regions = data.regions.length;
    const grid = data.columns.intensity.subarray(turn * regions, (turn + 1) * regions);
    this.siteNodes.forEach((site, i) => {
      site.dot.setAttribute("fill", this.intensityColour(grid[i]));
      site.intensity.textContent = `${number(grid[i])} g`;
      site.title.textContent = `${data.regions[i].city}: ${number(grid[i])} gCO2e/kWh`;
    });
    const user = this.usersAt[data.columns.user[turn]];
    this.personNode.setAttribute("transform", `translate(${user[0]} ${user[1]})`);
    this.showTrail();
    SIDES.forEach((_, side) => this.showMarks(side, user));
    const said = data.policies.map(
      (policy) => `${policy.name}: ${policy.verdict[turn]}, ${policy.place[turn] || "nowhere"}.`,
    );
    this.find(".acts").setAttribute(
      "aria-label",
      `Map at turn ${this.shownTurn}. User in ${data.users[data.columns.user[turn]].city}. ${said.join(" ")}`,
    );
  }

  showMarks(side, user) {
    const { data, turn } = this;
    const nodes = this.markNodes[side];
    const here = this.of("deployment", side)[turn];
    const from = this.of("moved_from", side)[turn];
    const shown = (node, yes) => (node.style.display = yes ? "" : "none");
    for (const node of [nodes.serve, nodes.chip]) shown(node, here >= 0);
    for (const node of [nodes.move, nodes.head, nodes.ring]) shown(node, false);
    if (here < 0) return;
    const site = this.sitesAt[data.deployments.region[here]];
    const bend = side === 0 ? BEND : -BEND;
    const share = this.of("recomputed", side)[turn] / this.mostRecomputed;
    place(nodes.serve, {
      d: arc(user, site, bend).path,
      "stroke-width": (THINNEST_PX + (THICKEST_PX - THINNEST_PX) * share).toFixed(1),
    });
    if (from >= 0) {
      const old = this.sitesAt[data.deployments.region[from]];
      if (data.deployments.region[from] !== data.deployments.region[here]) {
        const { path, middle, angle } = arc(old, site, bend * 0.8);
        place(nodes.move, { d: path });
        place(nodes.head, {
          transform: `translate(${middle[0].toFixed(1)} ${middle[1].toFixed(1)}) rotate(${angle.toFixed(1)})`,
        });
        shown(nodes.move, true);
        shown(nodes.head, true);
      } else {
        place(nodes.ring, { cx: site[0], cy: site[1], r: (data.present ? 15 : 13) + 4 * side });
        shown(nodes.ring, true);
      }
    }
    this.showChip(nodes, side, here, from, site);
  }

  /** What serves there, in a box beside the site where there is room. */
  showChip(nodes, side, here, from, [x, y]) {
    const { data } = this;
    const size = data.present ? 15 : 12;
    const changed = from >= 0 && data.deployments.model[from] !== data.deployments.model[here];
    const text = `${changed ? "\u2192 " : ""}${data.deployments.chip[here]}`;
    if (nodes.label.textContent !== text) nodes.label.textContent = text;
    const wide = text.length * size * 0.55 + 14;
    const tall = size + 9;
    const tops = side === 0 ? [y - 20 - tall, y + 18] : [y + 18, y - 20 - tall];
    const lefts = [x + 22, x - wide - 22, x - wide / 2];
    const boxes = [0, 1, 2].flatMap((row) =>
      tops.flatMap((top) =>
        lefts.map((left) => [left, top + row * Math.sign(top - y) * (tall + 4), wide, tall]),
      ),
    );
    const [a, b] = this.usersAt[data.columns.user[this.turn]];
    const between = [Math.min(a, x) - 18, Math.min(b, y), Math.abs(a - x) + 36, Math.abs(b - y)];
    const others = [...this.dots, ...this.labelBoxes];
    if (Math.hypot(a - x, b - y) < 2 * APART_PX) others.push(between);
    if (side === 0) this.ourChip = null;
    else if (this.ourChip) others.push(this.ourChip);
    const box = this.freest(boxes, others);
    if (side === 0) this.ourChip = box;
    place(nodes.box, { x: box[0], y: box[1], width: wide, height: tall });
    place(nodes.label, { x: box[0] + 7, y: box[1] + size + 2.5 });
    nodes.label.style.fontSize = `${size}px`;
  }

  /** The moves between regions so far, faint. */
  showTrail() {
    const { data, turn } = this;
    const counts = new Map();
    for (const side of [1, 0]) {
      const from = this.of("moved_from", side);
      const to = this.of("deployment", side);
      for (let i = 0; i < turn; i++) {
        if (from[i] < 0) continue;
        const a = data.deployments.region[from[i]];
        const b = data.deployments.region[to[i]];
        if (a !== b) counts.set(`${side} ${a} ${b}`, (counts.get(`${side} ${a} ${b}`) ?? 0) + 1);
      }
    }
    for (const [key, node] of this.trailNodes) node.style.display = counts.has(key) ? "" : "none";
    for (const [key, count] of counts) {
      let node = this.trailNodes.get(key);
      if (!node) {
        const [side, a, b] = key.split(" ").map(Number);
        const bend = side === 0 ? 0.8 * BEND : -0.5 * BEND; // two lines where both went
        node = element("svg:path", {
          class: `of-${SIDES[side]}`,
          d: arc(this.sitesAt[a], this.sitesAt[b], bend).path,
        });
        this.find(".trail").append(node);
        this.trailNodes.set(key, node);
      }
      node.setAttribute("stroke-width", Math.min(1.5 + count / 2, 8));
    }
  }

  // The cards

  showCard(side) {
    const { data, turn } = this;
    const policy = data.policies[side];
    const card = this.find(`.card-${SIDES[side]}`);
    const parts = data.parts.map((part) => this.of(part.key, side)[turn]);
    const here = this.of("deployment", side)[turn];
    const moved = this.of("moved_from", side)[turn] >= 0;
    const carbon = this.of("carbon", side)[turn];
    if (!card.firstChild) {
      card.append(
        element("div", { class: "who" }),
        element("div", { class: "verdict" }),
        element("div", { class: "place" }),
        element("div", { class: "parts", role: "img" }),
        element("div", { class: "made" }),
        element("p", { class: "why" }),
        element("p", { class: "numbers" }),
      );
      card.querySelector(".who").append(element("b"), element("span"));
      card.querySelector(".verdict").append(
        element("i", { "aria-hidden": "true" }),
        element("span"),
      );
      card.querySelector(".parts").append(
        ...data.parts.map((_, i) => element("i", { class: `part-${i}` })),
      );
    }
    const set = (selector, text) => (card.querySelector(selector).textContent = text);
    card.setAttribute("aria-label", policy.name);
    set(".who b", policy.name);
    set(".who span", here < 0 ? "" : `${mass(data.turnMass, carbon)} this turn`);
    set(".verdict i", here < 0 ? "\u2715" : moved ? "\u27A4\uFE0E" : "\u25CF");
    set(".verdict span", policy.verdict[turn]);
    set(".place", policy.place[turn]);
    const longest = Math.max(...[0, 1].map((i) => this.of("carbon", i)[turn])) || 1;
    card.querySelectorAll(".parts i").forEach((bar, i) => {
      bar.style.width = `${(100 * parts[i]) / longest}%`;
    });
    const recomputed = this.of("recomputed", side)[turn];
    const said = data.parts.map((part, i) => `${part.name} ${mass(data.turnMass, parts[i])}`);
    card.querySelector(".parts").setAttribute("aria-label", said.join(", "));
    card.querySelector(".parts").title = said.join("\n");
    set(
      ".made",
      here < 0
        ? ""
        : recomputed > 0
          ? `${number(recomputed)} tokens recomputed: ${mass(data.turnMass, parts[0])}`
          : "Nothing recomputed",
    );
    set(".why", policy.why[turn]);
    set(".numbers", policy.numbers[turn]);
  }

  // The strip

  drawStrip() {
    const { data } = this;
    const canvas = this.find("canvas");
    const width = canvas.clientWidth || this.width;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(STRIP_PX * ratio);
    this.stripWidth = width;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, width, STRIP_PX);
    const step = width / data.turns;
    const bar = Math.max(step - (step > 4 ? 1 : 0), 1);
    const room = (STRIP_PX - STRIP_MIDDLE) / 2 - 2;
    for (const side of [0, 1]) {
      const carbon = this.of("carbon", side);
      const deployment = this.of("deployment", side);
      const moved = this.of("moved_from", side);
      const base = STRIP_PX / 2 + (side === 0 ? -1 : 1) * (STRIP_MIDDLE / 2);
      for (let turn = 0; turn < data.turns; turn++) {
        if (deployment[turn] < 0) continue;
        const tall = Math.max((room * carbon[turn]) / (this.largest || 1), 1.5);
        pen.fillStyle = this.colourOf.get(deployment[turn]);
        pen.fillRect(turn * step, side === 0 ? base - tall : base, bar, tall);
      }
      pen.fillStyle = this.colours.policies[side];
      const wide = Math.min(Math.max(step, 3), 5);
      const tip = side === 0 ? -6 : 6;
      for (let turn = 0; turn < data.turns; turn++) {
        if (moved[turn] < 0) continue;
        const middle = (turn + 0.5) * step;
        const foot = STRIP_PX / 2 + (side === 0 ? -0.5 : 0.5);
        pen.beginPath();
        pen.moveTo(middle - wide, foot);
        pen.lineTo(middle + wide, foot);
        pen.lineTo(middle, foot + tip);
        pen.fill();
      }
    }
  }

  showCursor() {
    const { data, turn } = this;
    const step = this.stripWidth / data.turns;
    const cursor = this.find(".cursor");
    cursor.style.width = `${Math.max(step, 4)}px`;
    cursor.style.transform = `translateX(${turn * step + Math.min(0, (step - 4) / 2)}px)`;
    const canvas = this.find("canvas");
    place(canvas, {
      "aria-valuemin": data.before + 1,
      "aria-valuemax": data.before + data.turns,
      "aria-valuenow": this.shownTurn,
      "aria-valuetext": `Turn ${this.shownTurn} of ${data.turnsInAll}: ${data.policies[0].verdict[turn]}, ${mass(
        data.turnMass,
        this.of("carbon", 0)[turn],
      )}; ${data.policies[1].name} ${mass(data.turnMass, this.of("carbon", 1)[turn])}`,
    });
  }

  // The candidates

  showCandidates() {
    const { data, turn } = this;
    const side = this.kept.side;
    const policy = data.policies[side];
    const count = data.deployments.label.length;
    const at = (name, d) => this.of(name, side)[turn * count + d];
    const both = (name, d) => data.columns[name][turn * count + d];
    const obstacle = (d) => at("obstacle", d);
    const here = this.of("deployment", side)[turn];
    const home = this.of("home", side)[turn];
    const order = [...Array(count).keys()].sort(
      (a, b) => Math.sign(obstacle(a)) - Math.sign(obstacle(b)) || at("total", a) - at("total", b) || a - b,
    );
    const feasible = order.filter((d) => obstacle(d) === 0).length;
    const rows = order.filter((d, i) => this.kept.all || i < SHORT_TABLE || d === here || d === home);
    const body = this.find("tbody");
    const cells = this.find("thead tr").childElementCount;
    while (body.childElementCount > rows.length) body.lastChild.remove();
    while (body.childElementCount < rows.length) body.append(element("tr"));
    const money = (grams) => mass(data.turnMass, grams, false);
    rows.forEach((d, i) => {
      const row = body.children[i];
      const marks = [];
      if (d === here) marks.push("chosen");
      if (d === home) marks.push("has the history");
      if (obstacle(d)) marks.push(`no: ${this.whyNot(obstacle(d), d)}`);
      const values = [
        data.deployments.label[d],
        marks.join(", ") || "yes",
        number(at("cached", d)),
        money(at("recompute", d)),
        money(both("prompt", d)),
        money(both("decode", d)),
        money(at("host", d)),
      ];
      if (data.embodied) values.push(money(at("embodied", d)));
      values.push(money(at("total", d)));
      if (policy.ahead) values.push(Number.isFinite(at("to_come", d)) ? money(at("to_come", d)) : "\u2013");
      values.push(duration(at("ttft", d)), `${number(100 * both("quality", d), 1)}${NARROW_SPACE}%`);
      if (row.childElementCount !== cells) {
        row.replaceChildren(
          ...values.map((_, k) => element(k ? "td" : "th", k ? {} : { scope: "row" })),
        );
      }
      values.forEach((value, k) => {
        if (row.children[k].textContent !== value) row.children[k].textContent = value;
      });
      row.className = d === here ? "chosen" : obstacle(d) ? "infeasible" : "";
    });
    this.root.style.setProperty("--chosen", this.colours.policies[side]);
    this.find("caption").textContent = `Candidates of turn ${this.shownTurn} as ${policy.name} found them`;
    const expected = this.of("expected", side)[turn];
    this.find(".candidates-note").textContent =
      `${number(feasible)} of ${number(count)} feasible, the cheapest first; carbon in ${data.turnMass.unit} CO2e. ` +
      `${number(data.columns.history[turn])} tokens of history, ${number(data.columns.new_prompt[turn])} of new prompt; ` +
      `with the ${number(expected)} output tokens ${policy.name} ${policy.knows ? "knew of" : "expected"}` +
      (policy.knows ? "." : ` (there came ${number(data.columns.output[turn])}).`) +
      (policy.note ? ` ${policy.note}` : "");
    const all = this.find("[data-do=all]");
    all.textContent = this.kept.all ? "Show fewer" : `Show all ${number(count)}`;
    all.setAttribute("aria-pressed", String(this.kept.all));
    all.style.display = count > SHORT_TABLE ? "" : "none";
  }

  whyNot(code, d) {
    const { data, turn } = this;
    const { history, new_prompt: prompt, output } = data.columns;
    return data.obstacles[code]
      .replace("{holds}", number(data.deployments.fits[d]))
      .replace("{needed}", number(history[turn] + prompt[turn] + output[turn]));
  }
}
