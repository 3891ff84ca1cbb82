// A word's senses: the key of the map, as the words that stand around each and its typical uses.

import { drawing, element } from "./dom.js";
import { say } from "./language.js";
import { prose } from "./prose.js";
import { openable } from "./passage.js";

// Marks of about one area. A sense has a shape and a color (style.css); after eight they repeat.
export const SHAPES = [
  "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0Z",
  "M-4.5,-4.5h9v9h-9Z",
  "M0,-6L5.8,4.4H-5.8Z",
  "M0,-6.2L6.2,0L0,6.2L-6.2,0Z",
  "M0,6L5.8,-4.4H-5.8Z",
  "M-2,-6h4v4h4v4h-4v4h-4v-4h-4v-4h4Z",
  "M-3,-5.2h6l3,5.2l-3,5.2h-6l-3,-5.2Z",
  "M-5.5,-3l2.5,-2.5l3,3l3,-3l2.5,2.5l-3,3l3,3l-2.5,2.5l-3,-3l-3,3l-2.5,-2.5l3,-3Z",
];
const TYPICAL = 2; // sentences shown for each sense

export const senseClass = (sense) => `sense sense-${sense % SHAPES.length}`;

/** The sign of a sense, for use beside text. */
export const senseSign = (sense) =>
  drawing("svg", { class: senseClass(sense), viewBox: "-8 -8 16 16", "aria-hidden": "true" },
    drawing("path", { d: SHAPES[sense % SHAPES.length] }));

export const senseName = (sense, i) => sense.characteristic.join(", ") || example(sense, i);

/** Fill `list`; `single(sense or null)` hears which one is chosen; `actions` are those of a use. */
export function showSenses(list, senses, single, actions) {
  const buttons = senses.map((sense, i) =>
    element("button", { type: "button", class: "sense-name", "aria-pressed": "false" },
      senseSign(i),
      element("strong", {}, senseName(sense, i)),
      element("small", {}, say.uses(sense.size))));
  const toggle = (chosen) => {
    const on = buttons[chosen].getAttribute("aria-pressed") !== "true";
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", on && i === chosen));
    single(on ? chosen : null);
  };
  buttons.forEach((button, i) => button.addEventListener("click", () => toggle(i)));
  list.replaceChildren(...senses.map((sense, i) =>
    element("li", {},
      buttons[i],
      ...sense.typical.slice(0, TYPICAL).flatMap((use) => openable(use, actions)))));
}

/** Where no word tells a sense from the others, its best example does. */
const example = ({ typical: [use] }, i) => {
  if (!use) return say.sense(i + 1);
  const near = use.words.slice(Math.max(0, use.position - 4), use.position + 5);
  return `“${prose(near)}”`;
};
