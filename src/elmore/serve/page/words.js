// The words of the sentence as a row of buttons: one stop for the Tab key, arrow keys between. Below
// it a line of the words that the model would put in the place of the chosen one.

import { element } from "./dom.js";

const MARK = /^[^\p{L}\p{N}]+$/u; // punctuation is drawn more quietly

export function showWords(row, words, choose) {
  const buttons = words.map((word, i) =>
    element("button", {
      type: "button", class: MARK.test(word) ? "quiet" : null, "aria-pressed": "false",
      tabindex: i === 0 ? 0 : -1, onclick: () => choose(i), onfocus: () => makeStop(buttons, i),
    }, word));
  row.replaceChildren(...buttons);
  row.onkeydown = (event) => {
    const to = target(event, buttons.indexOf(document.activeElement), buttons.length);
    if (to === null) return;
    event.preventDefault();
    buttons[to].focus();
  };
}

export function pressWord(row, position) {
  const buttons = [...row.children];
  buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === position));
  if (buttons[position]) makeStop(buttons, position);
}

export function showSubstitutes(list, substitutes) {
  list.replaceChildren(...substitutes.map(({ word, probability }) =>
    element("li", {},
      element("span", { class: "word" }, word), " ",
      element("span", { class: "score" }, percent(probability)))));
}

const percent = (p) => (p < 0.001 ? "<0.1%" : `${(100 * p).toFixed(p < 0.1 ? 1 : 0)}%`);

const makeStop = (buttons, stop) =>
  buttons.forEach((button, i) => (button.tabIndex = i === stop ? 0 : -1));

/** Where a key leads; the row is a circle. */
function target(event, at, n) {
  if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return null;
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: n - 1 }[event.key];
  return to === undefined ? null : (to + n) % n;
}
