// @ts-check
/** `npm start`. An old Node is told so before it reads what it may not understand. */
import { main } from './setup/main.mjs';
import { requireNode } from './setup/node-version.mjs';

await main(async signal => {
  requireNode(process.versions.node);
  const { start } = await import('./start/start.mjs');
  await start(signal, process.argv.slice(2));
});
