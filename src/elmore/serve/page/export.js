// The listed uses as a file: CSV for spreadsheets, JSON for programs. Files are made in the browser.

import { element } from "./dom.js";
import { inContext } from "./prose.js";

const quoted = (value) => `"${String(value).replaceAll('"', '""')}"`;
// A cell that begins like a formula is shown as text by spreadsheets if a quote stands before it.
const safe = (text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);

export function csv(uses) {
  const rows = uses.map(({ score, sense, file, line, ...use }) => {
    const [left, word, right] = inContext(use).map((part) => safe(part.textContent.trim()));
    return [score.toFixed(4), sense ?? "", left, word, right, safe(file ?? ""), line ?? ""];
  });
  const lines = [["cosine", "sense", "left", "word", "right", "file", "line"], ...rows];
  return `\ufeff${lines.map((row) => row.map(quoted).join(",")).join("\r\n")}\r\n`;
}

export const json = (query, uses) => `${JSON.stringify({ query, uses }, null, 1)}\n`;

export const textFile = (type, text) => new Blob([text], { type });

export function download(name, blob) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
