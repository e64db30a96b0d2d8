// @ts-check
/**
 * The output of 256 hosts through the real journal: a kernel in whose cell the lead's own code receives the lines of simulated hosts,
 * the bridge that writes and serves the lead's messages, and clients that attach during the cell and after it.
 *
 * `npm run bench -- slices --journal [--hosts N] [--lines N] [--no-save]`. Writes `bench/results/slice-journal.json`.
 */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { machineFacts } from '../measure/machine.mjs';
import { cpuMsBetween, forgetPeaks, sampleTree, total } from '../measure/process-tree.mjs';
import { printTable, saveResults } from '../measure/results.mjs';
import { executeContent } from '../servers/messages.mjs';
import { withServers } from '../servers/open-servers.mjs';

const { values } = parseArgs({
  options: {
    hosts: { type: 'string', default: '256' },
    lines: { type: 'string', default: '1000' },
    'no-save': { type: 'boolean', default: false }
  }
});
const hosts = Number(values.hosts);
const lines = Number(values.lines);
const DEADLINE_MS = 300_000;

/** Receives the lines of all hosts as the lead does, and shows the fold ten times meanwhile. @param {boolean} differ */
const cell = differ => `
def _hosts():
    from tpulab.slice.outputs import Outputs
    kernel = get_ipython().kernel
    parent = kernel.get_parent("shell")
    def publish(kind, content):
        kernel.session.send(kernel.iopub_socket, kind, content, parent=parent, ident=kernel._topic(kind))
    outputs = Outputs(range(${hosts}), publish, 1)
    for step in range(${lines}):
        for host in range(${hosts}):
            who = host if ${differ ? 'True' : 'False'} else "all"
            outputs.add(host, "stream", {"name": "stdout", "text": f"step {step}: loss 0.1234 on {who}\\n"})
        if (step + 1) % ${Math.max(1, Math.floor(lines / 10))} == 0:
            outputs.refresh()
    for host in range(${hosts}):
        outputs.finish(host)
    outputs.refresh(ended=True)
_hosts()`;

await withServers([], async ({ bridge }) => {
  const machine = machineFacts();
  const runs = [];
  for (const differ of [false, true]) {
    const kernelId = await bridge.startKernel('bench');
    const client = await watch(bridge, kernelId, null);
    await client.execute('from tpulab.slice.outputs import Outputs');
    const before = sampleTree(bridge.pid);
    forgetPeaks(before);
    const live = await client.execute(cell(differ));
    const gateway = (/** @type {ReturnType<typeof sampleTree>} */ samples) => samples.slice(0, 1);
    const after = sampleTree(bridge.pid);
    await client.close();
    const journalMb = (await size(join(bridge.stateDir, 'kernels', kernelId, 'journal'))) / 1e6;
    const start = performance.now();
    const late = await watch(bridge, kernelId, 0);
    await late.until(live.msgId);
    const replayMs = performance.now() - start;
    const replayed = late.seen(live.msgId);
    await late.close();
    await bridge.endKernel(kernelId);
    runs.push({
      output: differ ? 'different' : 'the same',
      hosts,
      lines,
      ...counts(live.seen, differ),
      cellMs: Math.round(live.ms),
      deliveredMb: live.seen.bytes / 1e6,
      journalMb,
      gatewayCpuMs: Math.round(cpuMsBetween(gateway(before), gateway(after))),
      gatewayPeakMb: total(gateway(after), 'peakMb'),
      replayMs: Math.round(replayMs),
      replayedMb: replayed.bytes / 1e6,
      replayedAlike: replayed.lastFold === live.seen.lastFold && replayed.text === live.seen.text
    });
  }
  printTable(
    `${hosts} hosts, ${lines} lines each`,
    [
      'lost',
      'out of order',
      'cell ms',
      'delivered MB',
      'journal MB',
      'gateway CPU ms',
      'peak MB',
      'replay ms',
      'replay MB',
      'alike'
    ],
    runs.map(run => [
      run.output,
      run.lost,
      run.disordered,
      run.cellMs,
      run.deliveredMb,
      run.journalMb,
      run.gatewayCpuMs,
      run.gatewayPeakMb,
      run.replayMs,
      run.replayedMb,
      run.replayedAlike ? 'yes' : 'no'
    ])
  );
  if (!values['no-save']) await saveResults('slice-journal', machine, { runs }, { hosts, lines });
  process.exitCode = runs.every(run => run.lost + run.disordered === 0 && run.replayedAlike) ? 0 : 1;
});

/** @typedef {{ bytes: number, text: string, lastFold: string }} Seen */

/**
 * A client, and the messages that it receives for each request.
 *
 * @param {import('../servers/bridge.mjs').Bridge} bridge
 * @param {string} kernelId
 * @param {number | null} from null: from now on
 */
async function watch(bridge, kernelId, from) {
  const connection = await (from === null ? bridge.connect(kernelId) : bridge.connectFrom(kernelId, from));
  /** @type {Map<string, Seen & { isIdle: boolean }>} */
  const requests = new Map();
  const of = (/** @type {string} */ msgId) => {
    const found = requests.get(msgId) ?? { bytes: 0, text: '', lastFold: '', isIdle: false };
    requests.set(msgId, found);
    return found;
  };
  let received = () => {};
  connection.listen((channel, parts) => {
    if (channel !== 'iopub') return;
    const [header, parent, , content] = parts.map(part => String(part));
    const { msg_id: msgId } = JSON.parse(parent ?? '{}');
    if (typeof msgId !== 'string') return;
    const seen = of(msgId);
    for (const part of parts) seen.bytes += part.length;
    const { msg_type: kind } = JSON.parse(header ?? '{}');
    const body = JSON.parse(content ?? '{}');
    if (kind === 'stream') seen.text += body.text;
    else if (kind === 'display_data' || kind === 'update_display_data')
      seen.lastFold = body.data['text/plain'];
    else if (kind === 'status' && body.execution_state === 'idle') seen.isIdle = true;
    received();
  });
  /** @param {string} msgId */
  const until = msgId =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('The cell did not end.')), DEADLINE_MS);
      received = () => {
        if (!of(msgId).isIdle) return;
        clearTimeout(timer);
        resolve(undefined);
      };
      received();
    });
  return {
    until,
    seen: of,
    close: () => connection.close(),
    /** @param {string} code */
    async execute(code) {
      const start = performance.now();
      const msgId = await connection.send('shell', 'execute_request', executeContent(code));
      await until(msgId);
      return { msgId, ms: performance.now() - start, seen: of(msgId) };
    }
  };
}

/** Counts the lines of all hosts, in the cell and in its last fold. @param {Seen} seen @param {boolean} differ */
function counts({ text, lastFold }, differ) {
  /** @type {Map<string, number[]>} */
  const byHost = new Map();
  for (const [, step, who] of `${text}\n${lastFold}`.matchAll(/step (\d+): loss 0\.1234 on (\w+)/g)) {
    byHost.set(who ?? '', [...(byHost.get(who ?? '') ?? []), Number(step)]);
  }
  const wanted = differ ? hosts : 1;
  const found = [...byHost.values()];
  const lost = wanted * lines - found.reduce((sum, steps) => sum + new Set(steps).size, 0);
  const disordered = found.reduce(
    (sum, steps) => sum + steps.filter((step, at) => at > 0 && step <= (steps[at - 1] ?? -1)).length,
    0
  );
  return { lost, disordered };
}

/** @param {string} folder */
async function size(folder) {
  let bytes = 0;
  for (const name of await readdir(folder)) bytes += (await stat(join(folder, name))).size;
  return bytes;
}
