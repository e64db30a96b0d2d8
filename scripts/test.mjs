// @ts-check
/** `npm test`. An old Node gets a message before it reads code that it may not understand. */
import { main } from './setup/main.mjs';
import { requireNode } from './setup/node-version.mjs';

await main(async signal => {
  requireNode(process.versions.node);
  const { test } = await import('./test/test.mjs');
  return test(signal, process.argv.slice(2));
});
