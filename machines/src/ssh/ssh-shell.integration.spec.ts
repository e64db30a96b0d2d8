/** Programs and files over a real connection to a stand-in VM. */
import { createHash, randomBytes } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { StandInVm, unavailableReason } from '../../../tests/stand-in-vm/index.js';
import { RemoteProblem } from '../remote-error.js';
import { SshMaster } from './master.js';
import { viaMaster } from './ssh-process.js';
import { SshShell } from './ssh-shell.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();
const MIB = 1024 * 1024;

describe.skipIf(why !== null)(`a shell over ssh${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let vm: StandInVm;
  let master: SshMaster;
  let shell: SshShell;
  const { signal } = new AbortController();
  const options = { signal, timeoutMs: 60_000 };

  beforeAll(async () => {
    vm = await StandInVm.start({ bridge: false });
    await open();
  });
  afterAll(async () => {
    await master[Symbol.asyncDispose]();
    await vm[Symbol.asyncDispose]();
  });

  async function open(): Promise<void> {
    const program = path.join(vm.laptop.bin, 'ssh');
    const controlPath = path.join(vm.folder, 'c');
    const target = { destination: 'vm', options: [] };
    master = await SshMaster.open({
      program,
      target,
      controlPath,
      askpass: null,
      log: () => undefined,
      signal
    });
    shell = new SshShell({ program, controlPath, host: 'vm' });
  }

  it('runs scripts with arguments and input, and returns code, output and lines', async () => {
    const lines: string[] = [];
    const result = await shell.run('echo "$1"; cat; echo oops >&2; exit 3', ["it's $HOME"], {
      ...options,
      stdin: 'one\ntwo',
      onLine: line => lines.push(line)
    });
    expect(result).toEqual({ code: 3, stdout: "it's $HOME\none\ntwo", stderr: 'oops' });
    expect(lines).toEqual(["it's $HOME", 'one', 'two']);
  });

  it('runs several scripts at a time', async () => {
    const all = await Promise.all(
      [1, 2, 3, 4].map(n => shell.run('sleep 0.2; echo "$1"', [String(n)], options))
    );
    expect(all.map(({ stdout }) => stdout.trim())).toEqual(['1', '2', '3', '4']);
  });

  it('a script that takes too long, or is no longer wanted, is ended with a reason', async () => {
    await expect(shell.run('sleep 60', [], { signal, timeoutMs: 300 })).rejects.toMatchObject({
      code: 'remote_timeout'
    });
    const stop = new AbortController();
    const running = shell.run('sleep 60', [], { signal: stop.signal, timeoutMs: 60_000 });
    setTimeout(() => stop.abort(), 200);
    await expect(running).rejects.toMatchObject({ code: 'remote_interrupted' });
  });

  it('an interrupted upload resumes, and the result is the complete file', async () => {
    const file = path.join(vm.folder, 'big');
    await writeFile(file, randomBytes(24 * MIB));
    const broken = new AbortController();
    const upload = shell.upload(file, 'up/load/big', {
      signal: broken.signal,
      onProgress: bytes => {
        if (bytes > 8 * MIB) broken.abort();
      }
    });
    await expect(upload).rejects.toBeInstanceOf(RemoteProblem);
    // The `cat` there writes the bytes in transit, and then ends.
    const left = Number(
      await vm.run('cd; while pgrep -x cat > /dev/null; do sleep 0.1; done; cat up/load/*.part | wc -c')
    );
    expect(left).toBeGreaterThan(0);
    const progress: number[] = [];
    await shell.upload(file, 'up/load/big', { signal, onProgress: bytes => progress.push(bytes) });
    expect(progress[0]).toBeGreaterThanOrEqual(left);
    expect(progress.at(-1)).toBe(24 * MIB);
    const sum = createHash('sha256')
      .update(await readFile(file))
      .digest('hex');
    expect(await vm.run('cd; sha256sum up/load/big; ls up/load')).toBe(`${sum}  up/load/big\nbig\n`);
  });

  it('a part with other bytes is not used: the whole file is sent', async () => {
    const file = path.join(vm.folder, 'small');
    await writeFile(file, 'right');
    const sum = createHash('sha256').update('right').digest('hex').slice(0, 12);
    for (const part of ['wrong', 'wro']) {
      await vm.run(`cd; rm -f small; printf ${part} > small.${sum}.part`);
      const progress: number[] = [];
      await shell.upload(file, 'small', { signal, onProgress: bytes => progress.push(bytes) });
      expect(progress).toContain(0);
      expect(await vm.run('cd; cat small; ls small.*.part 2> /dev/null || true')).toBe('right');
    }
  });

  // The kernel here retransmits data that ssh sent into a cut network, after ssh has ended and the next connection is open.
  it.each([
    ['has not received its input', () => ''],
    ['receives a part of its input', (mark: string) => `\n${mark}\nrest`]
  ])(
    'an upload is not spoilt by the same upload of a cut connection that begins late and %s',
    async (_, input) => {
      const ssh = path.join(vm.laptop.bin, 'ssh');
      const recording = path.join(vm.folder, 'recording-ssh');
      const commands = path.join(vm.folder, 'commands');
      await mkdir(commands, { recursive: true });
      await writeFile(
        recording,
        `#!/bin/sh\nfor last; do :; done\nprintf %s "$last" > '${commands}'/$$\nexec '${ssh}' "$@"\n`,
        { mode: 0o755 }
      );
      const controlPath = path.join(vm.folder, 'c');
      const file = path.join(vm.folder, 'sent');
      await writeFile(file, randomBytes(4 * MIB));
      const late = async (): Promise<void> => {
        for (const name of await readdir(commands)) {
          const command = await readFile(path.join(commands, name), 'utf8');
          const [words] = command.match(/[A-Za-z0-9+/=]{400,}/) ?? [];
          const text = words === undefined ? command : Buffer.from(words, 'base64').toString();
          if (!text.includes('exec cat >')) continue;
          const [mark = ''] = text.match(/tpulab-[0-9a-f]{16}/) ?? [];
          execFileSync(ssh, viaMaster(controlPath, ['-T'], command), {
            input: input(mark),
            stdio: ['pipe', 'pipe', 'ignore']
          });
        }
      };
      let isSpoilt = false;
      const spoiling = new SshShell({ program: recording, controlPath, host: 'vm' });
      const run = spoiling.run.bind(spoiling);
      spoiling.run = async (script, ...more) => {
        if (script.includes('sha256sum') && !isSpoilt) {
          isSpoilt = true;
          await late().catch(() => undefined);
        }
        return run(script, ...more);
      };
      await spoiling.upload(file, 'sent', { signal });
      expect(isSpoilt).toBe(true);
      const sum = createHash('sha256')
        .update(await readFile(file))
        .digest('hex');
      expect(await vm.run('cd; sha256sum < sent')).toContain(sum);
      await vm.run('cd; rm -f sent sent.*');
      await rm(commands, { recursive: true });
    }
  );

  it('when the connection ends, its end is the reason for every failure on it', async () => {
    const running = shell.run('sleep 60', [], options);
    running.catch(() => undefined);
    await new Promise(resolve => setTimeout(resolve, 300));
    await vm.machine.run('pkill -f "sshd: [a]na" || true');
    await expect(running).rejects.toMatchObject({ code: 'remote_lost' });
    expect(await master.lost).toMatchObject({ code: 'remote_lost' });
    await expect(shell.run('true', [], options)).rejects.toMatchObject({ code: 'remote_lost' });
    await open();
    expect((await shell.run('echo again', [], options)).stdout).toBe('again\n');
  });
});
