/**
 * A kernel for tests that uses the real wire protocol and runs its "code", one command per line:
 *
 * print N · exit CODE · die · wait (until SIGINT) · input · env NAME · cwd · child (prints the pid of a child in its group)
 * · forge (a reply with a wrong signature, then a right message) · buffers · large BYTES · telemetry JSON · stall MS (blocks)
 *
 * node tiny-kernel.mjs CONNECTION_FILE [--ignore-sigterm] [--exit-at-start CODE] [--deaf] [--no-control-info] [--bind-after FILE]
 */
import { spawn } from 'node:child_process';
import { createHmac, randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Publisher, Reply, Router } from 'zeromq';

const [connectionFile, ...flags] = process.argv.slice(2);
const info = JSON.parse(readFileSync(connectionFile, 'utf8'));
const session = randomUUID();
const flag = name => flags.includes(name);

const valueOf = name => flags[flags.indexOf(name) + 1];

while (flag('--bind-after') && !existsSync(valueOf('--bind-after'))) {
  await delay(10);
}
if (flag('--exit-at-start')) {
  process.exit(Number(valueOf('--exit-at-start')));
}
if (flag('--ignore-sigterm')) {
  process.on('SIGTERM', () => process.stdout.write('SIGTERM ignored\n'));
}
let interrupted = () => undefined;
process.on('SIGINT', () => interrupted());

const address = port => `${info.transport}://${info.ip}-${port}`;
// Generous: messages must be sent even when the machine is busy with other things.
const linger = 30_000;
const unbounded = { sendHighWaterMark: 0, receiveHighWaterMark: 0, linger };
// As in ipykernel: a peer that reconnects under its name replaces the old one.
const router = () => new Router({ ...unbounded, handover: true });
const shell = router();
const stdin = router();
const control = router();
const iopub = new Publisher({ sendHighWaterMark: 0, linger });
const heartbeat = new Reply();

const sign = (key, parts) => {
  const hmac = createHmac('sha256', key);
  parts.forEach(part => hmac.update(part));
  return hmac.digest('hex');
};

let count = 0;
function message(type, parent, content, key = info.key) {
  const header = {
    msg_id: `${session}_${++count}`,
    msg_type: type,
    session,
    username: 'tiny',
    date: new Date().toISOString(),
    version: '5.4'
  };
  const parts = [header, parent, {}, content].map(part => Buffer.from(JSON.stringify(part)));
  return ['<IDS|MSG>', sign(key, parts), ...parts];
}

// Shell and control publish at the same time; a zeromq socket takes one send at a time.
let published = Promise.resolve();
function publish(type, parent, content, buffers = []) {
  const frames = [type, ...message(type, parent, content), ...buffers];
  published = published.then(() => iopub.send(frames));
  return published;
}

async function* requests(socket) {
  for await (const frames of socket) {
    const at = frames.findIndex(frame => frame.toString() === '<IDS|MSG>');
    const parts = frames.slice(at + 2, at + 6);
    if (sign(info.key, parts) !== frames[at + 1].toString()) {
      process.stdout.write('a request with a wrong signature\n');
      continue;
    }
    const [header, , , content] = parts.map(part => JSON.parse(part.toString()));
    yield { identity: frames[0], header, content, buffers: frames.slice(at + 6) };
  }
}

const print = (parent, text) => publish('stream', parent, { name: 'stdout', text });

async function command(line, { identity, header }) {
  const [word, ...rest] = line.split(' ');
  const argument = rest.join(' ');
  switch (word) {
    case 'print':
      for (let index = 0; index < Number(argument); index++) {
        await print(header, `line ${index}\n`);
      }
      break;
    case 'exit':
      process.exit(Number(argument));
      break;
    case 'die':
      process.kill(process.pid, 'SIGKILL');
      break;
    case 'wait':
      await new Promise((_, reject) => {
        interrupted = () => reject(new Error('KeyboardInterrupt'));
      });
      break;
    case 'stall':
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(argument));
      break;
    case 'input': {
      await stdin.send([
        identity,
        ...message('input_request', header, { prompt: 'name? ', password: false })
      ]);
      const { value } = await requests(stdin).next();
      await print(header, `hello ${value.content.value}\n`);
      break;
    }
    case 'env':
      await print(header, `${process.env[argument] ?? 'unset'}\n`);
      break;
    case 'cwd':
      await print(header, `${process.cwd()}\n`);
      break;
    case 'child': {
      const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'], {
        stdio: 'ignore'
      });
      await print(header, `${child.pid}\n`);
      break;
    }
    case 'forge':
      await shell.send([
        identity,
        ...message('execute_reply', header, { status: 'error', ename: 'forged' }, 'another key')
      ]);
      await print(header, 'genuine\n');
      break;
    case 'buffers':
      await publish('display_data', header, { data: {}, metadata: {} }, [
        Buffer.from([0, 1, 2, 255]),
        Buffer.alloc(0)
      ]);
      break;
    case 'large':
      await print(header, 'x'.repeat(Number(argument)));
      break;
    case 'telemetry': {
      const socket = connect(process.env['TPULAB_AGENT_SOCKET']);
      await new Promise(resolve => socket.end(`${argument}\n`, resolve));
      break;
    }
    default:
      throw new Error(`unknown command ${word}`);
  }
}

async function execute(request) {
  const { header, content } = request;
  if (content.silent && content.code === '') {
    return { status: 'ok', execution_count: 0, payload: [], user_expressions: {} };
  }
  await publish('execute_input', header, { code: content.code, execution_count: 1 });
  try {
    for (const line of content.code.split('\n')) {
      await command(line, request);
    }
    return { status: 'ok', execution_count: 1, payload: [], user_expressions: {} };
  } catch (error) {
    const failure = { ename: error.message, evalue: '', traceback: [] };
    await publish('error', header, failure);
    return { status: 'error', ...failure };
  }
}

async function serve(socket, name) {
  for await (const request of requests(socket)) {
    const { identity, header, content } = request;
    if (
      flag('--deaf') ||
      (name === 'control' && flag('--no-control-info') && header.msg_type === 'kernel_info_request')
    ) {
      continue;
    }
    await publish('status', header, { execution_state: 'busy' });
    let reply = { status: 'ok' };
    if (header.msg_type === 'execute_request') {
      reply = await execute(request);
    } else if (header.msg_type === 'kernel_info_request') {
      reply = {
        status: 'ok',
        protocol_version: '5.4',
        implementation: 'tiny',
        language_info: { name: 'words' }
      };
    } else if (header.msg_type === 'interrupt_request') {
      interrupted();
    } else if (header.msg_type === 'shutdown_request') {
      reply = { status: 'ok', restart: content.restart };
    }
    await socket.send([identity, ...message(header.msg_type.replace('_request', '_reply'), header, reply)]);
    await publish('status', header, { execution_state: 'idle' });
    if (reply.ename === 'KeyboardInterrupt') process.stdout.write('the wait was interrupted\n');
    if (header.msg_type === 'shutdown_request') {
      setTimeout(() => process.exit(0), 10);
    }
  }
}

async function echo() {
  for await (const frames of heartbeat) {
    await heartbeat.send(frames);
  }
}

await Promise.all([
  shell.bind(address(info.shell_port)),
  stdin.bind(address(info.stdin_port)),
  control.bind(address(info.control_port)),
  iopub.bind(address(info.iopub_port)),
  heartbeat.bind(address(info.hb_port))
]);
await publish('status', {}, { execution_state: 'starting' });
await Promise.all([serve(shell, 'shell'), serve(control, 'control'), echo()]);
