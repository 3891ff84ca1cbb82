// The map: every use of a word as a mark, its sense told by color and by shape. Wheel, pinch,
// buttons and keys zoom; dragging pans; arrow keys go from mark to mark. Marks keep their size.

import { drawing, element } from "./dom.js";
import { say } from "./language.js";
import { inContext, prose } from "./prose.js";
import { SHAPES, senseClass } from "./senses.js";

const MARGIN = 20; // pixels round the marks when all are shown
const REACH = { mouse: 14, pen: 18, touch: 26 }; // pixels from a mark that count as on it
const STILL = 5; // pixels a pointer may slip and still click
const STEP = 1.5; // zoom by a button or key
const CLOSEST = 40; // times the size of the whole
export const STAR = "0,-11 2.6,-3.6 10.5,-3.4 4.2,1.4 6.5,8.9 0,4.4 -6.5,8.9 -4.2,1.4 -10.5,-3.4 -2.6,-3.6";
const RING = { near: 9, query: 11 };
const TIP_WORDS = 20; // each side, shown when a mark is pointed at
const DIRECTIONS = {
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
};

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** One word's uses as a picture inside `frame`; `choose(use)` is told of a click. */
export class UseMap {
  constructor(frame, choose) {
    this.frame = frame;
    this.choose = choose;
    this.plot = drawing("svg", { role: "group" });
    this.tip = element("div", { class: "tip", hidden: true });
    frame.append(this.plot, this.tip);
    this.fingers = new Map(); // pointers that are down, by id: where they are
    this.show([], "");
    this.listen();
  }

  /** Uses have id, x, y, sense, words and position. */
  show(uses, label) {
    this.uses = uses;
    this.rings = [];
    this.ownMark = null;
    this.marks = uses.map((use, i) => this.mark(use, i));
    this.plot.replaceChildren(...this.marks);
    this.plot.setAttribute("aria-label", label);
    this.box = boundingBox(uses);
    this.pointed = null;
    this.showAll();
  }

  mark(use, i) {
    return drawing("path", {
      class: senseClass(use.sense),
      d: SHAPES[use.sense % SHAPES.length],
      role: "button",
      tabindex: i === 0 ? 0 : -1,
      "aria-label": `${say.sense(use.sense + 1)}: ${use.text ?? prose(use.words)}`,
      onfocus: () => this.focused(i),
      onblur: () => this.pointAt(null),
    });
  }

  /** Ring the uses with these ids, and the one that is the query more strongly. */
  ring(ids, query) {
    for (const { node } of this.rings) node.remove();
    this.rings = [];
    this.uses.forEach((use, i) => {
      const kind = use.id === query ? "query" : ids.has(use.id) ? "near" : null;
      if (kind) this.rings.push({ i, node: drawing("circle", { class: kind, r: RING[kind] }) });
    });
    this.plot.append(...this.rings.map(({ node }) => node));
    this.draw();
  }

  /** Put a mark of its own where the reader's sentence belongs; null takes it away. */
  own(point, label) {
    this.ownMark?.node.remove();
    this.ownMark = null;
    if (point) {
      const title = drawing("title", {}, label);
      const node = drawing("polygon",
        { class: `own ${senseClass(point.sense)}`, points: STAR }, title);
      this.ownMark = { node, point };
      this.plot.append(node);
    }
    this.draw();
  }

  /** Dim every sense but this one; null dims none. */
  single(sense) {
    this.marks.forEach((mark, i) => {
      mark.classList.toggle("dim", sense !== null && this.uses[i].sense !== sense);
    });
  }

  // The window onto the map: its middle in the map's own units, and how close it looks.

  showAll() {
    this.window = { x: this.box.x, y: this.box.y, scale: 1 };
    this.draw();
  }

  /** Look closer by `factor`, keeping what is under the pixel (px, py) there. */
  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const to = clamp(this.window.scale * factor, 1, CLOSEST);
    const moved = 1 - to / this.window.scale;
    this.window.scale = to;
    this.pan((px - this.width / 2) * moved, (py - this.height / 2) * moved);
  }

  /** Move the marks by pixels; the window's middle stays on the map. */
  pan(dx, dy) {
    const { x, y, width, height } = this.box;
    const unit = this.unit * this.window.scale; // pixels
    this.window.x = clamp(this.window.x - dx / unit, x - width / 2, x + width / 2);
    this.window.y = clamp(this.window.y - dy / unit, y - height / 2, y + height / 2);
    this.draw();
  }

  draw() {
    this.width = this.frame.clientWidth;
    this.height = this.frame.clientHeight;
    const free = [this.width - 2 * MARGIN, this.height - 2 * MARGIN];
    this.unit = Math.max(1e-9, Math.min(free[0] / this.box.width, free[1] / this.box.height));
    const unit = this.unit * this.window.scale;
    const onScreen = ({ x, y }) => [
      this.width / 2 + (x - this.window.x) * unit,
      this.height / 2 + (y - this.window.y) * unit,
    ];
    this.places = this.uses.map(onScreen);
    if (this.ownMark) {
      this.ownMark.place = onScreen(this.ownMark.point);
      put(this.ownMark.node, this.ownMark.place);
    }
    this.marks.forEach((mark, i) => put(mark, this.places[i]));
    this.rings.forEach(({ node, i }) => put(node, this.places[i]));
    this.frame.classList.toggle("zoomed", this.window.scale > 1);
    this.pointAt(this.pointed);
  }

  /** Show the sentence of this use beside its mark; null hides it. */
  pointAt(i) {
    this.marks[this.pointed]?.classList.remove("pointed");
    this.pointed = i;
    this.tip.hidden = i === null;
    if (i === null) return;
    const use = this.uses[i];
    this.marks[i].classList.add("pointed");
    this.tip.className = `tip context ${senseClass(use.sense)}`;
    this.tip.replaceChildren(...inContext(use, TIP_WORDS));
    const [x, y] = this.places[i];
    const below = y < this.height / 2;
    const left = clamp(x - this.tip.offsetWidth / 2, 4, this.width - this.tip.offsetWidth - 4);
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${below ? y + 14 : y - 14 - this.tip.offsetHeight}px`;
  }

  // Pointers and keys.

  listen() {
    const { plot } = this;
    plot.addEventListener("pointerdown", (event) => this.down(event));
    plot.addEventListener("pointermove", (event) => this.move(event));
    plot.addEventListener("pointerup", (event) => this.up(event));
    plot.addEventListener("pointercancel", (event) => this.fingers.delete(event.pointerId));
    plot.addEventListener("mousedown", (event) => event.preventDefault()); // `up` gives the focus
    plot.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.pointAt(null);
    });
    plot.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    plot.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.frame);
  }

  at(event) {
    const { left, top } = this.plot.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  /** The use under the pointer, or null. */
  under(event) {
    const [x, y] = this.at(event);
    const far = this.places.map(([px, py]) => Math.hypot(px - x, py - y));
    const i = far.indexOf(Math.min(...far));
    return far[i] <= (REACH[event.pointerType] ?? REACH.mouse) ? i : null;
  }

  down(event) {
    if (event.button !== 0) return;
    this.fingers.set(event.pointerId, this.at(event));
    this.slipped = this.fingers.size > 1 ? Infinity : 0;
    this.wasPointed = this.pointed;
  }

  move(event) {
    const from = this.fingers.get(event.pointerId);
    if (from === undefined) return this.pointAt(this.under(event));
    const to = this.at(event);
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    this.slipped += Math.hypot(dx, dy);
    if (this.slipped < STILL) return;
    this.plot.setPointerCapture(event.pointerId);
    const other = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
    this.fingers.set(event.pointerId, to);
    if (other === undefined) return this.pan(dx, dy);
    const spread = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
    this.zoom(spread(to) / spread(from), (to[0] + other[0]) / 2, (to[1] + other[1]) / 2);
    this.pan(dx / 2, dy / 2);
  }

  /** A click chooses; a finger, which cannot hover, first shows the sentence. */
  up(event) {
    if (!this.fingers.delete(event.pointerId) || this.slipped >= STILL) return;
    const i = this.under(event);
    const shown = event.pointerType !== "touch" || i === this.wasPointed;
    if (i === null) return this.pointAt(null);
    this.marks[i].focus({ preventScroll: true });
    this.pointAt(i);
    if (shown) this.choose(this.uses[i]);
  }

  /** The page scrolls on over the map, unless Ctrl is held (as a pinched touchpad does). */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.zoom(Math.exp(-clamp(event.deltaY, -60, 60) / 150), ...this.at(event));
  }

  key(event) {
    const i = this.marks.indexOf(document.activeElement);
    if (event.altKey || event.ctrlKey || event.metaKey || i < 0) return;
    if (event.key in DIRECTIONS) this.marks[this.next(i, DIRECTIONS[event.key])].focus();
    else if (event.key === "Enter" || event.key === " ") this.choose(this.uses[i]);
    else if (event.key === "+" || event.key === "=") this.zoomIn();
    else if (event.key === "-") this.zoomOut();
    else if (event.key === "0") this.showAll();
    else return;
    event.preventDefault();
  }

  zoomIn() {
    this.zoom(STEP, ...(this.places[this.pointed] ?? []));
  }

  zoomOut() {
    this.zoom(1 / STEP);
  }

  /** The nearest use in a direction, those straight ahead preferred; `i` where there is none. */
  next(i, [dx, dy]) {
    const [x, y] = this.places[i];
    let [best, least] = [i, Infinity];
    this.places.forEach(([px, py], j) => {
      const along = (px - x) * dx + (py - y) * dy;
      const cost = along + 2 * Math.abs((px - x) * dy - (py - y) * dx);
      if (along > 0 && cost < least) [best, least] = [j, cost];
    });
    return best;
  }

  focused(i) {
    this.marks.forEach((mark, j) => mark.setAttribute("tabindex", i === j ? 0 : -1));
    const [x, y] = this.places[i];
    const inside = x >= 0 && y >= 0 && x <= this.width && y <= this.height;
    if (!inside) this.pan(this.width / 2 - x, this.height / 2 - y);
    this.pointAt(i);
  }
}

const put = (node, [x, y]) =>
  node.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);

/** Middle and size; one point, or none, is given a size too. */
function boundingBox(uses) {
  if (!uses.length) return { x: 0, y: 0, width: 1, height: 1 };
  const [xs, ys] = [uses.map((use) => use.x), uses.map((use) => use.y)];
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
  return {
    x: (left + right) / 2, y: (top + bottom) / 2,
    width: right - left || 1, height: bottom - top || 1,
  };
}
