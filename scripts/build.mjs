// @ts-check
/** `npm run build`: compiles the TypeScript packages and bundles the labextension. */
import { build } from './setup/build.mjs';
import { main } from './setup/main.mjs';
import { StagePrinter } from './setup/stage-printer.mjs';
import { removeStamp } from './setup/stamp.mjs';
import { runStage } from './setup/stage.mjs';

await main(async signal => {
  const printer = new StagePrinter();
  // Asked for, so done: the compiler itself leaves out what has not changed.
  await removeStamp(build.id);
  const detail = (/** @type {string} */ text) => printer.detail(text);
  const python = () => Promise.reject(new Error('the build needs no Python'));
  await runStage({ ...build, isThere: async () => false }, { signal, detail, python }, printer);
});
