/** `<state>/notebook-runs/KEY.json`: a run that was started from here, so that it can be followed again, and how it ended. */
import { createHash } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { writeAtomically } from '../../platform/write-atomically.js';

/** A host of the slice was lost, and the notebook started again. */
const RunLoss = Type.Object({
  at: Type.String(),
  reason: Type.String(),
  kernelId: Type.String({ description: 'the kernel that ended' })
});

const RunRecord = Type.Object({
  notebook: Type.String({ description: 'absolute' }),
  remote: Type.Union([Type.String(), Type.Null()]),
  kernelId: Type.String(),
  sessionId: Type.String(),
  keepKernel: Type.Boolean(),
  startedAt: Type.String(),
  skipped: Type.Optional(Type.Integer({ description: 'cells with the tag skip-execution' })),
  /** Absent in those of earlier versions, which do not start again. */
  again: Type.Optional(
    Type.Object({
      kernelName: Type.String(),
      isPython: Type.Optional(Type.Boolean()),
      cells: Type.Array(
        Type.Object({
          id: Type.Union([Type.String(), Type.Null()]),
          source: Type.String(),
          mayRaise: Type.Optional(Type.Boolean({ description: 'its tag raises-exception' }))
        })
      ),
      most: Type.Integer({ description: 'maximum number of restarts' }),
      losses: Type.Array(RunLoss)
    })
  ),
  /** null: nobody has seen its end. */
  failure: Type.Union([Type.String(), Type.Null()]),
  endedAt: Type.Union([Type.String(), Type.Null()])
});
export type RunRecord = Static<typeof RunRecord>;

/** As a program reads it: without the code. */
export function shownRun({ again, ...record }: RunRecord): object {
  return { ...record, restarts: again?.losses ?? [], restartsAtMost: again?.most ?? 0 };
}

/** One for each notebook and machine: the last one. */
export class RunFile {
  readonly #folder: string;
  readonly #key: string;

  constructor(stateDir: string, notebook: string, remote: string | null) {
    this.#folder = path.join(stateDir, 'notebook-runs');
    this.#key = createHash('sha256')
      .update(JSON.stringify([notebook, remote]))
      .digest('hex')
      .slice(0, 16);
  }

  /** Held by the one who writes the outputs into the notebook. */
  get lockFile(): string {
    return path.join(this.#folder, `${this.#key}.lock`);
  }

  async read(): Promise<RunRecord | null> {
    const text = await readFile(this.#file, 'utf8').catch(() => null);
    if (text === null) return null;
    const record: unknown = JSON.parse(text);
    return Value.Check(RunRecord, record) ? record : null;
  }

  async write(record: RunRecord): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await writeAtomically(this.#file, JSON.stringify(record));
  }

  get #file(): string {
    return path.join(this.#folder, `${this.#key}.json`);
  }
}
