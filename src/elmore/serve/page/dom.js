// Elements without markup: what comes from a corpus or a server only ever becomes a text node,
// and no style attribute is written, so that the page runs under a strict content policy.

const SVG = "http://www.w3.org/2000/svg";

export const element = (tag, attributes, ...children) =>
  build(document.createElement(tag), attributes, children);

export const drawing = (tag, attributes, ...children) =>
  build(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Attributes by name; `onclick` and the like are listeners; null and false leave one out. */
function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
