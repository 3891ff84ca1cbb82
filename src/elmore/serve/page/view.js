// The view: which sentence, word, layer and comparison the page shows. It lives in the address
// after the #, so that a link shows the same to somebody else, and Back goes back.

// A sentence is a string, split by the server, or a list of words taken as they are.

export const START = {
  sentence: "",
  position: null,
  layer: null, // null: what the server's index has
  weights: null, // null: equal
  everywhere: false, // among all words, not only the same one
  other: "", // the sentence compared with
};

const NAMED = ["mix", "meaning"]; // what can be looked at besides the layers by number

export const isEmpty = (sentence) => sentence.length === 0;

export function readView(hash = location.hash) {
  const fields = new URLSearchParams(hash.slice(1));
  return {
    sentence: readSentence(fields, "text", "words"),
    position: natural(fields.get("at")),
    layer: NAMED.includes(fields.get("layer")) ? fields.get("layer") : natural(fields.get("layer")),
    weights: readWeights(fields.get("mix")),
    everywhere: fields.get("among") === "all",
    other: readSentence(fields, "with", "with-words"),
  };
}

export function viewAddress(view) {
  const fields = new URLSearchParams();
  writeSentence(fields, view.sentence, "text", "words");
  if (view.position !== null) fields.set("at", view.position);
  if (view.layer !== null) fields.set("layer", view.layer);
  if (view.layer === "mix" && view.weights) fields.set("mix", view.weights.join(" "));
  if (view.everywhere) fields.set("among", "all");
  writeSentence(fields, view.other, "with", "with-words");
  const hash = fields.toString();
  return hash ? `#${hash}` : location.pathname;
}

const readSentence = (fields, text, words) =>
  fields.has(words) ? fields.get(words).split(" ") : (fields.get(text) ?? "");

function writeSentence(fields, sentence, text, words) {
  if (isEmpty(sentence)) return;
  if (typeof sentence === "string") fields.set(text, sentence);
  else fields.set(words, sentence.join(" "));
}

const natural = (text) => (/^\d{1,6}$/.test(text ?? "") ? Number(text) : null);

function readWeights(text) {
  const weights = (text ?? "").split(" ").map(Number);
  const usable = text && weights.every((w) => w >= 0 && w <= 1) && weights.some((w) => w > 0);
  return usable ? weights : null;
}
