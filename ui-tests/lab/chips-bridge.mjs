// @ts-check
/**
 * `tpulab serve` on a machine with chips: `node chips-bridge.mjs ROOT serve …`. Everything is the real gateway, but Linux's files
 * about chips and the processes that hold them are read below ROOT instead of `/`.
 */
import { parseArgs } from 'node:util';
import { openLog } from '../../kernel-bridge/lib/cli/serve-gateway.js';
import { gatewayOptions } from '../../kernel-bridge/lib/gateway/gateway-settings.js';
import { resolveSettings } from '../../kernel-bridge/lib/config/resolve-settings.js';
import { startGateway } from '../../kernel-bridge/lib/gateway/gateway.js';
import { prepareStateFolder } from '../../kernel-bridge/lib/gateway/state-folder.js';

const [machineRoot, , ...rest] = process.argv.slice(2);
const { values } = parseArgs({
  args: rest,
  options: {
    port: { type: 'string' },
    'state-dir': { type: 'string' },
    'root-dir': { type: 'string' },
    'allow-origin': { type: 'string', multiple: true }
  }
});
const stateDir = values['state-dir'] ?? '';
const { values: settings } = resolveSettings({
  flags: {
    port: Number(values.port),
    stateDir,
    rootDir: values['root-dir'],
    allowedOrigins: values['allow-origin']
  },
  env: process.env,
  file: new Map()
});
await prepareStateFolder(stateDir);
const gateway = await startGateway({
  ...gatewayOptions(settings),
  machineRoot,
  log: openLog(stateDir, 'info')
});
await gateway.ready;
process.once('SIGTERM', () => void gateway[Symbol.asyncDispose]());
console.log(JSON.stringify({ url: gateway.url, pid: process.pid }));
