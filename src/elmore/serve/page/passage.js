// A use that opens on a click: its whole passage, where it stands, and what can be done with it.

import { api } from "./api.js";
import { element } from "./dom.js";
import { say } from "./language.js";
import { inContext } from "./prose.js";

const WHOLE = Infinity; // words each side: the sentence is shown to its ends

/** A line and what it opens. `actions.choose(use)` makes it the query, `.compare(use)` compares. */
export function openable(use, actions) {
  const opened = element("div", { class: "passage", hidden: true });
  const line = element("button", {
    type: "button", class: "use context", title: say.open, "aria-expanded": "false",
    onclick: () => {
      if (!opened.hasChildNodes()) fill(opened, use, actions);
      opened.hidden = !opened.hidden;
      line.setAttribute("aria-expanded", !opened.hidden);
    },
  }, ...inContext(use));
  return [line, opened];
}

/** The sentence at once, and the text around it when the server has told. */
function fill(opened, use, { choose, compare }) {
  const text = element("p", { class: "context" }, ...inContext(use, WHOLE));
  const place = element("span", { class: "place" }, placeOf(use));
  if (use.file) place.title = use.file;
  opened.append(text, element("p", { class: "hint" }, place, element("span", { class: "buttons" },
    element("button", { type: "button", onclick: () => choose(use) }, say.makeQuery),
    element("button", { type: "button", onclick: () => compare(use) }, say.compareThis))));
  api.passage(use.id).then(({ before, after }) => {
    text.prepend(element("span", { class: "around" }, before));
    text.append(element("span", { class: "around" }, after));
  }, () => {}); // the sentence alone is an answer too
}

const placeOf = ({ file, line }) => (file ? say.place(file.split(/[\\/]/).at(-1), line) : say.noPlace);
