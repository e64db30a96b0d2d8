/**
 * Replaces Google's `colab`. Source of every text: google-colab-cli 0.7.5 (Apache-2.0; commands/{session,ssh,usage,utility}.py,
 * auth.py, auto_update.py, client.py, common.py), recorded from that version with its server on loopback. `outputs.mjs` has the texts.
 *
 * `node program.mjs FOLDER ARGUMENT…`. FOLDER has the data of Google's server: `account.json` (its answers), `runtimes/ENDPOINT`
 * (running ones), and `calls.jsonl` (its calls). `ssh --proxy-mode` goes to the sshd of a stand-in VM over TCP, where the real
 * one goes through a WebSocket.
 */
import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  watchFile,
  writeFileSync
} from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import * as texts from './outputs.mjs';

const [, , folder, ...given] = process.argv;
const account = JSON.parse(readFileSync(path.join(folder, 'account.json'), 'utf8'));
const runtimes = path.join(folder, 'runtimes');

class Exit extends Error {
  /** @param {number} code */
  constructor(code) {
    super(`exit ${code}`);
    this.code = code;
  }
}

/** @param {string} text */
function out(text) {
  process.stdout.write(text);
}

/** @param {string} text @param {number} code @returns {never} */
function fail(text, code = 1) {
  process.stderr.write(text);
  throw new Exit(code);
}

/** The value after an option, and whether the option exists. @param {readonly string[]} names */
function option(...names) {
  const at = given.findIndex(word => names.includes(word));
  return at < 0 ? undefined : given[at + 1];
}

const config = option('--config') ?? path.join(folder, 'sessions.json');
const COMMANDS = ['version', 'usage', 'new', 'status', 'sessions', 'stop', 'ssh'];
const command = given.find(
  (word, at) => !word.startsWith('-') && !['--config', '--auth', '-c'].includes(given[at - 1])
);

appendFileSync(
  path.join(folder, 'calls.jsonl'),
  `${JSON.stringify({
    args: given,
    // oxlint-disable-next-line typescript/no-deprecated -- no other call reports it, and nothing else runs here
    umask: process.umask(),
    requestTimeout: process.env['COLAB_CLI_REQUEST_TIMEOUT'] ?? null,
    hasPythonPath: process.env['PYTHONPATH'] !== undefined
  })}\n`
);

/** @returns {Record<string, { endpoint: string, hardware: string }>} */
function records() {
  return existsSync(config) ? JSON.parse(readFileSync(config, 'utf8')) : {};
}

/** @param {Record<string, { endpoint: string, hardware: string }>} all */
function record(all) {
  mkdirSync(path.dirname(config), { recursive: true });
  writeFileSync(config, JSON.stringify(all));
}

/** The server: every call that needs it needs a login. */
function requestServer() {
  if (account.login === 'oauth2') return;
  if (account.login === 'adc') fail(texts.NO_DEFAULT_CREDENTIALS);
  out(texts.LOGIN_PROMPT);
  process.stderr.write(texts.LOGIN_URL);
  const line = readLine();
  // The real one posts any input as the authorization code.
  if (line !== '') appendFileSync(path.join(folder, 'posted-codes'), `${line}\n`);
  if (command === 'usage') fail(texts.usageFailed('EOF when reading a line'));
  fail(texts.traceback('EOFError: EOF when reading a line'));
}

/** Of standard input; empty at its end. */
function readLine() {
  const byte = Buffer.alloc(1);
  let line = '';
  while (readSync(0, byte) === 1 && byte[0] !== 10) line += byte.toString('latin1');
  return line;
}

/** Endpoint to hardware of running runtimes, of the whole account. @returns {Record<string, string>} */
function running() {
  return Object.fromEntries(
    readdirSync(runtimes)
      .filter(name => !name.includes('.'))
      .map(name => [name, readFileSync(path.join(runtimes, name), 'utf8')])
  );
}

/** Drops records whose runtime has ended, and reports it. */
function synced() {
  const all = records();
  if (Object.keys(all).length === 0) return all;
  requestServer();
  const there = running();
  const remaining = Object.fromEntries(Object.entries(all).filter(([, { endpoint }]) => endpoint in there));
  const pruned = Object.keys(all).length - Object.keys(remaining).length;
  if (pruned > 0) {
    record(remaining);
    out(texts.pruned(pruned));
  }
  return remaining;
}

function version() {
  out(texts.version(account.version));
}

function usage() {
  requestServer();
  if (account.usageFails) fail(texts.usageFailed(account.usageFails));
  const count = Object.keys(running()).length;
  out(texts.usage({ balance: account.balance, rate: account.ratePerRuntime * count, count }));
}

async function create() {
  const name = option('-s', '--session') ?? 'a1b2c3';
  const hardware = (option('--tpu') ?? '').toLowerCase() === 'v5e1' ? 'V5E1' : 'V6E1';
  out(texts.creating(name));
  requestServer();
  const failure = account.newFails === null ? null : texts.newFailure(account.newFails, hardware);
  // A server whose response comes too late has still created the runtime.
  if (account.newFails === null || account.createsAnyway) {
    const endpoint = `tpu-${hardware.toLowerCase()}-s-${process.pid.toString(36)}`;
    // As a whole: a process that sees it may end this program.
    writeFileSync(path.join(runtimes, `${endpoint}.new`), hardware);
    renameSync(path.join(runtimes, `${endpoint}.new`), path.join(runtimes, endpoint));
    while (account.newWaitsFor !== null && !existsSync(account.newWaitsFor)) await wait(20);
    if (failure === null) {
      record({ ...records(), [name]: { endpoint, hardware } });
      out(texts.READY);
      return;
    }
  }
  fail(failure ?? '');
}

function status() {
  const all = synced();
  const name = option('-s', '--session');
  if (name === undefined) {
    if (Object.keys(all).length === 0) out(texts.NO_ACTIVE_SESSIONS);
    for (const [one, found] of Object.entries(all)) out(texts.line(one, found, 'IDLE'));
  } else if (all[name]) out(texts.line(name, all[name], 'IDLE'));
  else out(texts.notFound(name));
}

function sessions() {
  const all = synced();
  // Without a local record it treats a refused login as an empty account.
  if (account.login === 'adc') {
    process.stderr.write(texts.NO_DEFAULT_CREDENTIALS);
    out(texts.NOTHING_ON_SERVER);
    return;
  }
  requestServer();
  const there = Object.entries(running());
  if (there.length === 0) out(texts.NOTHING_ON_SERVER);
  for (const [endpoint, hardware] of there) {
    const name = Object.keys(all).find(one => all[one]?.endpoint === endpoint) ?? '?';
    out(texts.line(name, { endpoint, hardware }));
  }
}

function stop() {
  const name = option('-s', '--session') ?? '';
  const { [name]: found, ...others } = records();
  if (!found) {
    out(texts.notFound(name));
    return;
  }
  requestServer();
  out(texts.stopping(name));
  if (!account.stopIsIgnored) rmSync(path.join(runtimes, found.endpoint), { force: true });
  record(others);
  out(texts.TERMINATED);
}

async function ssh() {
  if (!account.hasSsh) fail(texts.noSuchCommand('ssh'), 2);
  if (!given.includes('--proxy-mode')) fail('The stand-in has only --proxy-mode.\n', 2);
  if (option('-s', '--session') !== undefined) fail('The stand-in creates nothing in ssh.\n', 2);
  if (Object.keys(records()).length === 0) {
    out(texts.NOTHING_TO_USE);
    throw new Exit(1);
  }
  const names = Object.entries(synced());
  const [only, ...more] = names;
  if (!only || more.length > 0) {
    out(only ? texts.several(names.map(([name]) => name)) : texts.NOTHING_TO_USE);
    throw new Exit(1);
  }
  out(texts.using(only[0]));
  const key = publicKey(option('-i', '--identity') ?? '');
  if (key.startsWith('ssh-rsa')) fail(texts.sshFailure('rsa'));
  if (account.sshFails !== null) fail(texts.sshFailure(account.sshFails));
  await bridge(path.join(runtimes, only[1].endpoint), key);
}

/** @param {string} identity */
function publicKey(identity) {
  if (!existsSync(identity)) fail(`[colab] --identity ${identity}: file not found.\n`, 2);
  return spawnSync('ssh-keygen', ['-y', '-f', identity], { encoding: 'utf8' }).stdout.trim();
}

/** One connection for each runtime; it ends with the runtime. @param {string} runtime @param {string} key */
async function bridge(runtime, key) {
  const inUse = `${runtime}.connected`;
  if (existsSync(inUse) && isAlive(Number(readFileSync(inUse, 'utf8')))) fail(texts.sshFailure('429'));
  writeFileSync(inUse, String(process.pid));
  const { host, port, authorizedKeys } = account.vm;
  appendFileSync(authorizedKeys, `${key}\n`);
  const socket = connect({ host, port });
  await new Promise((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', reject);
  }).catch(() => fail(texts.sshFailure('502')));
  watchFile(runtime, { interval: 50 }, ({ nlink }) => {
    if (nlink === 0) socket.destroy();
  });
  process.stdin.pipe(socket).pipe(process.stdout);
  await new Promise(resolve => socket.once('close', resolve));
  rmSync(inUse, { force: true });
  process.exit(0);
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

try {
  if (!COMMANDS.includes(command ?? '')) fail(texts.noSuchCommand(command ?? ''), 2);
  if (account.newer !== null && command !== 'version') out(texts.banner(account.newer, account.version));
  await { version, usage, new: create, status, sessions, stop, ssh }[/** @type {'new'} */ (command)]();
} catch (error) {
  if (!(error instanceof Exit)) throw error;
  process.exitCode = error.code;
}
