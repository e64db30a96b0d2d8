// @ts-check
/** The setup of `npm start` and `npm test`: its stages, each skipped while it is up to date. */
import { build } from './build.mjs';
import { bridgeBundle } from './bridge-bundle.mjs';
import { explainError } from './explain-failure.mjs';
import { findPython } from './find-python.mjs';
import { jaxEnvironment } from './kernel-environment.mjs';
import { labEnvironment, linkedExtension } from './lab-environment.mjs';
import { requireNode } from './node-version.mjs';
import { npmPackages } from './npm-packages.mjs';
import { runStages } from './run-stages.mjs';
import { sessionPage } from './session-page.mjs';
import { withSetupLock } from './setup-lock.mjs';
import { runStage } from './stage.mjs';
import { formatSeconds, StagePrinter } from './stage-printer.mjs';
import { testEnvironments } from './test-environments.mjs';
import { checkTools, uvTool } from './tools.mjs';

export const START_STAGES = Object.freeze([
  npmPackages,
  uvTool,
  labEnvironment,
  build,
  sessionPage,
  bridgeBundle,
  jaxEnvironment,
  linkedExtension
]);
export const TEST_STAGES = Object.freeze([...START_STAGES, checkTools, ...testEnvironments]);

/**
 * @param {object} options
 * @param {readonly import('./stage.mjs').Stage[]} options.stages
 * @param {AbortSignal} options.signal
 * @param {StagePrinter} [options.printer]
 */
export async function setUp({ stages, signal, printer = new StagePrinter() }) {
  requireNode(process.versions.node);
  const since = performance.now();
  /** @type {Promise<import('./find-python.mjs').Python> | undefined} */
  let python;
  const findOnce = () => (python ??= findPython(signal));
  printer.line('Setup');
  try {
    await withSetupLock(
      async () => {
        const made = await runStages(stages, signal, (stage, stageSignal) =>
          runStage(stage, { signal: stageSignal, python: findOnce }, printer)
        );
        const time = formatSeconds(performance.now() - since);
        printer.line(made === 0 ? `  ✓ everything is up to date (${time})` : `  ✓ ready after ${time}`);
      },
      signal,
      pid => printer.line(`  Another setup is running here (process ${pid}); waiting for it.`)
    );
  } catch (error) {
    throw explainError(error);
  }
}
