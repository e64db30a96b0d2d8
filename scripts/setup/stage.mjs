// @ts-check
/**
 * A stage of the setup: made from inputs, and skipped while they have not changed.
 *
 * @typedef {object} StageContext
 * @property {AbortSignal} signal
 * @property {(text: string) => void} detail the current action of the stage, shown on a terminal
 * @property {() => Promise<import('./find-python.mjs').Python>} python found at the first call
 *
 * @typedef {object} Stage
 * @property {string} id
 * @property {string} title
 * @property {readonly string[]} [after] ids of the stages whose results it needs, so that it may run beside all others; unless given,
 *   it runs alone, after all before it
 * @property {() => Promise<string>} fingerprint of all its inputs
 * @property {() => Promise<boolean>} isThere whether its result exists at all; quick
 * @property {(context: StageContext) => Promise<boolean>} [isRight] whether a result without a stamp equals the result
 *   of `make`, so that it is kept; may take a second
 * @property {(context: StageContext) => Promise<void>} make
 */
import { explainError } from './explain-failure.mjs';
import { Interrupted } from './setup-problem.mjs';
import { readStamp, removeStamp, writeStamp } from './stamp.mjs';

/**
 * @param {Stage} stage
 * @param {Omit<StageContext, 'detail'>} given
 * @param {import('./stage-printer.mjs').StagePrinter} printer
 * @returns {Promise<'made' | 'kept'>}
 */
export async function runStage(stage, given, printer) {
  const wanted = await stage.fingerprint();
  const there = await stage.isThere();
  const stamp = await readStamp(stage.id);
  if (there && stamp === wanted) return 'kept';
  const { detail, done, failed } = printer.begin(stage.title);
  const context = { ...given, detail };
  try {
    if (there && stamp === null && (await stage.isRight?.(context))) {
      await writeStamp(stage.id, wanted);
      done('already there');
      return 'kept';
    }
    await removeStamp(stage.id);
    await stage.make(context);
    await writeStamp(stage.id, wanted);
    done();
    return 'made';
  } catch (error) {
    failed(error instanceof Interrupted ? 'stopped' : undefined);
    throw explainError(error);
  }
}
