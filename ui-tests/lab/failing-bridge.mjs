// @ts-check
/**
 * Replaces `tpulab` with a failing bridge: `node failing-bridge.mjs MODE serve …`.
 *
 * `refusing` reports that it is ready at an address where no server listens. `hanging` accepts every connection and never answers.
 * `halfHanging` answers the health check, so that it counts as ready, and hangs on everything else.
 */
import { createServer } from 'node:http';

const mode = process.argv[2];

const server = createServer((request, response) => {
  if (mode === 'halfHanging' && request.url?.startsWith('/bridge/v1/health')) {
    const health = {
      status: 'ok',
      version: '0.1.0',
      protocolVersion: 1,
      gatewayId: 'hanging',
      pid: process.pid,
      startedAt: new Date().toISOString(),
      kernels: 0
    };
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify(health));
  }
});

server.listen(0, '127.0.0.1', () => {
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  const ready = () =>
    console.log(JSON.stringify({ url: `http://127.0.0.1:${address.port}/`, pid: process.pid }));
  if (mode === 'refusing') {
    server.close(ready);
    // Alive, like a gateway whose port is blocked.
    setInterval(() => undefined, 60_000);
  } else {
    ready();
  }
});
process.on('SIGTERM', () => process.exit(0));
