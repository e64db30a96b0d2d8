/** Progress reports of a creation. */
import { durationText } from '@tpulab/protocol';

export interface CreationProgress {
  /** A new stage begins: `making the environment`, `installing 62 packages`. */
  stage(text: string): void;
  /** A step within the stage: `downloading jaxlib (81.1 MiB)`. */
  detail(text: string): void;
  /** The latest stage has ended successfully. */
  stageDone(): void;
}

interface Out {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** Stages with their times, one line each; on a terminal the running stage shows its current step. */
export class ProgressLines implements CreationProgress {
  #stage: { text: string; since: number } | null = null;

  constructor(
    private readonly out: Out,
    private readonly now: () => number = () => performance.now()
  ) {}

  stage(text: string): void {
    this.stageDone();
    this.#stage = { text, since: this.now() };
    if (this.out.isTTY) this.out.write(`  ${text} …`);
    else this.out.write(`  ${text}\n`);
  }

  detail(text: string): void {
    if (!this.#stage || !this.out.isTTY) return;
    const line = `  ${this.#stage.text} … ${this.#seconds()}  ${text}`;
    this.out.write(`\r\x1b[2K${line.slice(0, (this.out.columns ?? 80) - 1)}`);
  }

  stageDone(): void {
    if (!this.#stage) return;
    const line = `  ${this.#stage.text}: ${this.#seconds()}`;
    this.out.write(this.out.isTTY ? `\r\x1b[2K${line}\n` : `${line}\n`);
    this.#stage = null;
  }

  /** The stage failed: its line stays, and the next text begins on a new line. */
  abandon(): void {
    if (this.#stage && this.out.isTTY) this.out.write('\n');
    this.#stage = null;
  }

  #seconds(): string {
    const elapsedMs = this.#stage ? this.now() - this.#stage.since : 0;
    return durationText(elapsedMs);
  }
}

/** All reports, each on its own line: for a program that parses them. */
export function everyLine(out: Out): CreationProgress & Pick<ProgressLines, 'abandon'> {
  const line = (text: string): void => void (text !== '' && out.write(`${text}\n`));
  return { stage: line, detail: line, stageDone: () => undefined, abandon: () => undefined };
}
