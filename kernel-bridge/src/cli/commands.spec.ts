/** Properties of every command: a description, help that works, and output for programs. */
import { tmpdir } from 'node:os';
import type { Command } from 'commander';
import { expect, it } from 'vitest';
import { programOf, run } from './program.js';

const program = await programOf({ stdout: { write: () => true }, stderr: { write: () => true } });

/** `serve` prints one JSON line when it is ready, even without `--json`. */
const WITHOUT_JSON = ['serve'];

function leaves(command: Command, path: readonly string[] = []): [string, Command][] {
  return command.commands.flatMap((child): [string, Command][] => {
    const name = [...path, child.name()];
    return child.commands.length > 0 ? leaves(child, name) : [[name.join(' '), child]];
  });
}

const all = leaves(program);

it('there are commands', () => {
  expect(all.map(([name]) => name)).toEqual(
    expect.arrayContaining([
      'connect',
      'disconnect',
      'ssh',
      'ssh-config',
      'execute',
      'copy push',
      'copy pull',
      'machine ls',
      'ps',
      'examples'
    ])
  );
});

it.each(all)('%s describes itself and each of its options', (_name, command) => {
  expect(command.description()).toMatch(/^[a-z].{10,}[^.]$/);
  expect(command.helpInformation()).toContain('Usage: tpulab');
  for (const option of command.options) expect(option.description, option.flags).not.toBe('');
});

it.each(all.filter(([name]) => !WITHOUT_JSON.includes(name)))('%s has --json', (_name, command) => {
  expect(command.options.map(({ long }) => long)).toContain('--json');
});

it('commands that delete or end something have --yes', () => {
  const yes = all.flatMap(([name, { options }]) =>
    options.some(({ long }) => long === '--yes') ? [name] : []
  );
  expect(yes.sort()).toEqual(expect.arrayContaining(['copy pull', 'copy push', 'machine clean']));
});

it.each([
  ['run', 'execute'],
  ['holders', 'ps'],
  ['lessons', 'examples'],
  ['remote', 'machine'],
  ['push', 'copy push'],
  ['pull', 'copy pull']
])('%s, a former name, runs %s', async (former, name) => {
  let help = '';
  const write = (text: string) => (help += text) !== '';
  expect(await run([former, '--help'], { stdout: { write }, stderr: { write } })).toBe(0);
  expect(help).toContain(`Usage: tpulab ${name}`);
});

it.each([
  [['status', '--state-dir', ''], "option '--state-dir <folder>' must not be empty"],
  [['connect', ''], "argument 'target' must not be empty"],
  [['copy', 'push', 'vm', ''], "argument 'folder' must not be empty"],
  [['serve', '--host', ''], 'Expected an address'],
  [['serve', '--root-dir', ''], 'Expected a folder']
])('%j, with a variable that was not set, is refused', async (args, why) => {
  let shown = '';
  const write = (text: string) => (shown += text) !== '';
  expect(await run(args, { stdout: { write }, stderr: { write } })).toBe(1);
  expect(shown).toContain(why);
});

it.each([
  [['execute', 'a.ipynb', '--attach', '--detach'], "'--attach' cannot be used with option '--detach'"],
  [['execute', 'a.ipynb', '--attach', '--kernel', 'k'], "'--attach' cannot be used with option '--kernel"],
  [['execute', 'a.ipynb', '--attach', '--keep-kernel'], "'--attach' cannot be used with option '--keep"],
  [['execute', 'a.ipynb', '--attach', '-p', 'a', '1'], "'--attach' cannot be used with option '-p"],
  [['execute', 'a.ipynb', '--attach', '--parameters', 'a'], "'--attach' cannot be used with option '--param"],
  [['check', 'a.py', '--env', 'jax', '--python', 'p'], "cannot be used with option '--env"],
  [['connect', 'vm', '--external-ip', '--internal-ip'], "cannot be used with option '--internal-ip'"],
  [['machine', 'add', 'vm', '--external-ip', '--iap'], "cannot be used with option '--tunnel-through-iap'"],
  [['serve', '--unix-socket', '--port', '8888'], "cannot be used with option '--port"],
  [['serve', '--unix-socket', '--host', '0.0.0.0'], "cannot be used with option '--host"],
  [['journal', 'export', 'k', '--copy', 'c', '--output', 'o'], "cannot be used with option '--output"],
  [['outputs', 'k', '--force'], 'need --into'],
  [['outputs', 'k', '--no-backup'], 'need --into']
])('%j, contradictory options, are refused', async (args, why) => {
  let shown = '';
  const write = (text: string) => (shown += text) !== '';
  expect(await run(args, { stdout: { write }, stderr: { write } })).toBe(1);
  expect(shown).toContain(why);
});

it('refuses to check a folder, before it installs anything', async () => {
  let shown = '';
  const write = (text: string) => (shown += text) !== '';
  expect(
    await run(['check', tmpdir(), '--python', process.execPath], { stdout: { write }, stderr: { write } })
  ).toBe(1);
  expect(shown).toContain('name a notebook or a script');
});
