/** The stages of one attempt to connect, in the order in which they began, with how long each has taken. */
import type { RemoteStage } from '@tpulab/protocol';

export class StageList {
  #all: readonly RemoteStage[] = [];
  /** By name. */
  readonly #begunAt = new Map<string, number>();
  readonly #now: () => number;

  /** @param now in milliseconds, from any moment on */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  get all(): RemoteStage[] {
    return [...this.#all];
  }

  clear(): void {
    this.#all = [];
    this.#begunAt.clear();
  }

  /** Whether the stage is in another state than before. */
  put(stage: RemoteStage): boolean {
    const index = this.#all.findIndex(({ name }) => name === stage.name);
    const timed = this.#timed(stage);
    const before = this.#all[index];
    this.#all = before ? this.#all.with(index, timed) : [...this.#all, timed];
    return before?.state !== stage.state;
  }

  #timed(stage: RemoteStage): RemoteStage {
    const begunAt = this.#begunAt.get(stage.name);
    if (stage.state === 'running') {
      this.#begunAt.set(stage.name, begunAt ?? this.#now());
      return stage;
    }
    return begunAt === undefined ? stage : { ...stage, durationMs: Math.round(this.#now() - begunAt) };
  }
}
