// A use that opens on a click: its whole passage, where it stands, and what can be done with it.

import { api } from "./api.js";
import { element } from "./dom.js";
import { say } from "./language.js";
import { inContext, prose } from "./prose.js";

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
    element("button", { type: "button", onclick: () => compare(use) }, say.compareButton))));
  const around = (part) => element("span", { class: "around" }, use.text ? part : joined(part));
  api.passage(use.id).then(({ before, after }) => {
    text.prepend(around(before));
    text.append(around(after));
  }, () => {}); // the sentence alone is an answer too
}

/** Lines whose words are separated by spaces, as people read them. */
const joined = (text) => text.split("\n").map((line) => prose(line.split(" "))).join("\n");

const placeOf = ({ file, line }) => (file ? say.place(file.split(/[\\/]/).at(-1), line) : say.noPlace);
