// @ts-check
/**
 * Catching up with a long journal: a client attaches behind a million messages; its first output, its rate, the gateway's memory.
 *
 * `npm run bench -- catch-up [--samples N] [--quick] [--no-save]`. The journal is written by the bridge's own writer under the id of a kernel
 * that is then started; no peer has a journal to catch up with, so there is no comparison. Writes `bench/results/catch-up.json`.
 */
import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { JournalWriter, RecordChannel } from '../../kernel-bridge/lib/journal/index.js';
import { machineFacts } from '../measure/machine.mjs';
import { readOptions } from '../measure/options.mjs';
import { cpuMsBetween, forgetPeaks, sampleTree, total } from '../measure/process-tree.mjs';
import { printTable, saveResults } from '../measure/results.mjs';
import { MARK } from '../servers/client.mjs';
import { encodeFrame, header, jsonParts } from '../servers/messages.mjs';
import { withServers } from '../servers/open-servers.mjs';

const DEADLINE_MS = 120_000;
const BATCH = 1000;
const options = readOptions([]);
const messages = options.samples ?? (options.quick ? 100_000 : 1_000_000);
const ROUNDS = 4;

await withServers([], async ({ bridge }) => {
  const machine = machineFacts();
  const kernelId = randomUUID();
  const written = await writeJournal(join(bridge.stateDir, 'kernels', kernelId, 'journal'));
  await bridge.startKernelAs(kernelId, 'light');
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) rounds.push(await catchUp(bridge, kernelId));
  printTable(
    'catching up',
    [
      'messages',
      'out of order',
      'first ms',
      'messages/s',
      'MB/s',
      'gateway CPU µs each',
      'gateway before MB',
      'peak MB'
    ],
    rounds.map((run, i) => [
      `round ${i + 1}`,
      run.delivered,
      run.disordered,
      run.firstMs,
      run.perSecond,
      run.mbPerSecond,
      run.gatewayUsEach,
      run.beforeMb,
      run.peakMb
    ])
  );
  if (options.save) await saveResults('catch-up', machine, { journal: written, rounds }, { messages });
});

/** @param {string} folder */
async function writeJournal(folder) {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const start = performance.now();
  /** @type {Error | null} */
  let fault = null;
  const writer = await JournalWriter.open(folder, {
    onWritten: () => undefined,
    onFault: error => (fault = error)
  });
  const session = randomUUID();
  let bytes = 0;
  for (let n = 0; n < messages; n += BATCH) {
    for (let i = n; i < Math.min(n + BATCH, messages); i++) {
      const frame = encodeFrame('iopub', streamParts(session, i));
      bytes += frame.length;
      writer.append(RecordChannel.iopub, [frame]);
    }
    await new Promise(resolve => setImmediate(resolve));
  }
  await writer.close();
  if (fault !== null) throw fault;
  const ms = performance.now() - start;
  return {
    messages,
    megabytes: Math.round(bytes / 1e6),
    writtenPerSecond: Math.round((messages * 1000) / ms)
  };
}

/** @param {string} session @param {number} number */
function streamParts(session, number) {
  const sent = header(session, 'stream');
  const text = `${MARK}${String(number).padStart(8, '0')} a line as a training run prints it, loss 0.1234\n`;
  const [own, , metadata, content] = jsonParts(sent, { name: 'stdout', text });
  const parent = Buffer.from(JSON.stringify(header(session, 'execute_request')));
  return /** @type {Buffer[]} */ ([own, parent, metadata, content]);
}

/** @param {import('../servers/bridge.mjs').Bridge} bridge @param {string} kernelId */
async function catchUp(bridge, kernelId) {
  const before = sampleTree(bridge.pid);
  forgetPeaks(before);
  const gateway = (/** @type {ReturnType<typeof sampleTree>} */ samples) => samples.slice(0, 1);
  const start = performance.now();
  const connection = await bridge.connectFrom(kernelId, 0);
  let delivered = 0;
  let disordered = 0;
  let bytes = 0;
  let next = 0;
  let firstMs = 0;
  /** @type {NodeJS.Timeout | undefined} */
  let deadline;
  await new Promise((resolve, reject) => {
    deadline = setTimeout(
      () => reject(new Error(`Only ${delivered} of ${messages} messages came.`)),
      DEADLINE_MS
    );
    connection.listen((_channel, parts) => {
      const content = /** @type {Buffer} */ (parts[3]);
      const at = content.indexOf(MARK);
      if (at < 0) return;
      if (delivered === 0) firstMs = performance.now() - start;
      if (Number(content.toString('latin1', at + 1, at + 9)) !== next) disordered++;
      next++;
      delivered++;
      for (const part of parts) bytes += part.length;
      if (delivered === messages) resolve(undefined);
    });
  }).finally(() => clearTimeout(deadline));
  const ms = performance.now() - start;
  const after = sampleTree(bridge.pid);
  await connection.close();
  return {
    delivered,
    disordered,
    firstMs: Math.round(firstMs * 10) / 10,
    perSecond: Math.round((delivered * 1000) / ms),
    mbPerSecond: Math.round(bytes / 1000 / ms),
    gatewayUsEach: Math.round((cpuMsBetween(gateway(before), gateway(after)) * 10_000) / delivered) / 10,
    beforeMb: total(gateway(before), 'rssMb'),
    peakMb: total(gateway(after), 'peakMb')
  };
}
