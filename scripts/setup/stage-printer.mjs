// @ts-check
/** Shows the stages of the setup: one aligned line each, with a spinner for those that run where the output is a terminal. */

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const TITLE_WIDTH = 30;

/**
 * @typedef {object} Out
 * @property {boolean} [isTTY]
 * @property {number} [columns]
 * @property {(text: string) => unknown} write
 */

/**
 * @typedef {object} Running
 * @property {string} title
 * @property {number} since
 * @property {string} detail
 *
 * @typedef {object} ShownStage
 * @property {(text: string) => void} detail the current action of the stage. Only a terminal shows it: elsewhere it would be many lines.
 * @property {(note?: string) => void} done for example `already there`
 * @property {(note?: string) => void} failed
 */

export class StagePrinter {
  #out;
  #now;
  /** @type {Set<Running>} */
  #running = new Set();
  /** @type {NodeJS.Timeout | undefined} */
  #timer;
  #frame = 0;

  /**
   * @param {Out} [out]
   * @param {() => number} [now] milliseconds
   */
  constructor(out = process.stdout, now = () => performance.now()) {
    this.#out = out;
    this.#now = now;
  }

  /**
   * @param {string} title
   * @returns {ShownStage} messages after its end are not shown
   */
  begin(title) {
    /** @type {Running} */
    const stage = { title, since: this.#now(), detail: '' };
    this.#running.add(stage);
    if (this.#out.isTTY) {
      this.#timer ??= setInterval(() => this.#draw(), 100);
      this.#draw();
    } else {
      this.#out.write(`  … ${title}\n`);
    }
    return {
      detail: text => void (stage.detail = text),
      done: note => this.#finish(stage, '✓', note),
      failed: note => this.#finish(stage, '✗', note)
    };
  }

  /** @param {string} text */
  line(text) {
    this.#out.write(`${text}\n`);
  }

  /**
   * @param {Running} stage
   * @param {string} mark
   * @param {string} [note]
   */
  #finish(stage, mark, note) {
    if (!this.#running.delete(stage)) return;
    if (this.#running.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    const line = `  ${mark} ${stage.title.padEnd(TITLE_WIDTH)}${this.#timeOf(stage)}${note ? `   ${note}` : ''}`;
    this.#out.write(this.#out.isTTY ? `\r\x1b[2K${line}\n` : `${line}\n`);
    if (this.#out.isTTY) this.#draw();
  }

  /** One line: the stage that has run longest, and the names of those beside it. */
  #draw() {
    const [stage, ...others] = this.#running;
    if (!stage) return;
    this.#frame = (this.#frame + 1) % FRAMES.length;
    const beside = others.map(({ title }) => `   + ${title}`).join('');
    const line = `  ${FRAMES[this.#frame] ?? ' '} ${stage.title.padEnd(TITLE_WIDTH)}${this.#timeOf(stage)}   ${stage.detail}${beside}`;
    this.#out.write(`\r\x1b[2K${line.slice(0, (this.#out.columns ?? 80) - 1)}`);
  }

  /** @param {Running} stage */
  #timeOf(stage) {
    return formatSeconds(this.#now() - stage.since).padStart(8);
  }
}

/** @param {number} ms */
export function formatSeconds(ms) {
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`;
}
