// The words of the index: by how often they occur or how many senses they have, or those with the
// letters that the reader types.

import { api, isVoid } from "./api.js";
import { byId, element } from "./dom.js";
import { say } from "./language.js";
import { Panel } from "./panel.js";

const STEP = 100; // words shown at first, and more at a time
const MOST = 500;
const AGAIN = 2000; // milliseconds, while senses are being counted

let n = STEP;
let timer = null;
let choose = null;

const panel = new Panel(byId("vocabulary"), ({ again, ...asked }, signal) =>
  api.vocabulary(asked, signal), show);

/** `choose(word)` is told of a click. */
export function startBrowsing(chooseWord) {
  choose = chooseWord;
  const begin = () => {
    n = STEP;
    load();
  };
  byId("letters").addEventListener("input", begin);
  byId("order").addEventListener("change", begin);
  byId("more-words").addEventListener("click", () => {
    n += STEP;
    load();
  });
  byId("browse").addEventListener("toggle", load);
}

export const redrawWords = () => panel.redraw();

/** Ask for what the fields say; `again` makes it another question than the same one before. */
export function load(again = 0) {
  clearTimeout(timer);
  if (!byId("browse").open || byId("browse").hidden) return;
  const asked = { letters: byId("letters").value, order: byId("order").value, n };
  panel.load(typeof again === "number" && again ? { ...asked, again } : asked)
    .catch((error) => isVoid(error) || (byId("found").textContent = error.message));
}

function show({ words, total, counted }) {
  const counting = byId("order").value === "senses" && counted < 1;
  byId("vocabulary").replaceChildren(...words.map((listed) =>
    element("li", {},
      element("button", { type: "button", class: "word", onclick: () => choose(listed.word) },
        element("span", {}, listed.word), " ", element("small", {}, say.frequency(listed))))));
  byId("found").textContent = say.found(total) + (counting ? ` ${say.counting(counted)}` : "");
  byId("more-words").hidden = words.length >= total || words.length >= MOST;
  if (counting) timer = setTimeout(() => load(Date.now()), AGAIN);
}
