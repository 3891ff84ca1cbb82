// What the neighbours are looked up by: the layer, the weights of the mix, and among which words.
// Plain radio buttons and sliders, so that keys and screen readers work as they always do.

import { element } from "./dom.js";
import { say } from "./language.js";

const PAUSE = 150; // milliseconds a slider rests before we ask the server

export function layerName(layer) {
  if (layer === "meaning") return say.meaning;
  return layer === "mix" ? say.mix : say.layerNumber(layer);
}

/** One choice of several; `options` are [value, label, hint]. */
function showChoice(fieldset, options, chosen, choose) {
  const choice = ([value, label, hint]) =>
    element("label", { title: hint },
      element("input", {
        type: "radio", name: fieldset.id, value, checked: value === chosen,
        onchange: () => choose(value),
      }),
      element("span", {}, label));
  refill(fieldset, options.map(choice));
}

/** `contextFree`: layer 0 depends on the word alone, which it does not in a BERT. */
export function showLayers(fieldset, layers, chosen, contextFree, choose) {
  const label = (layer) => (typeof layer === "string" ? say[layer] : String(layer));
  const hint = (layer) => say.layerHint[layer === 0 && !contextFree ? "placed" : layer];
  const options = layers.map((layer) => [layer, label(layer), hint(layer)]);
  showChoice(fieldset, options, chosen, choose);
}

export function showScope(fieldset, word, everywhere, choose) {
  showChoice(fieldset, [[false, say.sameWord(word)], [true, say.allWords]], everywhere, choose);
}

/** A slider for each layer; what is shown is its share of the whole. */
export function showWeights(fieldset, weights, choose) {
  const now = [...weights];
  const shares = now.map(() => element("output"));
  const tell = () => shares.forEach((share, i) => (share.textContent = percent(now, i)));
  let timer = null;
  const slider = (weight, i) =>
    element("input", {
      type: "range", min: 0, max: 1, step: 0.05, value: weight, "aria-label": say.layerNumber(i),
      oninput: (event) => {
        now[i] = Number(event.target.value);
        tell();
        clearTimeout(timer);
        timer = setTimeout(() => choose([...now]), PAUSE);
      },
    });
  refill(fieldset, now.map((weight, i) =>
    element("label", {}, element("span", {}, String(i)), slider(weight, i), shares[i])));
  tell();
}

function percent(weights, i) {
  const sum = weights.reduce((a, b) => a + b, 0);
  return `${Math.round((100 * (sum ? weights[i] : 1)) / (sum || weights.length))}%`;
}

const refill = (fieldset, nodes) =>
  fieldset.replaceChildren(fieldset.querySelector("legend"), ...nodes);
