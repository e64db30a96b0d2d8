// @ts-check
/** `node scripts/package/bundle.mjs FOLDER`: the bridge as a folder that needs nothing but Node (`npm run package` makes all packages). */
import path from 'node:path';
import { main } from '../setup/main.mjs';
import { SetupProblem } from '../setup/setup-problem.mjs';
import { makeBridgeBundle } from './bridge-bundle.mjs';

await main(async signal => {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new SetupProblem('unknown', 'Name the folder to make.');
  await makeBridgeBundle(path.resolve(folder), { signal });
});
