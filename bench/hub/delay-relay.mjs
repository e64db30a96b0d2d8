// @ts-check
/**
 * Passes TCP connections on and delays all bytes, in each direction by half of a round trip: `node delay-relay.mjs PORT` prints the port on which
 * it listens, and each line on its standard input is a new round trip in milliseconds. It simulates the path to a
 * distant machine where the operating system has no netem; unlike a real path, it neither narrows TCP's window nor loses packets.
 */
import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';

const to = Number(process.argv[2]);
let oneWayMs = 0;
createInterface({ input: process.stdin })
  .on('line', line => (oneWayMs = Number(line) / 2))
  .on('close', () => process.exit(0));

const server = createServer(client => {
  const far = connect(to, '127.0.0.1');
  pass(client, far);
  pass(far, client);
});
server.listen(0, '127.0.0.1', () => {
  console.log(/** @type {import('node:net').AddressInfo} */ (server.address()).port);
});

/**
 * Keeps the order: a chunk is never due before an earlier one.
 * @param {import('node:net').Socket} from
 * @param {import('node:net').Socket} into
 */
function pass(from, into) {
  let last = 0;
  /** @param {() => void} act */
  const later = act => {
    if (oneWayMs === 0 && last === 0) return act();
    const now = performance.now();
    last = Math.max(last, now + oneWayMs);
    setTimeout(act, last - now);
  };
  from.setNoDelay(true);
  from.on('data', bytes => later(() => void into.write(bytes)));
  from.on('end', () => later(() => into.end()));
  from.on('error', () => into.destroy());
  from.on('close', () => later(() => into.destroy()));
}
