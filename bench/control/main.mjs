// @ts-check
/**
 * How soon a training in a busy cell answers a command, beside kernel_info on Jupyter's control channel and a comm message on its shell channel.
 *
 * `npm run bench -- control [--samples N] [--quick] [--no-save]`. One kernel of the bridge trains in a synchronous cell, with steps
 * of 5 and of 200 ms that either sleep (like a step that waits for a device) or compute in Python without releasing the
 * interpreter. Commands (`set`) and kernel_info requests are sent in turn, at moments independent of the steps. Three durations are
 * measured per command: until the page is notified that the agent has accepted it; until the page is notified that the agent has
 * applied it; and the second without the command's wait in the kernel for the next step boundary. The aim for the last: at most 50
 * ms. Writes `bench/results/control.json`.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { machineFacts, versionsOf } from '../measure/machine.mjs';
import { readOptions } from '../measure/options.mjs';
import { percentile, summarize } from '../measure/percentiles.mjs';
import { printTable, saveResults } from '../measure/results.mjs';
import { executeContent } from '../servers/messages.mjs';
import { BRIDGE, withServers } from '../servers/open-servers.mjs';
import { now, Page } from './page.mjs';

const AIM_MS = 50;
const WARM_UP = 5;
/** A kernel has to import jax first, on a possibly busy machine. */
const PATIENCE_MS = 120_000;
const STEPS_MS = [5, 200];
const WORKS = {
  sleeping: 'time.sleep(seconds)',
  'reckoning in Python': 'end = time.perf_counter() + seconds\n    while time.perf_counter() < end: pass'
};
const COMM_TARGET = 'bench-control';

const SET_UP = `
import time, jax, tpulab
jax.devices()
def _bench_opened(comm, message):
    comm.on_msg(lambda message: comm.send({"heard": message["content"]["data"]}))
get_ipython().kernel.comm_manager.register_target("${COMM_TARGET}", _bench_opened)`;

/** @param {string} work @param {number} stepMs */
const train = (work, stepMs) => `
def _bench_work(seconds):
    ${work}
_bench_run = tpulab.run("bench", hyperparameters={"rate": tpulab.hyper(0.5, min=0.0, max=1.0)}, log=False)
for _ in _bench_run.steps(range(10**9)):
    _bench_work(${stepMs / 1_000})`;

const options = readOptions([]);
const samples = options.samples ?? (options.quick ? 20 : 100);

/** @typedef {{ accepted: number[], applied: number[], outside: number[], kernelInfo: number[], commMs: number }} Times */

await withServers([BRIDGE], async ({ bridge, kernel }) => {
  const machine = { ...machineFacts(), ...versionsOf(kernel.argv[0] ?? '', ['ipykernel', 'jax']) };
  const kernelId = await bridge.startKernel();
  const page = new Page(await bridge.connect(kernelId), await bridge.openEvents());
  await page.request('shell', 'execute_request', executeContent(SET_UP));
  const opened = { comm_id: 'bench', target_name: COMM_TARGET, data: {} };
  await page.post('shell', 'comm_open', opened);
  /** @type {Record<string, object>} */
  const results = {};
  const rows = [];
  for (const [name, work] of Object.entries(WORKS)) {
    for (const stepMs of STEPS_MS) {
      const times = await measure(bridge, kernelId, page, train(work, stepMs), stepMs);
      const title = `${name}, steps of ${stepMs} ms`;
      results[title] = {
        accepted: summarize(times.accepted),
        applied: summarize(times.applied),
        withoutTheRestOfTheStep: summarize(times.outside),
        kernelInfoOnControl: summarize(times.kernelInfo),
        commOnShellMs: Math.round(times.commMs)
      };
      rows.push([title, ...Object.values(times).flatMap(both), samples]);
    }
  }
  await page.close();
  printTable(
    'ms, p50 / p99',
    ['accepted', 'applied', 'without rest of step', 'kernel_info, control', 'comm, shell', 'commands'],
    rows
  );
  if (options.save) await saveResults('control', machine, results, { samples });
  const missed = Object.entries(results).filter(([, result]) => {
    const { withoutTheRestOfTheStep } = /** @type {any} */ (result);
    return withoutTheRestOfTheStep.p99Ms > AIM_MS;
  });
  console.log(
    `Aim: at most ${AIM_MS} ms and the rest of the step, p99. The comm message is answered when the cell is over.`
  );
  for (const [title] of missed) console.log(`Not met: ${title}.`);
  if (missed.length > 0) process.exitCode = 1;
});

/** @param {readonly number[] | number} times */
function both(times) {
  if (typeof times === 'number') return [String(Math.round(times))];
  return [`${percentile(times, 50).toFixed(1)} / ${percentile(times, 99).toFixed(1)}`];
}

/**
 * @param {import('../servers/bridge.mjs').Bridge} bridge
 * @param {string} kernelId
 * @param {Page} page
 * @param {string} code a cell that continues until it is stopped
 * @param {number} stepMs
 * @returns {Promise<Times>}
 */
async function measure(bridge, kernelId, page, code, stepMs) {
  const begun = page.nextRun();
  const over = page.request('shell', 'execute_request', executeContent(code));
  await within(begun, 'The run did not begin');
  const comm = page.comm({ comm_id: 'bench', data: { sent: stepMs } });
  /** @type {Times} */
  const times = { accepted: [], applied: [], outside: [], kernelInfo: [], commMs: 0 };
  for (let n = -WARM_UP; n < samples; n++) {
    await wait(Math.random() * stepMs);
    const id = `${stepMs}-${n}-${Date.now()}`;
    const reported = page.receivedFor(id);
    const sentAt = now();
    const answer = await bridge.control(kernelId, { id, action: 'set', name: 'rate', value: Math.random() });
    const acceptedAt = now();
    if (answer.phase === 'refused') throw new Error(`A command was refused: ${answer.reason}`);
    const { at, message } = await within(reported, 'A command was not applied');
    if (message.phase !== 'applied') throw new Error(`A command was ${message.phase}: ${message.reason}`);
    await wait(Math.random() * stepMs);
    const requestedAt = now();
    await within(page.request('control', 'kernel_info_request', {}), 'kernel_info was not answered');
    if (n < 0) continue;
    times.kernelInfo.push(now() - requestedAt);
    times.accepted.push(acceptedAt - sentAt);
    times.applied.push(at - sentAt);
    // Both moments are the kernel's: it accepted the command, and it applied it at the boundary.
    times.outside.push(at - sentAt - (message.time - answer.time));
  }
  await bridge.control(kernelId, { id: `stop-${Date.now()}`, action: 'stop' });
  await within(over, 'The cell did not end');
  times.commMs = await within(comm, 'The comm was not answered');
  return times;
}

/**
 * @template T
 * @param {Promise<T>} promise
 * @param {string} what
 * @returns {Promise<T>}
 */
async function within(promise, what) {
  const done = new AbortController();
  const late = wait(PATIENCE_MS, undefined, { signal: done.signal }).then(() => {
    throw new Error(`${what} within ${PATIENCE_MS / 1_000} s.`);
  });
  try {
    return /** @type {T} */ (await Promise.race([promise, late]));
  } finally {
    done.abort();
    late.catch(() => undefined);
  }
}
