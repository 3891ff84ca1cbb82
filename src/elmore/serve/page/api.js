// The server's answers, and what to do when they do not come: wait when it is busy, ask for the
// key when it wants one, and say the rest as one kind of error.

import { askForKey, headers } from "./key.js";
import { say } from "./language.js";

const RETRIES = 3; // after as many 429s we tell the reader instead of waiting on
const LONGEST_WAIT = 10; // seconds

/** A request that failed, said so that a reader can do something about it. */
export class Failure extends Error {
  constructor(message, status = null) {
    super(message);
    this.status = status;
  }
}

export const api = {
  info: (signal) => get("info", signal),
  words: (text, signal) => post("words", { text }, signal),
  neighbors: (query, signal) => post("neighbors", query, signal).catch(asUnknown),
  substitutes: (place, signal) => post("substitutes", place, signal),
  similarity: (pair, signal) => post("similarity", pair, signal),
  examples: (signal) => get("index/examples", signal),
  passage: (id) => get(`index/uses/${id}`),
  vocabulary: (asked, signal) => get(`index/words?${new URLSearchParams(asked)}`, signal),
  senses: ({ word, layer }, signal) =>
    get(`senses?word=${encodeURIComponent(word)}&layer=${layer}`, signal),
};

/** Requests of one panel: a new one makes the one before it void. */
export function onlyLatest() {
  let controller = new AbortController();
  return (ask) => {
    controller.abort();
    controller = new AbortController();
    return ask(controller.signal);
  };
}

export const isVoid = (error) => error.name === "AbortError";

/** A word that the index does not have is an answer, not a failure. */
function asUnknown(error) {
  if (error.status !== 404) throw error;
  return { neighbors: [], static: [], unknown: true };
}

const get = (path, signal) => request(path, { signal });

const post = (path, body, signal) =>
  request(path, { signal, method: "POST", body: JSON.stringify(body) });

async function request(path, options) {
  for (let busy = 0; ; ) {
    const response = await send(path, options);
    if (response.ok) return response.json();
    if (response.status === 401) {
      if (!(await askForKey())) throw new Failure(say.keyRefused);
    } else if (response.status === 429 && busy++ < RETRIES) {
      await waitFor(response, options.signal);
    } else {
      throw new Failure(await explain(response), response.status);
    }
  }
}

async function send(path, options) {
  try {
    return await fetch(path, { ...options, headers: headers() });
  } catch (error) {
    if (isVoid(error)) throw error;
    throw new Failure(say.gone);
  }
}

/** As long as the server says, counted down in the status line. */
async function waitFor(response, signal) {
  const asked = Number(response.headers.get("Retry-After")) || 1;
  for (let left = Math.min(asked, LONGEST_WAIT); left > 0 && !signal?.aborted; left--) {
    document.dispatchEvent(new CustomEvent("busy", { detail: say.busy(left) }));
    await new Promise((done) => setTimeout(done, 1000));
  }
  document.dispatchEvent(new CustomEvent("busy", { detail: "" }));
}

async function explain(response) {
  if (response.status === 429) return say.stillBusy;
  if (response.status === 413) return say.tooLarge;
  if (response.status >= 500) return say.failed;
  const answer = await response.json().catch(() => null);
  return `${say.refused} ${answer?.error?.message ?? response.status}`;
}
