// @ts-check
/** `npm start`. An old Node gets a message before it reads code that it may not understand. */
import { main } from './setup/main.mjs';
import { requireNode } from './setup/node-version.mjs';

await main(async signal => {
  requireNode(process.versions.node);
  const { start } = await import('./start/start.mjs');
  await start(signal, process.argv.slice(2));
});
