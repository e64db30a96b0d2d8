/** Unusual hosts and ssh configurations: each one connects nevertheless, or the error states the actual cause. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Remote, SyncStatus } from '@tpulab/protocol';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { StandInVm, USER, unavailableReason } from '../../../tests/stand-in-vm/index.js';
import { Hub } from './testing/hub.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();

describe.skipIf(why !== null)(
  `a host that is set up oddly${why === null ? '' : ` (skipped: ${why})`}`,
  () => {
    let vm: StandInVm;
    let hub: Hub;
    let folder: string;

    beforeAll(async () => {
      vm = await StandInVm.start();
      hub = await Hub.start(vm.laptop);
      await hub.add({ connect: false });
      folder = await mkdtemp(path.join(tmpdir(), 'tpulab-odd-'));
    });
    afterAll(async () => {
      await hub[Symbol.asyncDispose]();
      await vm[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    });
    afterEach(async () => {
      await hub.post('disconnect');
      await rm(bashrc(), { force: true });
    });

    const bashrc = (): string => path.join(vm.home, '.bashrc');
    const host = (): string[] => ['Host vm', `  HostName ${vm.network.vmAddress}`, `  User ${USER}`];
    /** The ssh processes of our connection. */
    const masters = (): string[] =>
      execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' })
        .split('\n')
        .filter(line => line.includes('ControlMaster=yes') && line.includes(`-F ${vm.laptop.config}`));

    async function failed(): Promise<Remote> {
      await hub.post('connect');
      await vi.waitFor(async () => expect(await hub.remote()).toMatchObject({ state: 'failed' }), {
        timeout: 90_000,
        interval: 50
      });
      return hub.remote();
    }

    async function copied(direction: 'to-remote' | 'from-remote'): Promise<SyncStatus> {
      const body = { localFolder: folder, remoteFolder: 'odd', direction };
      const begun = await hub.rest('POST', '/bridge/v1/machines/vm/sync', { body });
      expect(begun.status, JSON.stringify(begun.body)).toBe(202);
      return vi.waitUntil(
        async () => {
          const status = (await hub.rest('GET', '/bridge/v1/machines/vm/sync')).body as SyncStatus;
          return status.state === 'running' ? null : status;
        },
        { timeout: 60_000, interval: 20 }
      );
    }

    it.each([
      ['greets', "echo 'Welcome to the cluster.'; echo; echo 'Quota: 41 % of 200 GB used'"],
      [
        'prints what our own answers look like',
        "printf 'end\\tno\\nhome\\t/nowhere\\nsocket\\t/tmp/not-this.sock\\ntoken\\tnot-this\\n'"
      ],
      ['prints escape sequences', "printf '\\033[1;31mmaintenance\\033[0m\\r\\n\\033]0;title\\007'"],
      ['prints a number', 'echo 42'],
      ['prints no line end', "printf 'loading modules ...'"],
      ['asks a question', 'read -t 5 -r answer'],
      [
        'goes elsewhere and changes words',
        'mkdir -p ~/work; cd ~/work; umask 000; alias cat=false; LC_ALL=xx_XX'
      ],
      ['prints five megabytes', "head -c 5000000 /dev/zero | tr '\\0' x"],
      ['prints bytes that are no text', "printf '\\000\\377\\001\\n\\n'"],
      [
        'sets options of tar, grep and rsync',
        'export TAR_OPTIONS=--totals GREP_OPTIONS=--color=always POSIXLY_CORRECT=1 RSYNC_RSH=false RSYNC_PROXY=x:1'
      ],
      ['forbids to overwrite files', 'set -o noclobber -u; export SHELLOPTS'],
      ['prints at each command', 'trap "echo step; echo step >&2" DEBUG'],
      [
        'replaces cd and printf, and has a path for cd',
        'cd() { builtin cd "$@"; ls; }; printf() { builtin printf "$@"; echo; }; export -f cd printf; export CDPATH=.:/:/tmp'
      ],
      ['exports names of ours', 'export base=/no state=/no file=/no part=/no mark=/no tpulab_line=x'],
      ['changes how words are split', 'export IFS=/; IFS=/'],
      ['lets Node wait for a debugger', 'export NODE_OPTIONS=--inspect-brk=127.0.0.1:0'],
      // ssh alone would wait for the program.
      ['leaves a program running', 'sleep 300 &'],
      ['leaves a program running, and discards messages', 'exec 2>/dev/null; sleep 300 &'],
      ['says goodbye', 'trap "echo bye; touch ~/said-goodbye" EXIT']
    ])('a start-up file that %s harms nothing', async (_what, text) => {
      await writeFile(bashrc(), `${text}\n`);
      await hub.post('connect');
      await hub.until('connected');
      const words = `${Math.random()}\n`;
      await writeFile(path.join(folder, 'a.txt'), words);
      expect(await copied('to-remote')).toMatchObject({ state: 'done', error: null });
      expect(await readFile(path.join(vm.home, 'odd', 'a.txt'), 'utf8')).toBe(words);
      await rm(path.join(folder, 'a.txt'));
      expect(await copied('from-remote')).toMatchObject({ state: 'done', error: null });
      expect(await readFile(path.join(folder, 'a.txt'), 'utf8')).toBe(words);
      expect(await hub.log()).not.toContain('\x1b');
      // rsync would parse any output at the end as part of its protocol.
      expect(existsSync(path.join(vm.home, 'said-goodbye'))).toBe(false);
    });

    it.each([
      ['starts another shell', 'exec sh'],
      ['exits', 'exit 0'],
      ['fails', 'set -e; false']
    ])('a start-up file that %s is named, and nothing is retried', async (_what, text) => {
      await writeFile(bashrc(), `${text}\n`);
      const { error, nextAttemptAt } = await failed();
      expect(error).toMatchObject({ code: 'remote_command_refused', command: "ssh vm 'echo ok'" });
      expect(error!.message).toMatch(/^vm let us in.*~\/\.bashrc/);
      expect(nextAttemptAt).toBeNull();
    });

    it.each([
      ['allows few open files', 'ulimit -n 20', 'remote_bridge_failed', /too little for a server .*EMFILE/],
      ['allows little memory', 'ulimit -v 300000', 'remote_bridge_failed', /too little for a server/],
      ['allows few processes', 'ulimit -u 3', 'remote_bridge_failed', /too little for a server .*[Ff]ork/],
      [
        'sets a PATH without programs',
        'export PATH=/nowhere',
        'remote_command_refused',
        /no program "sh" on its PATH/
      ],
      [
        'sets a home folder that does not exist',
        'export HOME=/nowhere PATH=/usr/bin:/bin',
        'remote_command_refused',
        /home folder on vm, "\/nowhere", does not exist/
      ],
      [
        'waits',
        'echo please wait; sleep 600',
        'remote_timeout',
        /not begun our command .*"please wait".* waits/
      ]
    ])('a start-up file that %s is named, and nothing is retried', async (_what, text, code, message) => {
      await writeFile(bashrc(), `${text}\n`);
      const { error, nextAttemptAt } = await failed();
      expect(error).toMatchObject({ code });
      expect(error!.message).toMatch(message);
      expect(error!.message).toContain('~/.bashrc');
      expect(nextAttemptAt).toBeNull();
    });

    it('a start-up file that discards the input of commands is named when files are copied', async () => {
      await writeFile(bashrc(), 'exec </dev/null\n');
      await hub.post('connect');
      await hub.until('connected');
      await writeFile(path.join(folder, 'a.txt'), 'a');
      const { error } = await copied('to-remote');
      expect(error!.message).toContain('a start-up file there (~/.bashrc, or what it reads) discards it');
    });

    it("a start-up file that breaks Node is reported with Node's error", async () => {
      await writeFile(bashrc(), 'export NODE_OPTIONS=--require=/nowhere.js\n');
      await hub.post('connect');
      // A host that was connected before is retried: its state is "reconnecting".
      const { error } = await vi.waitUntil(
        async () => {
          const remote = await hub.remote();
          return remote.error === null ? null : remote;
        },
        { timeout: 90_000, interval: 50 }
      );
      expect(error).toMatchObject({ code: 'remote_bridge_failed' });
      expect(error!.message).toMatch(/does not start: Error: Cannot find module '\/nowhere\.js'/);
    });

    it('the message of an account that may not run commands is shown', async () => {
      await vm.setShell('/usr/sbin/nologin');
      const { error } = await failed();
      await vm.setShell('/bin/bash');
      expect(error).toMatchObject({ code: 'remote_command_refused' });
      expect(error!.message).toContain('This account is currently not available');
      const key = await vm.laptop.publicKey();
      await vm.authorize(`command="echo backups only" ${key}`);
      const forced = await failed();
      await vm.authorize(key);
      expect(forced.error!.message).toContain('it said "backups only"');
    });

    it.each([
      ['no sockets and no ports', ['AllowStreamLocalForwarding no', 'AllowTcpForwarding no'], ''],
      ['nothing', ['DisableForwarding yes'], ''],
      ['nothing for this key', [], 'no-port-forwarding '],
      ['one port, which is not ours', ['AllowStreamLocalForwarding no', 'PermitOpen 127.0.0.1:22'], '']
    ])('an sshd that forwards %s is reported immediately', async (_what, lines, option) => {
      const key = await vm.laptop.publicKey();
      const before = (await hub.log()).split('\n').length;
      await vm.configureSshd(...lines);
      await vm.authorize(option + key);
      const { error, nextAttemptAt } = await failed();
      await vm.authorize(key);
      await vm.configureSshd();
      expect(error).toMatchObject({ code: 'remote_forward_failed' });
      expect(error!.message).toMatch(
        /sshd of vm.*AllowStreamLocalForwarding.*AllowTcpForwarding.*no-port-forwarding.*restrict/
      );
      expect(error!.message).not.toContain('gateway.log');
      expect(nextAttemptAt).toBeNull();
      expect((await hub.log()).split('\n').length - before).toBeLessThan(30);
      expect(await vm.run('pgrep -x python3 || true')).toBe('');
    });

    // Each ssh would start another one, endlessly.
    it.each([
      ['is its own jump host', ['  ProxyJump vm'], 'vm → vm'],
      ['has a jump host to which "Host *" applies too', ['Host *', '  ProxyJump gate'], 'vm → gate → gate'],
      [
        'jumps in a circle',
        ['  ProxyJump a', 'Host a', '  ProxyJump ana@b:22', 'Host b', '  ProxyJump a'],
        'vm → a → ana@b:22 → a'
      ],
      [
        'has a jump host with an address, to which "Host *" applies too',
        ['Host gate', '  HostName 127.0.0.1', 'Host *', '  ProxyJump gate'],
        'vm → gate → gate'
      ]
    ])('a host that %s is reported immediately', async (_what, lines, circle) => {
      await vm.laptop.configure([...host(), ...lines]);
      const { error, nextAttemptAt } = await failed();
      await vm.laptop.configure(host());
      expect(error).toMatchObject({ code: 'remote_ssh_failed' });
      expect(error!.message).toContain(`leads in a circle (${circle}`);
      expect(nextAttemptAt).toBeNull();
      expect(masters()).toEqual([]);
    });

    it('an sshd that forwards only ports is used through a port', async () => {
      await vm.configureSshd('AllowStreamLocalForwarding no');
      await hub.post('connect');
      await hub.until('connected');
      await vm.configureSshd();
    });

    it.each([
      ['forks', ['  ForkAfterAuthentication yes', '  StdinNull yes']],
      ['shares connections', ['  ControlMaster auto', '  ControlPath ~/.ssh/%C', '  ControlPersist 10m']],
      ['wants no session', ['  SessionType none']],
      [
        'runs something else',
        [
          ...['  RemoteCommand tmux new -A', '  RequestTTY force', '  PermitLocalCommand yes'],
          ...['  LocalCommand touch ~/local-command-ran', '  LogLevel QUIET']
        ]
      ]
    ])('a configuration of ssh that %s connects, and leaves nothing behind', async (_what, lines) => {
      await vm.laptop.configure([...host(), ...lines]);
      await hub.post('connect');
      await hub.until('connected');
      expect(masters()).toHaveLength(1);
      await hub.post('disconnect');
      await vm.laptop.configure(host());
      await vi.waitFor(() => expect(masters()).toEqual([]), { timeout: 30_000 });
      expect(await vm.run('ls ~')).not.toContain('local-command-ran');
    });
  }
);
