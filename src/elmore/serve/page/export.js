// The listed uses as a file: CSV for spreadsheets, JSON for programs. Made in the browser.

import { element } from "./dom.js";

const quoted = (value) => `"${String(value).replaceAll('"', '""')}"`;
// A cell that begins like a formula is shown as text by spreadsheets if a quote stands before it.
const safe = (text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);

export function csv(uses) {
  const rows = uses.map(({ score, sense, words, position }) => [
    score.toFixed(4), sense ?? "", safe(words.slice(0, position).join(" ")), safe(words[position]),
    safe(words.slice(position + 1).join(" ")),
  ]);
  const lines = [["cosine", "sense", "left", "word", "right"], ...rows];
  return `\ufeff${lines.map((row) => row.map(quoted).join(",")).join("\r\n")}\r\n`;
}

export const json = (query, uses) => `${JSON.stringify({ query, uses }, null, 1)}\n`;

export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
