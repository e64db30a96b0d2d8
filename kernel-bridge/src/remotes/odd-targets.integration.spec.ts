/**
 * Unusual targets and ssh configurations: a target that a real sshd accepts connects; any other target is reported with the
 * actual cause and remedy.
 */
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Remote, RemoteCheck } from '@tpulab/protocol';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { StandInVm, USER, unavailableReason } from '../../../tests/stand-in-vm/index.js';
import { checkRemote } from '../cli/doctor/remote-checks.js';
import { sourceOf, understood } from '../cli/remotes/connect-target.js';
import { Hub } from './testing/hub.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();
/** Names that useradd refuses, but that company directories contain. */
const ACCOUNTS = ['CORP\\jdoe', 'jdoe@corp.example.com', 'John Doe$'];
const KEY = 'bm90IGEga2V5bm90IGEga2V5bm90IGEga2V5';
/** In the first minute a person waits for the answer, and none of these targets is retried. */
const FIRST_MINUTE_MS = 60_000;

describe.skipIf(why !== null)(
  `a target that is named oddly${why === null ? '' : ` (skipped: ${why})`}`,
  () => {
    let vm: StandInVm;
    let hub: Hub;
    let state: string;
    let address: string;
    let sequence = 0;

    beforeAll(async () => {
      vm = await StandInVm.start();
      hub = await Hub.start(vm.laptop);
      state = await mkdtemp(path.join(tmpdir(), 'tpulab-odd-'));
      const { vmAddress, vmNamespace } = vm.network;
      address = vmAddress;
      // Runs in the host's network namespace, whose loopback interface has the IPv6 addresses.
      const real = execFileSync('sh', ['-c', 'command -v ssh'], { encoding: 'utf8' }).trim();
      await writeFile(
        path.join(vm.laptop.bin, 'ssh'),
        `#!/bin/sh\nexec nsenter --net=/var/run/netns/${vmNamespace} '${real}' -F '${vm.laptop.config}' "$@"\n`
      );
      execFileSync('ip', ['-n', vmNamespace, '-6', 'addr', 'add', 'fd00::7/128', 'dev', 'lo', 'nodad']);
      await knowHost();
      await addAccounts();
    });
    afterAll(async () => {
      await hub[Symbol.asyncDispose]();
      await vm[Symbol.asyncDispose]();
      await rm(state, { recursive: true, force: true });
    });
    afterEach(async () => {
      await vm.laptop.configure(host());
      for (const { name } of await remotes()) await hub.rest('DELETE', `/bridge/v1/machines/${name}`);
    });

    const host = (name = 'vm'): string[] => [`Host ${name}`, `  HostName ${address}`, `  User ${USER}`];
    const knowHost = async (): Promise<void> =>
      vm.laptop.know(['vm', address, '::1', 'fd00::7'], await vm.publicHostKey());
    const remotes = async (): Promise<Remote[]> =>
      ((await hub.rest('GET', '/bridge/v1/machines')).body as { remotes: Remote[] }).remotes;

    /** The accounts share the home folder and uid of the stand-in's user, and so its keys. */
    async function addAccounts(): Promise<void> {
      const add = async (file: string, line: (name: string) => string): Promise<void> =>
        writeFile(path.join(vm.folder, 'etc', file), ACCOUNTS.map(line).join(''), { flag: 'a' });
      await add('passwd', name => `${name}:x:4001:4001::/home/${USER}:/bin/bash\n`);
      await add('shadow', name => `${name}:*:19000::::::\n`);
    }

    /** Like `tpulab connect TEXT`. */
    async function tried(text: string, body: object = {}): Promise<Remote> {
      const name = `r${sequence++}`;
      const { target, options } = understood(text, {});
      const source = sourceOf(target, options);
      const added = await hub.rest('POST', '/bridge/v1/machines', {
        body: { name, source, install: false, ...body }
      });
      expect(added.status, JSON.stringify(added.body)).toBe(201);
      return vi.waitUntil(
        async () => {
          const remote = await hub.remote(name);
          return ['connected', 'failed', 'waiting'].includes(remote.state) && remote;
        },
        { timeout: FIRST_MINUTE_MS, interval: 50 }
      );
    }

    const doctor = (target: string): Promise<RemoteCheck[]> =>
      checkRemote({
        target,
        stateDir: state,
        environment: undefined,
        sshProgram: path.join(vm.laptop.bin, 'ssh'),
        signal: AbortSignal.timeout(FIRST_MINUTE_MS)
      });

    async function connects(text: string): Promise<void> {
      const { state: reached, error, name } = await tried(text);
      expect(reached, `${JSON.stringify(error)}\n${await hub.log(name)}`).toBe('connected');
    }

    /** The server and `tpulab doctor` report the same. */
    async function failsWith(text: string, message: RegExp, code: string): Promise<Remote> {
      const remote = await tried(text);
      expect(remote).toMatchObject({ state: 'failed', nextAttemptAt: null, error: { code } });
      expect(remote.error!.message).toMatch(message);
      const check = (await doctor(text)).find(found => found.state === 'failed');
      expect(`${check?.message} ${check?.remedy ?? ''}`).toMatch(message);
      return remote;
    }

    it.each([
      ['an ssh command', () => `$ ssh -p 22 ${USER}@${address}`],
      ['a name in typographic quotes', () => `“${USER}@${address}” `],
      ['a name with a port', () => `${USER}@${address}:22`]
    ])('%s connects when pasted', (_what, text) => connects(text()));

    it.each([
      ['-i', /IdentityFile into a Host entry/, () => `ssh -i ~/.ssh/id ${USER}@${address}`],
      [';', /character ;/, () => `${USER}@${address}; touch ~/pasted`],
      ['a backslash', /"User CORP\\jdoe" into a Host entry/, () => `CORP\\jdoe@${address}`],
      ['an address with a port', /Host entry of ~\/\.ssh\/config/, () => `${USER}@[fd00::7]:22`]
    ])(
      'a pasted command with %s is refused with the reason, and leaves no machine behind',
      async (...row) => {
        const [, reason, text] = row;
        await expect(tried(text())).rejects.toMatchObject({ code: 'remote_target_invalid' });
        expect(await doctor(text())).toMatchObject([
          { name: 'target', state: 'failed', message: expect.stringMatching(reason) as string }
        ]);
        expect(await remotes()).toEqual([]);
        expect(await vm.run('ls ~')).not.toContain('pasted');
      }
    );

    it('accounts with a backslash, an @, a space and a dollar sign connect', async () => {
      const entries = ACCOUNTS.flatMap((name, at) => [
        ...[`Host b06-${at}`, `  HostName ${address}`, `  User "${name.replaceAll('\\', '\\\\')}"`]
      ]);
      await vm.laptop.configure([...entries, 'Host corp-host', `  HostName ${address}`]);
      for (const at of ACCOUNTS.keys()) await connects(`b06-${at}`);
      await connects('jdoe@corp.example.com@corp-host');
      const log = await vm.sshdLog();
      for (const name of ACCOUNTS) expect(log).toContain(`for ${name.replaceAll('\\', '\\\\')} from`);
    });

    it('IPv6 addresses connect, in brackets and with a scope, and a changed key is named as it is stored', async () => {
      await vm.laptop.configure(['Host ::1 ::1%%lo ::1%lo', `  User ${USER}`]);
      for (const text of ['::1', '::1%lo', `${USER}@fd00::7`, `${USER}@[fd00::7]`]) await connects(text);
      await vm.changeHostKey();
      const { error } = await failsWith(
        `${USER}@fd00::7`,
        /key of ana@fd00::7 differs/,
        'remote_host_key_changed'
      );
      expect(error!.command).toMatch(/^ssh-keygen -f \S+ -R fd00::7$/);
      execFileSync('sh', ['-c', error!.command!], { stdio: 'ignore' });
      expect(await readFile(vm.laptop.knownHosts, 'utf8')).not.toContain('fd00::7');
      await knowHost();
      await connects(`${USER}@fd00::7`);
    });

    it.each([
      ['UseKeychain yes', /usekeychain in line 4 of \S+config\. .*IgnoreUnknown usekeychain/],
      ['HostName: 127.0.0.1', /line 4 of \S+config: hostname:\. Remove the colon/],
      ['OptionOfNextYear yes', /optionofnextyear in line 4/],
      ['StrictHostKeyChecking maybe', /line 4 of \S+config: unsupported option "maybe"\. Correct that line/],
      ['Port abc', /line 4 of \S+config: Bad port 'abc'\. Correct/],
      ['Ciphers none-of-these', /line 4 of \S+config: Bad SSH2 cipher spec/],
      [
        'KexAlgorithms diffie-hellman-group1-sha1',
        /no key exchange method in common \(there: \S+\).*"KexAlgorithms \+\S+" into the Host entry/
      ],
      ['AddressFamily inet6', /no address of the kind .* Remove AddressFamily/],
      ['PreferredAuthentications password', /no key to vm.*"preferredauthentications password"/],
      ['BindAddress 192.0.2.9', /BindAddress .*bind 192\.0\.2\.9: Cannot assign/]
    ])('a configuration with "%s" is reported with its line and remedy', async (line, message) => {
      await vm.laptop.configure([...host(), `  ${line}`]);
      await failsWith('vm', message, line.startsWith('Pref') ? 'remote_auth_refused' : 'remote_ssh_failed');
    });

    it('a key that ssh cannot use is reported with its file', async () => {
      await writeFile(path.join(vm.laptop.ssh, 'id_damaged'), 'no key\n', { mode: 0o600 });
      await vm.laptop.configure(host(), 'id_damaged');
      await failsWith('vm', /cannot use the key \S+id_damaged for vm: /, 'remote_auth_refused');
    });

    it("an Include of a private key is reported, and the key's text appears nowhere", async () => {
      const key = path.join(vm.laptop.ssh, 'id_wrong');
      const begin = ['-----BEGIN OPENSSH', 'PRIVATE', 'KEY-----'].join(' ');
      await writeFile(key, `${begin}\n${KEY}\n${KEY} x\n-----END\n`);
      await vm.laptop.configure([`Include ${key}`, ...host()]);
      const remote = await failsWith('vm', /Include .*id_wrong.*private key/, 'remote_ssh_failed');
      const seen = `${JSON.stringify(remote)} ${await hub.log(remote.name)}`;
      expect(seen.toLowerCase()).not.toContain(KEY.toLowerCase().slice(0, 12));
    });

    it('a byte order mark is reported, and Windows line ends connect', async () => {
      await vm.laptop.configure([`\ufeff${host()[0]}`, ...host().slice(1)]);
      await failsWith(
        'vm',
        /line 1 of \S+config begins with a byte order mark.*without one/,
        'remote_ssh_failed'
      );
      await vm.laptop.configure(host().map(line => `${line}\r`));
      await connects('vm');
    });

    it.each([
      ['ProxyCommand /no/such/program', /the ProxyCommand .*\/no\/such\/program/, 'remote_unreachable'],
      ['ProxyJump 127.0.0.1:9', /ProxyJump .*connect to host 127\.0\.0\.1 port 9/, 'remote_unreachable']
    ])(
      'a failure of "%s" is reported as such, and not as a failure of the host',
      async (line, message, code) => {
        await vm.laptop.configure([...host(), `  ${line}`]);
        await failsWith('vm', message, code);
      }
    );

    it('hosts of an Include are offered and connect; listing them runs no command', async () => {
      const more = path.join(vm.laptop.ssh, 'conf.d');
      await mkdir(more);
      await writeFile(path.join(more, '1.conf'), host('epsilon').join('\n'));
      await writeFile(path.join(more, 'loop.conf'), `Include ${more}/*.conf\n`);
      const ran = path.join(state, 'match-ran');
      await vm.laptop.configure([`Include ${more}/1.conf`, `Match exec "touch ${ran}"`, '  User nobody']);
      await writeFile(
        vm.laptop.config,
        `Include ${more}/*.conf\n${await readFile(vm.laptop.config, 'utf8')}`
      );
      const candidates = await hub.rest('GET', '/bridge/v1/machines/candidates');
      expect((candidates.body as { sshHosts: string[] }).sshHosts).toEqual(['epsilon']);
      await expect(readFile(ran)).rejects.toThrow('ENOENT');
      await rm(path.join(more, 'loop.conf'));
      await connects('epsilon');
    });

    it('an sshd that opens no session is reported with the responsible option', async () => {
      await vm.configureSshd('MaxSessions 0');
      await failsWith('vm', /sshd of vm .*MaxSessions/, 'remote_command_refused');
      await vm.configureSshd('MaxSessions 1');
      await connects('vm');
      await vm.configureSshd();
    });

    it('an sshd with too many logins is reported with the responsible option, and connects afterwards', async () => {
      await vm.configureSshd('MaxStartups 1');
      const held = await holdLogin();
      await failsWith('vm', /vm ended the connection before .*MaxStartups/, 'remote_unreachable');
      held.destroy();
      await vm.configureSshd();
      await connects('vm');
    });

    /** Occupies the only login that sshd allows at once: an earlier login may not be over yet. */
    async function holdLogin(): Promise<Socket> {
      return vi.waitUntil(
        async () => {
          const socket = connect(22, address);
          const first = await new Promise<string>(resolve => {
            socket.once('data', (data: Buffer) => resolve(data.toString()));
            socket.once('error', () => resolve('')).once('end', () => resolve(''));
          });
          if (first.startsWith('SSH-2.0')) return socket;
          socket.destroy();
          return null;
        },
        { timeout: FIRST_MINUTE_MS, interval: 50 }
      );
    }

    it('doctor reports a start-up file that prints, although everything else is in order', async () => {
      const bashrc = path.join(vm.home, '.bashrc');
      await writeFile(bashrc, "printf '\\033[1mWelcome to the cluster.\\033[0m\\n'\n");
      const checks = await doctor('vm');
      await rm(bashrc);
      expect(checks).toContainEqual(
        expect.objectContaining({
          state: 'warning',
          message: 'a start-up file there prints "Welcome to the cluster.", also for commands',
          remedy: expect.stringContaining('~/.bashrc') as string
        })
      );
    });

    it('a home that is mounted noexec is reported before anything is sent there', async () => {
      await vm.machine.run('mount -o remount,bind,noexec /home');
      const without = await tried('vm');
      expect(without.error).toMatchObject({ code: 'remote_bridge_failed' });
      expect(without.error!.message).toMatch(/vm may not run the server .*tpulab.*noexec/);
      const installing = await tried('vm', { install: true });
      expect(installing.error).toMatchObject({ code: 'setup_host_unfit' });
      expect(installing.error!.message).toMatch(/noexec \(\/home\).*remount,exec \/home/);
      expect((await doctor('vm')).find(({ name }) => name === 'disk')).toMatchObject({
        state: 'failed',
        message: expect.stringContaining('noexec (/home)') as string
      });
      await vm.machine.run('mount -o remount,bind,exec /home');
      await connects('vm');
    });

    it('a home path of 152 bytes and an alias of 199 bytes connect', async () => {
      const [long, alias] = [`/home/${'x'.repeat(146)}`, 'a'.repeat(199)];
      await vm.machine.run(`ln -s /home/${USER} ${long}`);
      await vm.run('$HOME/.local/bin/tpulab stop').catch(() => undefined);
      const file = path.join(vm.folder, 'etc', 'passwd');
      const accounts = await readFile(file, 'utf8');
      await writeFile(file, accounts.replace(`/home/${USER}:/bin/bash`, `${long}:/bin/bash`));
      await vm.laptop.configure([...host(alias)]);
      await connects(alias);
      expect(await doctor(alias)).toContainEqual(expect.objectContaining({ name: 'ssh', state: 'ok' }));
      await writeFile(file, accounts);
    });
  }
);
