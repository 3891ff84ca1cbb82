// The server's key, when it wants one: from the link it was opened with (#key=…, removed from the
// address at once, so that no copied link carries it) or from a dialog; kept for this tab only.

import { byId } from "./dom.js";

const STORED = "elmore-key";

/** The key in the address, moved from there into the tab's storage. */
export function takeKeyFromAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  if (!fields.has("key")) return;
  sessionStorage.setItem(STORED, fields.get("key"));
  fields.delete("key");
  history.replaceState(null, "", `${location.pathname}#${fields}`);
}

export function headers() {
  const key = sessionStorage.getItem(STORED);
  const json = { "Content-Type": "application/json" };
  return key ? { ...json, Authorization: `Bearer ${key}` } : json;
}

let asking = null;

/** Whether the reader gave a key; requests refused together share one dialog. */
export function askForKey() {
  asking ??= openDialog().finally(() => (asking = null));
  return asking;
}

function openDialog() {
  const dialog = byId("key-dialog");
  byId("key-wrong").hidden = sessionStorage.getItem(STORED) === null;
  byId("key").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((answer) => {
    const closed = () => {
      const given = dialog.returnValue === "use" && byId("key").value !== "";
      if (given) sessionStorage.setItem(STORED, byId("key").value);
      answer(given);
    };
    dialog.addEventListener("close", closed, { once: true });
  });
}
