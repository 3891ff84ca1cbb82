// The map as a PNG: what is seen of it now, under its title, with the senses below.

import { senseName } from "./senses.js";
import { STAR } from "./map.js";

const SCALE = 2; // pixels of the file to a pixel of the screen
const HEAD = 40;
const LINE = 24; // of the list of senses
const SIDE = 16;

/** Promises a PNG of a `UseMap` that shows these senses. */
export function picture(map, title, senses) {
  const canvas = document.createElement("canvas");
  const height = HEAD + map.height + LINE * senses.length + SIDE;
  [canvas.width, canvas.height] = [SCALE * map.width, SCALE * height];
  const pen = canvas.getContext("2d");
  const { color, backgroundColor, fontFamily } = getComputedStyle(map.frame);
  pen.scale(SCALE, SCALE);
  pen.fillStyle = backgroundColor;
  pen.fillRect(0, 0, map.width, height);
  const write = (text, x, y, font) => {
    Object.assign(pen, { fillStyle: color, font: `${font} ${fontFamily}` });
    pen.fillText(text, x, y, map.width - x - SIDE);
  };
  write(title, SIDE, HEAD / 2 + 6, "600 16px");
  pen.save();
  pen.beginPath();
  pen.rect(0, HEAD, map.width, map.height);
  pen.clip();
  map.marks.forEach((mark, i) => stamp(pen, mark, map.places[i], HEAD));
  map.rings.forEach(({ node, i }) => stamp(pen, node, map.places[i], HEAD));
  if (map.ownMark) stamp(pen, map.ownMark.node, map.ownMark.place, HEAD);
  pen.restore();
  senses.forEach((sense, i) => {
    const y = HEAD + map.height + LINE * (i + 0.5) + 4;
    const mark = map.marks[map.uses.findIndex((use) => use.sense === i)];
    if (mark) stamp(pen, mark, [SIDE + 4, y], 0);
    write(senseName(sense, i), SIDE + 18, y + 5, "13px");
  });
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** Draw a mark of the map as it looks on the page. */
function stamp(pen, node, [x, y], down) {
  const style = getComputedStyle(node);
  pen.save();
  pen.translate(x, y + down);
  pen.globalAlpha = Number(style.opacity);
  const path = shape(node);
  if (style.fill !== "none") {
    pen.fillStyle = style.fill;
    pen.globalAlpha *= Number(style.fillOpacity);
    pen.fill(path);
    pen.globalAlpha = Number(style.opacity);
  }
  pen.strokeStyle = style.stroke;
  pen.lineWidth = parseFloat(style.strokeWidth);
  pen.stroke(path);
  pen.restore();
}

function shape(node) {
  if (node.localName === "polygon") return new Path2D(`M${STAR}Z`);
  if (node.localName === "path") return new Path2D(node.getAttribute("d"));
  const path = new Path2D();
  path.arc(0, 0, Number(node.getAttribute("r")), 0, 2 * Math.PI);
  return path;
}
