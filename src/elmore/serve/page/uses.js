// The two lists side by side: nearest uses, each a line with its word marked, and the words that
// are near when context plays no part.

import { element } from "./dom.js";
import { say } from "./language.js";
import { openable } from "./passage.js";
import { senseSign } from "./senses.js";

export function showUses(list, uses, actions) {
  list.replaceChildren(...uses.map((use) => {
    const [line, opened] = openable(use, actions);
    return element("li", {},
      element("span", { class: "score" }, use.score.toFixed(2)),
      element("span", { class: "sign", "data-use": use.id }),
      line,
      element("button", {
        type: "button", class: "compare", title: say.compareThis, "aria-label": say.compareThis,
        onclick: () => actions.compare(use),
      }, "⇄"),
      opened);
  }));
}

/** Give each listed use the sign of its sense, where the map knows it. */
export function signUses(list, senses) {
  for (const sign of list.querySelectorAll(".sign")) {
    const sense = senses.get(Number(sign.dataset.use));
    sign.replaceChildren(...(sense === undefined ? [] : [senseSign(sense)]));
  }
}

export function showStatic(list, words) {
  list.replaceChildren(...words.map(({ word, score }) =>
    element("li", {},
      element("span", { class: "word" }, word),
      element("meter", { min: 0, max: 1, value: Math.max(0, score), "aria-hidden": "true" }),
      element("span", { class: "score" }, score.toFixed(2)))));
}
