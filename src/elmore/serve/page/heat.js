// Word-to-word similarity of two sentences: a table of colored squares for each layer, read
// together: pointing at a pair of words in one table shows its values in all.

import { element } from "./dom.js";
import { say } from "./language.js";

/** Tables of `layers[l][row][column]`; names are what each is called. */
export function showHeat(frame, readout, { words_a: rows, words_b: columns, layers }, names) {
  const tables = layers.map((values, l) => heatTable(rows, columns, values, names[l]));
  const cells = tables.map((table) =>
    [...table.tBodies[0].rows].map((row) => [...row.querySelectorAll("td")]));
  const point = (i, j) => {
    for (const lit of frame.querySelectorAll(".lit")) lit.classList.remove("lit");
    for (const table of cells) table[i][j].classList.add("lit");
    const values = names.map((name, l) => `${name} ${layers[l][i][j].toFixed(2)}`);
    readout.textContent = `${rows[i]} × ${columns[j]} — ${values.join(" · ")}`;
  };
  cells.forEach((table) => walk(table, point));
  readout.textContent = say.pickCell;
  frame.replaceChildren(...tables.map((table, l) =>
    element("figure", {},
      element("figcaption", {}, names[l]),
      element("div", { class: "scroll" }, table))));
}

function heatTable(rows, columns, values, name) {
  const head = element("tr", {}, element("td"),
    ...columns.map((word) => element("th", { scope: "col" }, element("span", {}, word))));
  const body = rows.map((word, i) =>
    element("tr", {}, element("th", { scope: "row" }, word), ...values[i].map(heatCell)));
  return element("table", { "aria-label": say.heatFor(name) },
    element("thead", {}, head), element("tbody", {}, ...body));
}

/** Its color is made in style.css, of the sign and the size. */
function heatCell(value) {
  const cell = element("td", { class: value < 0 ? "cold" : "warm", tabindex: -1 },
    element("span", { class: "aside" }, value.toFixed(2)));
  cell.style.setProperty("--size", Math.min(1, Math.abs(value)).toFixed(3));
  return cell;
}

/** One stop for the Tab key in a table; arrow keys go from square to square. */
function walk(cells, point) {
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  let stop = cells[0]?.[0];
  if (stop) stop.tabIndex = 0;
  cells.forEach((row, i) => row.forEach((cell, j) => {
    cell.addEventListener("pointerenter", () => point(i, j));
    cell.addEventListener("focus", () => {
      stop.tabIndex = -1;
      stop = cell;
      stop.tabIndex = 0;
      point(i, j);
    });
    cell.addEventListener("keydown", (event) => {
      const [down, right] = moves[event.key] ?? [0, 0];
      const next = cells[i + down]?.[j + right];
      if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      next?.focus();
    });
  }));
}
