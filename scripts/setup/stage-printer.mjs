// @ts-check
/** Shows the stages of the set-up: one aligned line each, with a spinner where the output is a terminal. */

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const TITLE_WIDTH = 30;

/**
 * @typedef {object} Out
 * @property {boolean} [isTTY]
 * @property {number} [columns]
 * @property {(text: string) => unknown} write
 */

export class StagePrinter {
  #out;
  #now;
  /** @type {{ title: string, since: number, detail: string, timer: NodeJS.Timeout | null, frame: number } | null} */
  #stage = null;

  /**
   * @param {Out} [out]
   * @param {() => number} [now] milliseconds
   */
  constructor(out = process.stdout, now = () => performance.now()) {
    this.#out = out;
    this.#now = now;
  }

  /** @param {string} title */
  begin(title) {
    this.#stage = { title, since: this.#now(), detail: '', timer: null, frame: 0 };
    if (this.#out.isTTY) {
      this.#stage.timer = setInterval(() => this.#draw(), 100);
      this.#draw();
    } else {
      this.#out.write(`  … ${title}\n`);
    }
  }

  /**
   * What the stage is at. Only a terminal shows it: elsewhere it would be many lines.
   *
   * @param {string} text
   */
  detail(text) {
    if (this.#stage) this.#stage.detail = text;
  }

  /** @param {string} [note] for example `already there` */
  done(note) {
    this.#finish('✓', note);
  }

  failed() {
    this.#finish('✗');
  }

  /** @param {string} text */
  line(text) {
    this.#out.write(`${text}\n`);
  }

  /**
   * @param {string} mark
   * @param {string} [note]
   */
  #finish(mark, note) {
    const stage = this.#stage;
    if (!stage) return;
    if (stage.timer) clearInterval(stage.timer);
    this.#stage = null;
    const time = formatSeconds(this.#now() - stage.since).padStart(8);
    const line = `  ${mark} ${stage.title.padEnd(TITLE_WIDTH)}${time}${note ? `   ${note}` : ''}`;
    this.#out.write(this.#out.isTTY ? `\r\x1b[2K${line}\n` : `${line}\n`);
  }

  #draw() {
    const stage = this.#stage;
    if (!stage) return;
    stage.frame = (stage.frame + 1) % FRAMES.length;
    const time = formatSeconds(this.#now() - stage.since).padStart(8);
    const line = `  ${FRAMES[stage.frame] ?? ' '} ${stage.title.padEnd(TITLE_WIDTH)}${time}   ${stage.detail}`;
    this.#out.write(`\r\x1b[2K${line.slice(0, (this.#out.columns ?? 80) - 1)}`);
  }
}

/** @param {number} ms */
export function formatSeconds(ms) {
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`;
}
