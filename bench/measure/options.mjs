// @ts-check
/** Options of all benchmarks with servers. */
import { parseArgs } from 'node:util';

/**
 * @typedef {object} Options
 * @property {readonly string[]} peers names as in `servers/open-servers.mjs`
 * @property {number | null} samples
 * @property {boolean} quick a short run: fewer samples of the same
 * @property {boolean} save
 */

/**
 * @param {readonly string[]} defaultPeers
 * @returns {Options}
 */
export function readOptions(defaultPeers) {
  const { values } = parseArgs({
    options: {
      peers: { type: 'string' },
      samples: { type: 'string' },
      quick: { type: 'boolean', default: false },
      'no-save': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false }
    }
  });
  if (values.help) {
    console.log(
      `Options: --peers NAME,NAME or none (default: ${defaultPeers.join(',') || 'none'}), --samples N, --quick, --no-save.`
    );
    process.exit(0);
  }
  const samples = values.samples === undefined ? null : Number(values.samples);
  if (samples !== null && (!Number.isInteger(samples) || samples < 1)) {
    throw new Error('--samples wants a whole number above 0.');
  }
  const named = values.peers === undefined ? defaultPeers : values.peers.split(',');
  return {
    peers: named.filter(name => name !== '' && name !== 'none'),
    samples,
    quick: values.quick,
    save: !values['no-save']
  };
}
