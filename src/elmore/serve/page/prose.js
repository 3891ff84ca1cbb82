// A sentence as people read it: words set with the spaces they had in print, one word marked.

import { element } from "./dom.js";

const NO_SPACE = /[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]/; // Han, kana, wide marks
const CLINGS_LEFT = /^(?:[,.;:!?%)\]}’”…]|n['’]t$|['’](?:s|re|ve|ll|d|m)$)/i;
const CLINGS_RIGHT = /[([{“‘$£€]$/;
const NEAR = 8; // words each side that a narrow place shows

export const prose = (sentence) =>
  typeof sentence === "string" ? sentence : spaced(sentence).join("");

/** Left context, the word, right context: three parts of a keyword-in-context line. */
export function inContext(words, position, near = NEAR) {
  const pieces = spaced(words);
  const gap = pieces[position].startsWith(" ") ? " " : "";
  const [start, end] = [Math.max(0, position - near), position + 1 + near];
  return [
    element("span", { class: "before" }, ...far(pieces.slice(0, start)),
      pieces.slice(start, position).join("") + gap),
    element("mark", {}, words[position]),
    element("span", { class: "after" },
      pieces.slice(position + 1, end).join(""), ...far(pieces.slice(end))),
  ];
}

/** Words that a narrow place leaves out, if there are any. */
const far = (pieces) =>
  pieces.length ? [element("span", { class: "far" }, pieces.join(""))] : [];

/** Each word with the space before it, if it has one. */
const spaced = (words) => words.map((word, i) => (hasGap(words[i - 1], word) ? ` ${word}` : word));

function hasGap(before, word) {
  if (before === undefined) return false;
  if (NO_SPACE.test(before.at(-1)) && NO_SPACE.test(word[0])) return false;
  return !CLINGS_LEFT.test(word) && !CLINGS_RIGHT.test(before);
}
