import { execFile, execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { masterArguments, viaMaster } from './ssh-process.js';
import { Askpass } from './askpass.js';
import { explainSsh } from './explain.js';
import { SshMaster } from './master.js';
import { shellCommand, SshShell } from './ssh-shell.js';
import { checkDestination, commandFor, sshHosts } from './ssh-config.js';

const run = promisify(execFile);
let folder: string;
beforeEach(async () => (folder = await mkdtemp(path.join(tmpdir(), 'tpl-'))));
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true, force: true });
});

describe('the arguments of ssh', () => {
  const target = { destination: 'ana@host', options: ['-p', '2222'] };

  it('are accepted by the ssh of this machine, and preserve the settings of the user', () => {
    const args = masterArguments(target, path.join(folder, 'c'), { mayPrompt: true, isProxied: false });
    const reported = execFileSync('ssh', ['-G', ...args], { encoding: 'utf8' });
    for (const line of ['user ana', 'hostname host', 'port 2222', 'serveraliveinterval 5', 'batchmode no']) {
      expect(reported).toContain(line);
    }
    expect(args.join(' ')).not.toMatch(/StrictHostKeyChecking|UserKnownHostsFile|IdentityFile/);
  });

  it.each([
    ['behind', 45],
    ['plain', 15]
  ])(
    'to %s give it %d s: a proxy of the configuration of ssh takes its time too',
    async (destination, seconds) => {
      const [config, log, program] = ['config', 'log', 'ssh'].map(name => path.join(folder, name));
      const nowhere = '  HostName 127.0.0.1\n  Port 1\n';
      await writeFile(
        config!,
        `Host behind\n${nowhere}  ProxyCommand false\nHost plain\n${nowhere}  ProxyCommand none\n`
      );
      const starter = `#!/bin/sh\necho "$@" >> '${log!}'\nexec ssh -F '${config!}' "$@"\n`;
      await writeFile(program!, starter, { mode: 0o755 });
      const opened = SshMaster.open({
        program: program!,
        target: { destination, options: [] },
        controlPath: path.join(folder, 'c'),
        askpass: null,
        log: () => undefined,
        signal: new AbortController().signal
      });
      await expect(opened).rejects.toMatchObject({ code: 'remote_unreachable' });
      expect(await readFile(log!, 'utf8')).toContain(`ConnectTimeout=${seconds} `);
    }
  );

  // A word that ssh expands must not reach a secret here.
  it.each(['forward', 'connect'])('with few variables of ours: %s', async what => {
    const [program, log] = ['ssh', 'log'].map(name => path.join(folder, name)) as [string, string];
    await writeFile(program, `#!/bin/sh\nenv >> '${log}'\necho end >> '${log}'\nexit 1\n`, { mode: 0o755 });
    vi.stubEnv('HF_TOKEN', 'hf_SECRETabc123');
    vi.stubEnv('TPULAB_TOKEN', 'SECRET-of-the-gateway');
    vi.stubEnv('SSH_AUTH_SOCK', '/agent');
    const signal = AbortSignal.timeout(30_000);
    const controlPath = path.join(folder, 'c');
    if (what === 'connect') {
      const target = { destination: 'host', options: [] };
      const asking = {
        program,
        target,
        controlPath,
        askpass: { SSH_ASKPASS: 'ours' },
        log: () => undefined,
        signal
      };
      await expect(SshMaster.open(asking)).rejects.toMatchObject({ code: 'remote_ssh_failed' });
    } else {
      const shell = new SshShell({ program, controlPath, host: 'host' });
      const ran = shell.run('true', [], { signal, timeoutMs: 30_000 });
      await expect(ran).rejects.toMatchObject({ code: 'remote_command_refused' });
    }
    const seen = await readFile(log, 'utf8');
    expect(seen).not.toContain('SECRET');
    const names = new Set(
      [...seen.matchAll(/^(\w+)=/gm)]
        .map(([, name]) => name)
        .filter(name => !/^(PWD|SHLVL|_|OLDPWD)$/.test(name!))
    );
    expect(names).toContain('SSH_AUTH_SOCK');
    if (what === 'forward') expect(names).toEqual(new Set(['HOME', 'PATH', 'SSH_AUTH_SOCK']));
    else expect(names).toContain('SSH_ASKPASS');
  });

  it.each([
    [
      [
        '/h/.ssh/config: line 7: Bad configuration option: usekeychain',
        '/h/.ssh/config: terminating, 1 bad configuration options'
      ],
      /usekeychain in line 7 of \/h\/\.ssh\/config\. .*IgnoreUnknown usekeychain/
    ],
    [
      [
        '/h/.ssh/config: line 2: Bad configuration option: hostname:',
        '/h/.ssh/config: terminating, 1 bad configuration options'
      ],
      /line 2 .*Remove the colon/
    ],
    [
      ['/h/.ssh/config line 3: unsupported option "maybe".'],
      /line 3 of \/h\/\.ssh\/config: unsupported option "maybe"/
    ],
    [
      [
        '/h/.ssh/id_wrong: line 1: Bad configuration option: [text that is no option]',
        '/h/.ssh/id_wrong: terminating, 7 bad configuration options'
      ],
      /Include .*\/h\/\.ssh\/id_wrong.*private key/
    ],
    [[], /background.*ForkAfterAuthentication/]
  ])('with a wrong configuration cause a message with file, line and remedy: %j', (lines, words) => {
    const problem = explainSsh({ destination: 'vm', options: [] }, lines, lines.length === 0 ? 0 : 255);
    expect(problem).toMatchObject({ code: 'remote_ssh_failed', recovery: 'person' });
    expect(problem.message).toMatch(words);
  });

  it("name an option of sshd's that stands in a file of ssh's, although it has digits", async () => {
    const [config, program] = ['sshd-options', 'ssh-with-them'].map(name => path.join(folder, name)) as [
      string,
      string
    ];
    await writeFile(config, 'Host vm\n  X11Forwarding yes\n');
    await writeFile(program, `#!/bin/sh\nexec ssh -F '${config}' "$@"\n`, { mode: 0o755 });
    const options = {
      program,
      target: { destination: 'vm', options: [] },
      controlPath: path.join(folder, 'c'),
      askpass: null,
      signal: new AbortController().signal
    };
    await expect(SshMaster.open({ ...options, log: () => undefined })).rejects.toThrow(
      /does not know the option x11forwarding in line 2 of .*sshd-options/
    );
  });

  it('never show or log the text of a key that an Include names', async () => {
    const [config, key, program] = ['config', 'id_wrong', 'ssh'].map(name => path.join(folder, name)) as [
      string,
      string,
      string
    ];
    await writeFile(
      key,
      [
        '-----BEGIN OPENSSH',
        'PRIVATE',
        'KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU9c2VjcmV0\nYWJj ZGVm\n'
      ].join(' ')
    );
    await writeFile(config, `Include ${key}\nHost vm\n  HostName 127.0.0.1\n`);
    await writeFile(program, `#!/bin/sh\nexec ssh -F '${config}' "$@"\n`, { mode: 0o755 });
    const lines: string[] = [];
    const target = { destination: 'vm', options: [] };
    const options = {
      program,
      target,
      controlPath: path.join(folder, 'c'),
      askpass: null,
      signal: new AbortController().signal
    };
    const opened = SshMaster.open({ ...options, log: line => lines.push(line) });
    const error = await opened.then(
      () => null,
      (thrown: unknown) => thrown as Error
    );
    expect(error?.message).toMatch(/Include .*id_wrong/);
    expect(`${error?.message} ${lines.join(' ')}`.toLowerCase()).not.toMatch(/b3blbnnz|ywjj|begin openssh/);
  });

  it('for a connection that has ended reach no other machine', async () => {
    const started = run('ssh', viaMaster(path.join(folder, 'gone'), ['-T'], 'true'));
    await expect(started).rejects.toMatchObject({ code: 255 });
  });

  it.each(['-oProxyCommand=x', '', 'a b', "a'b", 'a$(id)', 'a\nb'])(
    '%j is not a destination',
    destination => {
      expect(() => checkDestination(destination)).toThrow(/not a valid ssh destination/);
    }
  );

  it('are shown as a person would type them', () => {
    const options = ['-o', "ProxyCommand=sh -c 'x y'"];
    expect(commandFor({ destination: 'h', options })).toBe(`ssh -o 'ProxyCommand=sh -c '\\''x y'\\''' h`);
  });
});

describe('a script for the remote side', () => {
  const SHELLS = ['/bin/sh', '/bin/bash', '/bin/dash', '/usr/bin/zsh', '/usr/bin/fish', '/bin/csh'].filter(
    existsSync
  );
  const HARD = ["it's", '$(id) `id` "x" \\ !', 'two\nlines', '', '-n', 'ü☃', '*'];

  it.each(SHELLS)('is parsed by %s, with any arguments', async shell => {
    const script = `for one in "$@"; do printf '%s\\0' "$one"; done`;
    const { stdout } = await run(shell, ['-c', shellCommand(script, HARD)]);
    expect(stdout.split('\0').slice(0, -1)).toEqual(HARD);
  });

  it('has all of its output, however late it arrives after its messages, and its own code', async () => {
    const program = path.join(folder, 'slow-ssh');
    // The command is the last argument.
    await writeFile(program, '#!/bin/bash\n{ sh -c "${!#}"; } | { sleep 3; cat; }\n', { mode: 0o755 });
    const shell = new SshShell({ program, controlPath: path.join(folder, 'c'), host: 'vm' });
    const options = { signal: new AbortController().signal, timeoutMs: 30_000 };
    // A list of processes has the mark in it.
    const script =
      'seq 2000; tr "\\0" " " < /proc/$$/cmdline; echo; echo message >&2; printf tpulab-t; exit 7';
    const { code, stdout, stderr } = await shell.run(script, [], options);
    expect({ code, stderr }).toEqual({ code: 7, stderr: 'message' });
    const lines = Array.from({ length: 2000 }, (_, n) => `${n + 1}\n`).join('');
    expect(stdout.slice(0, lines.length)).toBe(lines);
    expect(stdout.slice(lines.length)).toMatch(/^sh -c .* tpulab-[0-9a-f]{16} \ntpulab-t$/s);
  });

  it('ends although another program keeps its output open, of which nothing is read', async () => {
    const program = path.join(folder, 'open-ssh');
    await writeFile(
      program,
      '#!/bin/bash\n(while sleep 0.2; do echo beat; done) &\nsh -c "${!#}" 2>/dev/null\nwait\n',
      { mode: 0o755 }
    );
    const shell = new SshShell({ program, controlPath: path.join(folder, 'c'), host: 'vm' });
    const options = { signal: new AbortController().signal, timeoutMs: 30_000 };
    expect(await shell.run('echo done; exit 255', [], options)).toMatchObject({
      code: 255,
      stdout: 'done\n'
    });
    expect(shell.isHeldOpen).toBe(true);
  });

  it('ends with its own code, and reads its input', async () => {
    const command = shellCommand('cat; exit 7', []);
    const child = run('/bin/sh', ['-c', command]);
    child.child.stdin?.end('hello');
    await expect(child).rejects.toMatchObject({ code: 7, stdout: 'hello' });
  });
});

describe('a failure of ssh', () => {
  const target = { destination: 'vm', options: [] };
  it.each([
    ['ssh: connect to host 192.0.2.1 port 22: Connection timed out', 'remote_unreachable'],
    ['ssh: connect to host 192.0.2.1 port 22: Connection refused', 'remote_unreachable'],
    ['kex_exchange_identification: Connection closed by remote host', 'remote_unreachable'],
    ['ssh: Could not resolve hostname nowhere: Name or service not known', 'remote_name_unknown'],
    ['ana@vm: Permission denied (publickey).', 'remote_auth_refused'],
    ['Host key verification failed.', 'remote_host_key_unknown'],
    ['/etc/ssh/ssh_config: line 3: Bad configuration option: foo', 'remote_ssh_failed']
  ])('%s', (line, code) => {
    const problem = explainSsh(target, [line], 255);
    expect(problem.code).toBe(code);
    expect(problem.message).toContain('vm');
  });

  it.each([
    ['ssh: Could not resolve hostname gate: Name or service not known', /gate \(on the way to vm\), or/],
    ['ana@gate: Permission denied (publickey).', /^gate \(on the way to vm\) rejected/],
    ['ana@10.0.0.2: Permission denied (publickey).', /^vm rejected/]
  ])('of a host on the way names that host: %s', (line, message) => {
    const configured = 'hostname 10.0.0.2\nproxyjump ana@gate\n';
    expect(
      explainSsh(target, [line, 'Connection closed by UNKNOWN port 65535'], 255, configured).message
    ).toMatch(message);
  });

  // ssh notices the end of the command while reading or while writing, whichever comes first.
  it.each([
    'kex_exchange_identification: Connection closed by remote host',
    'Connection closed by UNKNOWN port 65535',
    'banner exchange: Connection to UNKNOWN port 65535: Broken pipe',
    'ssh_dispatch_run_fatal: Connection to UNKNOWN port 65535: Broken pipe'
  ])('after a ProxyCommand names its output: %s', line => {
    const lines = ['/bin/sh: 1: exec: /no/such/program: not found', line];
    const { code, message } = explainSsh(target, lines, 255, 'proxycommand /no/such/program\n');
    expect(code).toBe('remote_unreachable');
    expect(message).toMatch(/the ProxyCommand of .* ended \(.*\/no\/such\/program: not found/);
  });

  it('without a message is reported with its exit code', () => {
    expect(explainSsh(target, [], 12).message).toContain('exit code 12');
  });
});

describe("the hosts of ssh's configuration", () => {
  it('are its aliases, through includes with patterns, without patterns of hosts', async () => {
    await mkdir(path.join(folder, '.ssh', 'conf.d'), { recursive: true });
    const files = {
      config:
        'Include conf.d/*.conf\nHost one "two" # three\nHost=four *.five !six\nhost ~nothing?\nMatch host x\n',
      'conf.d/a.conf': 'HOST from-a\nInclude ../config\n',
      'conf.d/b.conf': '  Host   from-b\n    HostName 192.0.2.1\n',
      'conf.d/ignored.txt': 'Host ignored\n'
    };
    for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder, '.ssh', name), text);
    expect(await sshHosts(folder)).toEqual(['from-a', 'from-b', 'one', 'two', 'four']);
  });

  it('are none if there is no configuration', async () => {
    expect(await sshHosts(folder)).toEqual([]);
  });
});

describe('the program that prompts for ssh', () => {
  it('passes the question on and returns the answer, which nobody else can get', async () => {
    await using askpass = await Askpass.open(folder);
    const requests: unknown[] = [];
    using registered = askpass.register(async question => {
      requests.push(question);
      return 'an answer';
    });
    const env = { ...process.env, ...registered.env };
    const { stdout } = await run(registered.env['SSH_ASKPASS']!, ["Enter it's:"], { env });
    expect([stdout, requests]).toEqual(['an answer\n', [{ kind: 'secret', text: "Enter it's:" }]]);
    const other = run(registered.env['SSH_ASKPASS']!, ['x'], {
      env: { ...env, TPULAB_ASKPASS_KEY: 'guessed' }
    });
    await expect(other).rejects.toMatchObject({ code: 1, stdout: '' });
    expect((await stat(registered.env['TPULAB_ASKPASS_SOCKET']!)).mode & 0o777).toBe(0o600);
  });

  it('distinguishes a question about a host key from one for a secret', async () => {
    await using askpass = await Askpass.open(folder);
    const kinds: string[] = [];
    using registered = askpass.register(async ({ kind }) => {
      kinds.push(kind);
      return null;
    });
    const env = { ...process.env, ...registered.env };
    for (const text of ['Continue connecting (yes/no/[fingerprint])? ', 'Password: ']) {
      await expect(run(registered.env['SSH_ASKPASS']!, [text], { env })).rejects.toMatchObject({ code: 1 });
    }
    expect(kinds).toEqual(['confirm', 'secret']);
  });
});
