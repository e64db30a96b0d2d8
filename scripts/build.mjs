// @ts-check
/** `npm run build`: compiles the TypeScript packages, bundles the labextension and the session page. */
import { build } from './setup/build.mjs';
import { main } from './setup/main.mjs';
import { sessionPage } from './setup/session-page.mjs';
import { StagePrinter } from './setup/stage-printer.mjs';
import { removeStamp } from './setup/stamp.mjs';
import { runStage } from './setup/stage.mjs';

await main(async signal => {
  const printer = new StagePrinter();
  // An explicit request always builds: the compiler itself skips unchanged files.
  const python = () => Promise.reject(new Error('the build needs no Python'));
  for (const stage of [build, sessionPage]) {
    await removeStamp(stage.id);
    await runStage({ ...stage, isThere: async () => false }, { signal, python }, printer);
  }
});
