/** Tells how far a set-up is, stage by stage; the stage that is running when something fails is the one that failed. */
import type { RemoteStage } from '@tpulab/protocol';

/** Stages of a set-up in their order, with what people read. */
export const STAGE_TITLES = {
  check: 'Checks',
  node: 'Node',
  bridge: 'Kernel bridge',
  uv: 'uv',
  python: 'Python',
  environment: 'Environment',
  gateway: 'Start'
} as const;
export type StageName = keyof typeof STAGE_TITLES;

export interface RunningStage {
  /** What it is at now; `fraction` 0 to 1 where that is known. */
  at(detail: string | null, fraction?: number | null): void;
}

export class StageReporter {
  readonly #tell: (stage: RemoteStage) => void;

  constructor(tell: (stage: RemoteStage) => void) {
    this.#tell = tell;
  }

  /** `work` says in the end what was done, for people. */
  async run<Value>(
    name: StageName,
    work: (stage: RunningStage) => Promise<{ readonly value: Value; readonly detail: string | null }>,
    title: string = STAGE_TITLES[name]
  ): Promise<Value> {
    let last: string | null = null;
    const tell = (state: RemoteStage['state'], detail: string | null, fraction: number | null): void =>
      this.#tell({ name, title, state, detail, fraction });
    tell('running', null, null);
    try {
      const { value, detail } = await work({
        at: (text, fraction = null) => {
          last = text;
          tell('running', text, fraction === null ? null : Math.min(1, Math.max(0, fraction)));
        }
      });
      tell('done', detail, 1);
      return value;
    } catch (error) {
      tell('failed', error instanceof Error ? error.message : last, null);
      throw error;
    }
  }

  skip(name: StageName, detail: string, title: string = STAGE_TITLES[name]): void {
    this.#tell({ name, title, state: 'skipped', detail, fraction: null });
  }
}
