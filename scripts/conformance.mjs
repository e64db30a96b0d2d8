// @ts-check
/** `npm run conformance`. An old Node gets a message before it reads code that it may not understand. */
import { main } from './setup/main.mjs';
import { requireNode } from './setup/node-version.mjs';

await main(async signal => {
  requireNode(process.versions.node);
  const { conformance } = await import('./conformance/conformance.mjs');
  return conformance(signal, process.argv.slice(2));
});
