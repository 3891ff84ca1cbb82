// The explorer: holds the view, asks the server for what the view needs, and has the panels show
// it. Whatever a reader does changes the view and nothing else; `render` does the rest.
/* global switchTheme */

import { api, isVoid } from "./api.js";
import { layerName, showLayers, showScope, showWeights } from "./controls.js";
import { byId, element } from "./dom.js";
import { showHeat } from "./heat.js";
import { takeKeyFromAddress } from "./key.js";
import { say, switchLanguage, translatePage } from "./language.js";
import { redrawWords, load as loadWords, startBrowsing } from "./browse.js";
import { csv, download, json, textFile } from "./export.js";
import { UseMap } from "./map.js";
import { Panel } from "./panel.js";
import { picture } from "./picture.js";
import { place } from "./placing.js";
import { inContext, prose } from "./prose.js";
import { showSenses } from "./senses.js";
import { showStatic, showUses, signUses } from "./uses.js";
import { isEmpty, readView, START, viewAddress } from "./view.js";
import { pressWord, showSubstitutes, showWords } from "./words.js";

const SHOWN = 10; // nearest uses
const STEP = 50; // that "More", or scrolling to the end, adds
const MOST = 1000; // as many as the server gives
const FEW = 20; // uses of a word that hardly show more than one sense
const SUBSTITUTES = 8; // in one line
const EXAMPLES = [ // where there is no index; otherwise its own text has them
  ["The boat was tied to the bank of the river .", 6],
  ["She opened an account at the bank .", 6],
  ["He scored in the first play of the game .", 5],
  ["Her new play opened at a theater in London .", 2],
  ["The prisoner was alone in his cell .", 6],
  ["Each cell of the body has a nucleus .", 1],
].map(([text, position]) => ({ words: text.split(" "), position }));

let view = START;
let info = null; // of the server, once it has told
let asked = { about: "", shown: SHOWN }; // more uses are shown of this sentence and word only

function shown() {
  const about = JSON.stringify([view.sentence, view.position]);
  if (about !== asked.about) asked = { about, shown: SHOWN };
  return asked.shown;
}

const inside = (id, selector) => byId(id).querySelector(selector);

/** Change the view and the address with it; a small change is not a step for Back. */
function go(change, { small = false, focusWords = false, written = null } = {}) {
  view = { ...view, ...change };
  fillIn(change, written);
  const address = viewAddress(view);
  const step = !small && address !== location.hash;
  history[step ? "pushState" : "replaceState"](null, "", address);
  render(focusWords);
}

/** `written` is the sentence as its text has it, if that is known. */
function fillIn({ sentence, other }, written = null) {
  if (sentence !== undefined) {
    byId("sentence").value = written ?? prose(sentence);
    byId("browse").open = isEmpty(sentence);
  }
  if (other !== undefined) byId("other").value = prose(other);
}

/** Make a use the query; one chosen from a list, which is then another, hands on the focus. */
const choose = (use, options) =>
  go({ sentence: use.words, position: use.position }, { ...options, written: use.text });
const chooseListed = (use) => choose(use, { focusWords: true });
const actions = { choose: chooseListed, compare: (use) => go({ other: use.words }) };

/** Begin with a word of the index: with the use that is most typical of its first sense. */
async function chooseWord(word) {
  try {
    const { senses } = await api.senses({ word, layer: layer() });
    chooseListed(senses[0].typical[0]);
  } catch (error) {
    complain(error.message);
  }
}

// What the view means on this server ------------------------------------------------------------

const words = () => splitting.answer?.words ?? [];
const word = () => words()[view.position];
const layers = () => info.index?.layers ?? [];
const layer = () => (layers().includes(view.layer) ? view.layer : topLayer());

/** Where context tells most: the lens, the top layer, or the mix if that is all the index has. */
const topLayer = () => layers().findLast((layer) => layer !== "mix") ?? "mix";

/** Any mix can be made where every layer was kept; sliders all at zero count as equal. */
const canMix = () => layers().filter((layer) => layer !== "meaning").length > info.n_layers;
const usable = () => view.weights?.length === info.n_layers && view.weights.some((w) => w > 0);
const weights = () => (usable() ? view.weights : Array(info.n_layers).fill(1));

// Panels ----------------------------------------------------------------------------------------

const splitting = new Panel(byId("words"), splitSentence, ({ words }) => {
  showWords(byId("words"), words, (position) => go({ position }));
});
const substitutes = new Panel(byId("substitutes"), api.substitutes, (answer) =>
  showSubstitutes(inside("substitutes", "ol"), answer.substitutes));
const uses = new Panel(byId("near"), api.neighbors, showNeighbors);
const senses = new Panel(byId("senses"), api.senses, showMap);
const heat = new Panel(byId("heat"), api.similarity, (answer) => {
  const names = answer.layers.map((_, i, all) => layerName(i < all.length - 1 ? i : "mix"));
  if (answer.meaning) {
    answer = { ...answer, layers: [...answer.layers, answer.meaning] };
    names.push(layerName("meaning"));
  }
  showHeat(inside("heat", ".tables"), byId("readout"), answer, names);
});
const map = new UseMap(byId("map"), (use) => choose(use));

async function splitSentence(sentence, signal) {
  return typeof sentence === "string" ? api.words(sentence, signal) : { words: sentence };
}

/** Where the model can predict words. */
const substitutesQuestion = () =>
  info.substitutes && word() !== undefined
    ? { sentence: words(), position: view.position, top: SUBSTITUTES }
    : null;

function usesQuestion() {
  if (word() === undefined || !info.index) return null;
  const question = { sentence: words(), position: view.position, k: shown(), layer: layer() };
  if (layer() === "mix" && canMix()) question.weights = weights();
  return { ...question, same_word: !view.everywhere };
}

/** Only of a word that the index has, which its neighbours tell. */
function sensesQuestion() {
  if (!uses.answer || uses.answer.unknown) return null;
  const known = !view.everywhere || uses.answer.static.length > 0;
  return known ? { word: word(), layer: layer() } : null;
}

const heatQuestion = () =>
  isEmpty(view.other) || !words().length
    ? null
    : { a: words(), b: view.other, weights: weights() };

const isQuery = (use) =>
  use.position === view.position && use.words.join(" ") === words().join(" ");

function showNeighbors({ neighbors, static: similar, unknown }) {
  byId("uses-title").textContent = (view.everywhere ? say.nearestAny : say.nearest)(word());
  byId("static-title").textContent = say.static(word());
  byId("none").hidden = neighbors.length > 0;
  inside("none", "p").textContent = (unknown ? say.notIndexed : say.noOther)(word());
  byId("more").hidden = neighbors.length < shown() || shown() >= MOST;
  byId("tools").hidden = neighbors.length === 0;
  listUses();
  showStatic(inside("static", "ol"), similar.slice(0, SHOWN));
  byId("static").hidden = similar.length === 0;
  relate();
}

function showMap(answer) {
  const title = say.map(answer.word, answer.n_uses);
  byId("senses").hidden = answer.n_uses === 0;
  byId("map-title").textContent = title;
  const few = answer.senses.length === 1 && answer.n_uses < FEW;
  byId("senses-title").textContent = say.senses(answer.senses.length);
  byId("senses-hint").textContent = few ? say.fewUses : say.sensesHint;
  showSenses(inside("senses", "ul"), answer.senses, (sense) => map.single(sense), actions);
  map.show(answer.map, title);
  relate();
}

/** The nearest uses with their senses, in the order that is chosen. */
function nearest() {
  const sense = new Map((senses.answer?.map ?? []).map((use) => [use.id, use.sense]));
  const near = (uses.answer?.neighbors ?? []).map((use) => ({ ...use, sense: sense.get(use.id) }));
  const order = ORDERS[byId("sort").value];
  return order ? near.toSorted(order) : near;
}

const ORDERS = {
  sense: (a, b) => (a.sense ?? 99) - (b.sense ?? 99) || b.score - a.score,
  place: (a, b) => (a.file ?? "").localeCompare(b.file ?? "") || a.line - b.line || a.id - b.id,
};

const listUses = () => showUses(inside("uses", "ol"), nearest(), actions);

/** More of the nearest uses, if there are more. */
function showMore() {
  if (byId("more").hidden || byId("near").ariaBusy === "true") return;
  asked.shown = Math.min(MOST, asked.shown + STEP);
  render();
}

/** A list that is scrolled to its end goes on. */
function scrolled({ target }) {
  if (target.scrollTop + target.clientHeight >= target.scrollHeight - 4) showMore();
}

/** Tell each list what the other knows: neighbours their sense, the map which uses are near. */
function relate() {
  const points = senses.answer?.map ?? [];
  const near = uses.answer?.neighbors ?? [];
  if (byId("sort").value === "sense") listUses();
  signUses(inside("uses", "ol"), new Map(points.map((use) => [use.id, use.sense])));
  const known = points.find(isQuery);
  map.ring(new Set(near.map((use) => use.id)), known?.id);
  showOwn(known ? null : place(near.slice(0, SHOWN), points));
}

/** The first of the words that tell a sense, in brackets, if there are any. */
const shortName = ({ characteristic: words }) => (words.length ? ` (${words.slice(0, 3).join(", ")})` : "");

/** Where the reader's sentence belongs, and how many of its nearest uses say so. */
function showOwn(own) {
  const found = senses.answer?.senses ?? [];
  const told = own && found.length > 1 ? say.own(own, shortName(found[own.sense])) : "";
  byId("own").textContent = told;
  byId("own").hidden = !told;
  map.own(own, told || say.ownMark);
}

/** The listed uses as a file; senses count from 1 there, as they do on the page. */
function save(kind) {
  const listed = nearest().map(({ id, sense, ...use }) =>
    ({ ...use, sense: sense === undefined ? null : sense + 1 }));
  const query = { words: words(), position: view.position, layer: layer() };
  const file = kind === "csv"
    ? textFile("text/csv", csv(listed)) : textFile("application/json", json(query, listed));
  download(fileName("uses", kind), file);
}

const fileName = (what, kind) =>
  `${what}-of-${word().replace(/[^\p{L}\p{N}]/gu, "_")}.${kind}`;

const savePicture = async () => download(fileName("map", "png"),
  await picture(map, byId("map-title").textContent, senses.answer.senses));

// The page --------------------------------------------------------------------------------------

/** Whether the reader has gone to another field meanwhile, which is theirs to stay in. */
const movedOn = (from) => ![from, document.body].includes(document.activeElement);

async function render(focusWords = false) {
  const from = document.activeElement;
  byId("notice").hidden = true;
  byId("start").hidden = !isEmpty(view.sentence);
  try {
    info ??= await api.info();
    showInfo();
    if (isEmpty(view.sentence)) await showExamples();
    await splitting.load(isEmpty(view.sentence) ? null : view.sentence);
    pressWord(byId("words"), view.position);
    if (focusWords && !movedOn(from)) inside("words", "[tabindex='0']")?.focus();
    showControls();
    showUnreadable();
    await Promise.all([
      substitutes.load(substitutesQuestion()), loadNear(), heat.load(heatQuestion()),
    ]);
    showUnreadable();
  } catch (error) {
    if (!isVoid(error)) complain(error.message);
  }
}

async function loadNear() {
  await uses.load(usesQuestion());
  await senses.load(sensesQuestion());
}

function complain(message) {
  inside("notice", "p").textContent = message;
  byId("notice").hidden = false;
}

/** Whether the model can read the sentences; each answer tells of its own. */
function showUnreadable() {
  const told = [splitting, uses, heat].map((panel) => panel.answer?.unreadable).find(Boolean);
  byId("unreadable").hidden = !told;
  byId("unreadable").textContent = told ? say.unreadable(told.share) : "";
}

function showInfo() {
  const about = [say.about(info), info.index && say.aboutIndex(info.index)];
  byId("about").textContent = about.filter(Boolean).join(" · ");
  byId("status").textContent = info.index ? "" : say.noIndex;
  if (byId("browse").hidden && info.index) {
    byId("browse").hidden = false;
    byId("browse").open = isEmpty(view.sentence);
    loadWords();
  }
  inside("sort", "[value=place]").hidden = !info.index?.origins;
  byId("copy-link").hidden = isEmpty(view.sentence) || !navigator.clipboard;
  byId("compare").hidden = isEmpty(view.sentence);
}

/** The controls stay as they are under a reader's hands, which have set them already. */
function showControls() {
  const controls = byId("controls");
  const clickable = info.index || info.substitutes;
  byId("choose").hidden = !words().length || word() !== undefined || !clickable;
  controls.hidden = word() === undefined || !info.index;
  byId("weights").hidden = layer() !== "mix" || !canMix();
  if (controls.hidden || controls.contains(document.activeElement)) return;
  showLayers(byId("layers"), layers(), layer(), info.context_free, (layer) => go({ layer }));
  showWeights(byId("weights"), weights(), (weights) => go({ weights }, { small: true }));
  showScope(byId("scope"), word(), view.everywhere, (everywhere) => go({ everywhere }));
}

/** Sentences of the indexed text, or some of our own where there is no index. */
async function showExamples() {
  if (inside("start", "li")) return;
  const { examples } = info.index ? await api.examples() : { examples: EXAMPLES };
  inside("start", "ul").replaceChildren(...examples.map((use) =>
    element("li", {}, element("button", {
      type: "button", class: "use context", onclick: () => chooseListed(use),
    }, ...inContext(use)))));
}

function restore() {
  if (byId("controls").contains(document.activeElement)) document.activeElement.blur();
  takeKeyFromAddress();
  view = readView();
  fillIn(view);
  render();
}

function translate() {
  translatePage();
  redrawWords();
  for (const panel of [uses, senses, heat]) panel.redraw();
}

function listen() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    go({ sentence: byId("sentence").value.trim(), position: null }, { focusWords: true });
  });
  inside("compare", "form").addEventListener("submit", (event) => {
    event.preventDefault();
    go({ other: byId("other").value.trim() });
  });
  inside("notice", "button").addEventListener("click", () => render());
  inside("none", "button").addEventListener("click", () => go({ everywhere: true }));
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("more").addEventListener("click", showMore);
  inside("uses", "ol").addEventListener("scroll", scrolled);
  byId("sort").addEventListener("change", () => {
    listUses();
    relate();
  });
  for (const kind of ["csv", "json"]) byId(kind).addEventListener("click", () => save(kind));
  byId("png").addEventListener("click", savePicture);
  byId("theme").addEventListener("click", switchTheme);
  startBrowsing(chooseWord);
  byId("zoom-in").addEventListener("click", () => map.zoomIn());
  byId("zoom-out").addEventListener("click", () => map.zoomOut());
  byId("zoom-all").addEventListener("click", () => map.showAll());
  byId("language").addEventListener("click", () => {
    switchLanguage();
    translate();
    render();
  });
  byId("copy-link").addEventListener("click", copyLink);
  document.addEventListener("busy", (event) => (byId("status").textContent = event.detail));
  addEventListener("popstate", restore);
}

async function copyLink() {
  const copied = await navigator.clipboard.writeText(location.href).then(() => true, () => false);
  byId("status").textContent = copied ? say.copied : location.href;
}

listen();
translate();
restore();
