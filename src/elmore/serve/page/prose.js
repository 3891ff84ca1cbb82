// A sentence as people read it: words with the spaces of the text they come from, or, where only the
// words are known, with the spaces they have in print; one word marked.

import { element } from "./dom.js";

const NO_SPACE = /[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]/; // Han, kana, wide marks
const CLINGS_LEFT = /^(?:[,.;:!?%)\]}’”…]|n['’]t$|['’](?:s|re|ve|ll|d|m)$)/i;
const CLINGS_RIGHT = /[([{“‘$£€]$/;
const NEAR = 8; // words each side that a narrow place shows

export const prose = (sentence) =>
  typeof sentence === "string" ? sentence : spaced(sentence).join("");

/** Left context, the word, right context: three parts of a keyword-in-context line. */
export function inContext({ words, position, text }, near = NEAR) {
  const pieces = (text && asWritten(words, text)) || spaced(words);
  const gap = pieces[position].slice(0, -words[position].length);
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

/** Each word with what stands before it in the text; null if they do not fit. */
function asWritten(words, text) {
  let end = 0;
  const pieces = words.map((word) => {
    const start = end;
    const at = text.indexOf(word, start);
    end = at < 0 ? Infinity : at + word.length;
    return text.slice(start, end);
  });
  return end === Infinity ? null : pieces;
}

/** Each word with the space before it, if it has one. */
const spaced = (words) => words.map((word, i) => (hasGap(words[i - 1], word) ? ` ${word}` : word));

function hasGap(before, word) {
  if (before === undefined) return false;
  if (NO_SPACE.test(before.at(-1)) && NO_SPACE.test(word[0])) return false;
  return !CLINGS_LEFT.test(word) && !CLINGS_RIGHT.test(before);
}
