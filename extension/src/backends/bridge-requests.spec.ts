/** All callers of `requestBridge`: the request that each sends, its time limit, and its message after a failure. */
import { ServerConnection } from '@jupyterlab/services';
import { DisposableSet } from '@lumino/disposable';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MachineSource } from '../devices/machine-source.js';
import { MachineTelemetry } from '../devices/machine-telemetry.js';
import { StoredOutputsApi } from '../reattach/stored-outputs-api.js';
import { OutputsApi } from '../reattach/outputs-api.js';
import { RemotesApi } from './remotes-api.js';
import { sendCommand } from '../runs/control-client.js';
import { StoredRunList } from '../runs/stored-runs.js';

type Fetch = ServerConnection.ISettings['fetch'];
type Settings = ServerConnection.ISettings | null;
type RequestOf = (settings: Settings) => Promise<unknown>;

const BASE = 'http://bridge.test/';
/** Long enough for a busy machine. */
const WAIT = { timeout: 20_000 };
/** The requested timeouts, in order; `elapse` ends them all. */
let timeoutsMs: number[];
let elapse: () => void;
let sent: Request[];
let owned: DisposableSet;

beforeEach(() => {
  timeoutsMs = [];
  sent = [];
  owned = new DisposableSet();
  const ended: AbortController[] = [];
  elapse = () => {
    for (const one of ended) one.abort(new DOMException('The time is over.', 'TimeoutError'));
  };
  vi.spyOn(AbortSignal, 'timeout').mockImplementation(ms => {
    timeoutsMs.push(ms);
    ended.push(new AbortController());
    return ended.at(-1)!.signal;
  });
});
afterEach(() => {
  owned.dispose();
  vi.restoreAllMocks();
});

function settings(answer: (request: Request) => Promise<Response>): Settings {
  const fetch: Fetch = input => {
    const request = input as Request;
    sent.push(request);
    return answer(request);
  };
  return ServerConnection.makeSettings({ baseUrl: BASE, token: 'secret', init: { cache: 'default' }, fetch });
}

const answering = (status: number, body: string): Settings =>
  settings(() => Promise.resolve(new Response(body, { status, statusText: 'So' })));
const away = (): Settings => settings(() => Promise.reject(new TypeError('refused')));
/** Settings of a server that never answers, until the caller gives up. */
const silent = (): Settings =>
  settings(
    ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      })
  );

function machineSource(given: Settings): MachineSource {
  const machine = new MachineTelemetry('bridge');
  const source = new MachineSource({ machine, settings: () => given });
  owned.add(machine);
  owned.add(source);
  return source;
}

function runList(given: Settings): StoredRunList {
  const runs = new StoredRunList(() => given);
  owned.add(runs);
  return runs;
}

const remotes = (given: Settings): RemotesApi => new RemotesApi(() => given);
const command = { id: 'c1', action: 'pause' } as unknown as Parameters<typeof sendCommand>[1];
const never = new AbortController().signal;

const requesters: Record<string, RequestOf> = {
  outputs: given => new OutputsApi(() => given, 'bridge/v1/kernels/k').record(7, never),
  kept: given => new StoredOutputsApi(() => given, 'a b').kernels(never),
  machine: given => machineSource(given).history(10, 5.5),
  remotes: given => remotes(given).connect('a b'),
  candidates: given => remotes(given).candidates('a&b'),
  add: given => remotes(given).add({ name: 'n' } as unknown as Parameters<RemotesApi['add']>[0]),
  control: given => sendCommand({ kernelId: 'a b', settings: given }, command),
  runs: given => runList(given).open('a b')
};

/** `resolved: …`, or class, code and message of the error. */
async function outcome(asking: Promise<unknown>): Promise<string> {
  return asking.then(
    value => `resolved: ${JSON.stringify(value)}`,
    (error: unknown) => {
      const { name, code, message } = error as Error & { code?: string };
      return [name, code, message].filter(Boolean).join(' | ');
    }
  );
}

describe('what is sent', () => {
  it.each([
    ['outputs', 'GET', 'bridge/v1/kernels/k/journal?from=7&limit=1', ''],
    ['kept', 'GET', 'bridge/v1/machines/a%20b/mirror', ''],
    ['machine', 'GET', 'bridge/v1/devices/history?tier=10&from=5', ''],
    ['remotes', 'POST', 'bridge/v1/machines/a%20b/connect', ''],
    ['candidates', 'GET', 'bridge/v1/machines/candidates?project=a%26b', ''],
    ['add', 'POST', 'bridge/v1/machines', '{"name":"n"}'],
    ['control', 'POST', 'bridge/v1/kernels/a%20b/control', JSON.stringify(command)],
    ['runs', 'GET', 'bridge/v1/runs/a%20b', '']
  ])('%s: %s %s', async (name, method, path, body) => {
    await outcome(requesters[name]!(answering(500, '')));
    const [request] = sent;
    expect(`${request!.method} ${request!.url}`).toBe(`${method} ${BASE}${path}`);
    expect(request!.headers.get('authorization')).toBe('token secret');
    expect(request!.headers.get('content-type')).toBe('application/json');
    expect(await request!.text()).toBe(body);
  });
});

describe('the wait for an answer', () => {
  it.each([
    ['outputs', [60_000]],
    ['kept', [30_000]],
    ['machine', [10_000]],
    ['remotes', [15_000]],
    ['candidates', [60_000]],
    // Sent once more with the same id.
    ['control', [15_000, 15_000]],
    ['runs', [10_000]]
  ])('%s: %j ms', async (name, expected) => {
    const asking = outcome(requesters[name]!(silent()));
    for (const [place] of expected.entries()) {
      await vi.waitFor(() => expect(sent).toHaveLength(place + 1), WAIT);
      elapse();
    }
    expect(await asking).not.toContain('resolved: {');
    expect(timeoutsMs).toEqual(expected);
  });

  it('ends early when the answer is no longer needed', async () => {
    const stopping = new AbortController();
    const asking = [
      new OutputsApi(() => silent(), 'bridge/v1/kernels/k').record(7, stopping.signal),
      new StoredOutputsApi(() => silent(), 'r').kernels(stopping.signal),
      remotes(silent()).request('GET', 'bridge/v1/x', undefined, 1_000, stopping.signal)
    ].map(outcome);
    await vi.waitFor(() => expect(sent).toHaveLength(3), WAIT);
    stopping.abort();
    for (const one of await Promise.all(asking)) expect(one).not.toContain('resolved');
    const [, , ofRemotes] = await Promise.all(asking);
    expect(ofRemotes).toContain('cannot be reached');
  });

  it('ends when its caller gives up', async () => {
    const [source, runs] = [machineSource(silent()), runList(silent())];
    const asking = [source.history(10, 5), runs.open('k')].map(outcome);
    await vi.waitFor(() => expect(sent).toHaveLength(2), WAIT);
    source.dispose();
    runs.dispose();
    expect(await Promise.all(asking)).toEqual([
      'MachineError | machine.unavailable | The TPULab server sent no machine status (no answer); the page retries.',
      'resolved: false'
    ]);
  });
});

describe('the message of a missing answer', () => {
  const machine = (what: string): string =>
    `MachineError | machine.unavailable | The TPULab server sent no machine status (${what}); the page retries.`;
  const remote = (code: string, message: string): string => `RemotesError | ${code} | ${message}`;
  const control = (code: string, message: string): string => `ControlError | control.${code} | ${message}`;
  const refusal = '{"code":"remotes.busy","message":"It is busy."}';

  it.each<[string, () => Settings, Record<string, string>]>([
    [
      'no address',
      () => null,
      {
        outputs: 'NoAnswer | request.noAddress | The address of the TPULab server is not known yet.',
        kept: 'NoAnswer | request.noAddress | The address of the TPULab server is not known yet.',
        machine: machine('its address is not known'),
        remotes: remote('remotes.unreachable', 'The TPULab server on this machine is not ready yet.'),
        control: control('unreachable', 'The TPULab server is not connected; try again when it is.'),
        runs: 'resolved: false'
      }
    ],
    [
      'nobody there',
      away,
      {
        outputs: 'NoAnswer | request.noAnswer | refused',
        kept: 'NoAnswer | request.noAnswer | refused',
        machine: machine('no answer'),
        remotes: remote('remotes.unreachable', 'The TPULab server on this machine cannot be reached.'),
        control: control(
          'unreachable',
          'The kernel did not answer; check whether it still runs, and try again.'
        ),
        runs: 'resolved: false'
      }
    ],
    [
      'a refusal with a reason',
      () => answering(409, refusal),
      {
        outputs: 'Error | It is busy.',
        kept: 'Error | It is busy.',
        machine: machine('status 409'),
        remotes: remote('remotes.busy', 'It is busy.'),
        control: control('refused', 'It is busy.'),
        runs: 'resolved: false'
      }
    ],
    [
      'a refusal that says nothing',
      () => answering(502, '<html>'),
      {
        outputs: 'Error | Invalid response: 502 So',
        kept: 'Error | Invalid response: 502 So',
        machine: machine('status 502'),
        remotes: remote('http.502', 'The TPULab server answered 502.'),
        control: control('refused', 'The TPULab server answered with status 502.'),
        runs: 'resolved: false'
      }
    ],
    [
      'a bridge that does not know the question',
      () => answering(404, '{"code":"not_found"}'),
      {
        kept: 'resolved: []',
        remotes: remote('remotes.unknownRoute', 'This TPULab server knows no machines; install a newer one.')
      }
    ],
    [
      'an answer of another kind',
      () => answering(200, '{"another":"kind"}'),
      {
        machine: machine('an answer that this page cannot read; update page and server'),
        remotes: 'resolved: {"another":"kind"}',
        control: control(
          'unreadable',
          'The TPULab server gave an answer that this page cannot read; update page and server.'
        ),
        runs: 'resolved: false'
      }
    ],
    [
      'an answer that is not JSON',
      () => answering(200, '<html>'),
      {
        machine: machine('no answer'),
        remotes: 'resolved: "<html>"',
        control: control(
          'unreadable',
          'The TPULab server gave an answer that this page cannot read; update page and server.'
        ),
        runs: 'resolved: false'
      }
    ]
  ])('%s', async (_, given, expected) => {
    for (const [name, words] of Object.entries(expected)) {
      expect(await outcome(requesters[name]!(given())), name).toBe(words);
    }
  });

  it('an outputs page that is not JSON is refused', async () => {
    expect(await outcome(requesters['outputs']!(answering(200, '<html>')))).not.toContain('resolved');
  });

  it('an unresponsive remote is reported with the time limit', async () => {
    const asking = outcome(requesters['remotes']!(silent()));
    await vi.waitFor(() => expect(sent).toHaveLength(1), WAIT);
    elapse();
    expect(await asking).toBe(
      remote('remotes.unreachable', 'The TPULab server on this machine did not answer within 15 s.')
    );
  });
});
