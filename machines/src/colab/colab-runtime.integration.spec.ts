/** The runtime of a remote against the stand-in for `colab`: each known failure, and the state that remains after it. */
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { RemoteCheck, RemoteConsent, RemoteStage } from '@tpulab/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  ColabAccount as StandInAccount,
  type ColabAnswers
} from '../../../tests/stand-in-vm/colab/account.js';
import { recoveryOf, type RemoteProblem } from '../remote-error.js';
import { explainSsh } from '../ssh/explain.js';
import { SshProcess } from '../ssh/ssh-process.js';
import type { SshTarget } from '../ssh/ssh-config.js';
import { ColabAccount } from './colab-account.js';
import { colabOnPath } from './colab-command.js';
import { ColabRuntime } from './colab-runtime.js';

let folder: string;
let google: StandInAccount;
let isOnline: boolean;
let runtime: ColabRuntime;
const { signal } = new AbortController();

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpc-'));
  google = await StandInAccount.make(path.join(folder, 'google'));
  isOnline = true;
  runtime = newRuntime();
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

/** A runtime without state in memory, as in the next gateway. */
function newRuntime(): ColabRuntime {
  const account = new ColabAccount(colabOnPath(google.program), async () => isOnline);
  return new ColabRuntime({
    accelerator: 'v5e1',
    account,
    folder: path.join(folder, 'own'),
    stopCheckMs: 10
  });
}

interface Seen {
  readonly stages: RemoteStage[];
  readonly checks: RemoteCheck[];
  readonly consents: RemoteConsent[];
}

async function reach(agrees = true, aborted = signal): Promise<Seen & { target: SshTarget }> {
  const seen: Seen = { stages: [], checks: [], consents: [] };
  const target = await runtime.reach({
    onStage: stage => void seen.stages.push(stage),
    onCheck: check => void seen.checks.push(check),
    ask: async consent => {
      seen.consents.push(consent);
      return agrees;
    },
    signal: aborted
  });
  return { ...seen, target };
}

/** Runs ssh itself with the given options, until its ProxyCommand ends. */
async function failureOfSsh(target: SshTarget): Promise<RemoteProblem> {
  const ssh = await SshProcess.start({
    program: 'ssh',
    args: [...target.options, target.destination, 'true']
  });
  ssh.child.stdin.end();
  const { code } = await ssh.ended;
  return runtime.explain(explainSsh(target, ssh.errors, code), signal);
}

describe('a Colab runtime', () => {
  it('is created once the person agrees, in a private folder and with a request limit of 600 s', async () => {
    await google.answer({ newer: '0.7.6', balance: 8.8 });
    const { target, consents, stages, checks } = await reach();
    expect(consents).toHaveLength(1);
    expect(stages.filter(({ state }) => state === 'done').map(({ name }) => name)).toEqual([
      'colab',
      'colab-account',
      'colab-runtime'
    ]);
    expect(checks).toMatchObject([
      { name: 'compute-units', message: expect.stringContaining('5 h') as string }
    ]);
    const [created] = await google.calls('new');
    expect(created).toMatchObject({ umask: 0o077, requestTimeout: '600', hasPythonPath: false });
    expect(created!.args.slice(2)).toEqual(['new', '-s', target.destination, '--tpu', 'v5e1']);
    expect(target.destination).toMatch(/^tpulab-[0-9a-f]{8}$/);
    const own = path.join(folder, 'own', target.destination);
    expect((await stat(own)).mode & 0o777).toBe(0o700);
    expect((await stat(path.join(own, 'sessions.json'))).mode & 0o777).toBe(0o600);
    expect((await readFile(path.join(own, 'id_ed25519.pub'), 'utf8')).trim().split(' ')).toHaveLength(2);
  });

  it('is reached again without a prompt, also by the next gateway, and its login is checked each time', async () => {
    const { target } = await reach();
    runtime = newRuntime();
    const again = await reach();
    expect([again.target.destination, again.consents]).toEqual([target.destination, []]);
    expect(await google.calls('new')).toHaveLength(1);
    expect((await google.calls('usage')).length).toBeGreaterThan(2);
  });

  it('is not created when the person declines', async () => {
    await expect(reach(false)).rejects.toMatchObject({ code: 'colab_declined' });
    expect([await google.calls('new'), await google.running()]).toEqual([[], []]);
  });

  it('is verified to have ended, and its name is not used again', async () => {
    const { target } = await reach();
    await runtime.stop(signal);
    expect([await google.running(), await runtime.exists()]).toEqual([[], false]);
    const again = await reach();
    expect(again.target.destination).not.toBe(target.destination);
    expect(again.consents).toHaveLength(1);
  });

  it('that still runs although colab reported its end is reported', async () => {
    await reach();
    await google.answer({ stopIsIgnored: true });
    const [endpoint] = await google.running();
    await expect(runtime.stop(signal)).rejects.toMatchObject({
      code: 'colab_not_stopped',
      message: expect.stringContaining(endpoint!) as string
    });
  });

  it('can be given up while Colab searches for one, and a runtime created nevertheless is reported', async () => {
    const go = path.join(folder, 'go');
    await google.answer({ newWaitsFor: go });
    const stopping = new AbortController();
    const reaching = reach(true, stopping.signal);
    await vi.waitFor(async () => expect(await google.running()).toHaveLength(1), { timeout: 30_000 });
    stopping.abort();
    await expect(reaching).rejects.toThrow();
    expect(existsSync(go)).toBe(false);
    await google.answer({ newWaitsFor: null });
    const [endpoint] = await google.running();
    runtime = newRuntime();
    await expect(reach()).rejects.toMatchObject({
      code: 'colab_unrecorded',
      message: expect.stringContaining(endpoint!) as string
    });
    // The person may leave the runtime running: its name is shown before the next one is created.
    const { consents } = await reach();
    expect(consents[0]!.terms.join(' ')).toContain(endpoint);
  });

  it('whose creation was aborted with the gateway, but continued in colab, is reused', async () => {
    const { target } = await reach();
    const file = path.join(folder, 'own', 'runtime.json');
    const record = JSON.parse(await readFile(file, 'utf8')) as object;
    await writeFile(file, JSON.stringify({ ...record, state: 'creating' }));
    runtime = newRuntime();
    expect((await reach()).target.destination).toBe(target.destination);
    expect(await google.calls('new')).toHaveLength(1);
  });

  it('that was reclaimed is reported, and a new one is offered', async () => {
    const { target } = await reach();
    await google.reclaim();
    const problem = await failureOfSsh(target);
    expect([problem.code, recoveryOf(problem)]).toEqual(['colab_reclaimed', 'person']);
    expect(problem.message).toMatch(/Outputs.*are kept.*create a new runtime/);
    expect(await readdir(path.join(folder, 'own'))).not.toContain(target.destination);
    expect((await reach()).consents).toHaveLength(1);
  });

  it('is never created by the command that ssh runs, which never logs in either', async () => {
    const { target } = await reach();
    expect(target.options.join(' ')).not.toMatch(/ -s |--tpu|--rm/);
    await google.reclaim();
    for (let attempt = 0; attempt < 2; attempt++) await failureOfSsh(target);
    expect([await google.running(), await google.postedCodes()]).toEqual([[], '']);
    const [proxied] = await google.calls('ssh');
    expect(proxied).toMatchObject({ umask: 0o077, hasPythonPath: false });
  });

  it('in use by another connection is retried for three minutes', async () => {
    const { target } = await reach();
    await google.answer({ sshFails: '429' });
    expect((await failureOfSsh(target)).code).toBe('colab_busy');
    const now = performance.now();
    const clock = vi.spyOn(performance, 'now').mockReturnValue(now + 4 * 60_000);
    const problem = await failureOfSsh(target).finally(() => clock.mockRestore());
    expect([problem.code, recoveryOf(problem)]).toEqual(['colab_taken', 'person']);
  });
});

type Answers = Partial<ColabAnswers>;

describe('before a runtime is created', () => {
  it.each<[string, Answers, string, 'person' | 'again']>([
    ['an old command', { version: '0.6.0', hasSsh: false }, 'colab_outdated', 'person'],
    ['nobody logged in', { login: 'none' }, 'colab_login', 'person'],
    ['no default credentials', { login: 'adc' }, 'colab_login', 'person'],
    [
      'an unknown failure',
      { usageFails: 'Failed to issue request GET x: Bad Gateway' },
      'colab_failed',
      'again'
    ],
    ['no network', { usageFails: 'Max retries exceeded with url: /tun/m/ccu-info' }, 'colab_offline', 'again']
  ])('%s is reported with its remedy', async (_what, answers, code, recovery) => {
    await google.answer(answers);
    const error = await reach().catch((reason: unknown) => reason);
    expect([(error as RemoteProblem).code, recoveryOf(error)]).toEqual([code, recovery]);
    expect([await google.calls('new'), await google.postedCodes()]).toEqual([[], '']);
  });

  it('a login that cannot be renewed offline waits for the network', async () => {
    await google.answer({ login: 'none' });
    isOnline = false;
    await expect(reach()).rejects.toMatchObject({ code: 'colab_offline' });
  });

  it('a missing command is reported, with how to install it', async () => {
    const account = new ColabAccount(colabOnPath(path.join(folder, 'nothing')), async () => true);
    expect(await account.candidate(signal)).toMatchObject({
      state: 'missing',
      remedy: 'uv tool install google-colab-cli'
    });
  });
});

describe('when Colab creates no runtime', () => {
  it.each<[string, Answers, string, 'person' | 'again', RegExp]>([
    ['capacity', { newFails: '412' }, 'colab_no_capacity', 'person', /usage limit/],
    ['entitlement', { newFails: '400' }, 'colab_not_entitled', 'person', /plan/],
    ['outcome 1', { newFails: 'outcome 1' }, 'colab_not_assigned', 'person', /none is free/],
    ['outcome 2', { newFails: 'outcome 2' }, 'colab_not_assigned', 'person', /quota/],
    ['outcome 5', { newFails: 'outcome 5' }, 'colab_not_assigned', 'person', /restricted/],
    ['503', { newFails: '503' }, 'colab_unavailable', 'again', /overloaded/],
    ['a time-out', { newFails: 'timeout' }, 'colab_unavailable', 'again', /too slow/],
    ['503 after all', { newFails: '503', createsAnyway: true }, 'colab_unrecorded', 'person', /tpu-v5e1-s-/],
    [
      'a time-out after all',
      { newFails: 'timeout', createsAnyway: true },
      'colab_unrecorded',
      'person',
      /compute units/
    ]
  ])('%s has its own code and recovery', async (_what, answers, code, recovery, message) => {
    await google.answer(answers);
    const error = await reach().catch((reason: unknown) => reason);
    expect([(error as RemoteProblem).code, recoveryOf(error)]).toEqual([code, recovery]);
    expect((error as RemoteProblem).message).toMatch(message);
  });

  it('for a temporary reason, it is tried again without another prompt', async () => {
    await google.answer({ newFails: '503' });
    await expect(reach()).rejects.toMatchObject({ code: 'colab_unavailable' });
    await google.answer({ newFails: null });
    expect((await reach()).consents).toEqual([]);
  });
});

describe('when ssh cannot log in', () => {
  const CASES: [string, Answers, string, 'person' | 'again'][] = [
    ['another connection', { sshFails: '429' }, 'colab_busy', 'again'],
    ['the kind of key', { sshFails: 'rsa' }, 'colab_key_refused', 'person'],
    ['401', { sshFails: '401' }, 'colab_runtime_unknown', 'again'],
    ['404', { sshFails: '404' }, 'colab_runtime_unknown', 'again'],
    ['403', { sshFails: '403' }, 'colab_forbidden', 'person'],
    ['502', { sshFails: '502' }, 'colab_unreachable', 'again'],
    ['the network', { sshFails: 'network' }, 'colab_unreachable', 'again'],
    ['an old command', { hasSsh: false }, 'colab_outdated', 'person'],
    ['a login that has ended', { login: 'none' }, 'colab_login', 'person']
  ];

  // One runtime for all tests: creating a runtime takes longer than failing to reach it.
  it('the message of colab takes precedence over the message of ssh', async () => {
    const { target } = await reach();
    for (const [what, answers, code, recovery] of CASES) {
      await google.answer({ sshFails: null, hasSsh: true, login: 'oauth2', ...answers });
      const problem = await failureOfSsh(target);
      expect([what, problem.code, recoveryOf(problem)]).toEqual([what, code, recovery]);
    }
    await google.answer({ sshFails: '401', login: 'oauth2' });
    await google.reclaim();
    // A runtime that no longer exists also refuses a token.
    expect((await failureOfSsh(target)).code).toBe('colab_reclaimed');
  });
});
