// A part of the page that shows one answer at a time: hidden until asked, visibly busy while the
// answer is under way, and only ever showing the answer to the last question.

import { isVoid, onlyLatest } from "./api.js";

export class Panel {
  /** `ask(question, signal)` gets the answer, `show(answer)` puts it on the page. */
  constructor(node, ask, show) {
    Object.assign(this, { node, ask, show, latest: onlyLatest() });
    this.asked = "null";
    this.answer = null;
  }

  /** Ask, unless this is what was asked last; null hides the panel. */
  load(question) {
    const asked = JSON.stringify(question);
    if (asked !== this.asked) {
      this.asked = asked;
      this.node.hidden = question === null;
      this.pending = this.fetch(question);
    }
    return this.pending;
  }

  async fetch(question) {
    this.node.setAttribute("aria-busy", question !== null);
    try {
      this.answer = await this.latest((signal) => question && this.ask(question, signal));
      this.redraw();
    } catch (error) {
      if (!isVoid(error)) this.fail();
      throw error;
    }
    this.node.setAttribute("aria-busy", "false");
  }

  /** Show nothing rather than an old answer; the same question may be asked again. */
  fail() {
    this.asked = null;
    this.answer = null;
    this.node.hidden = true;
    this.node.setAttribute("aria-busy", "false");
  }

  redraw() {
    if (this.answer) this.show(this.answer);
  }
}
