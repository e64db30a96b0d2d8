/** Each command in the pages about remotes is valid, and is either run by a test or listed here with the reason. */
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Command, CommanderError } from 'commander';
import { describe, expect, it } from 'vitest';
import { programOf } from './program.js';
import { documentedCommands, NOT_RUN, ON_A_VM, ON_COLAB, PAGES } from './testing/documented-commands.js';

const ALL = [...new Set(PAGES.flatMap(documentedCommands))];
const RUN = [...ON_A_VM, ...ON_COLAB].filter(({ isOwn }) => isOwn !== true).map(({ line }) => line);

/** The argument parser of the real program, without its actions. */
async function parse(argv: readonly string[]): Promise<string | null> {
  const quiet = { write: () => true };
  let ran: string | null = null;
  const idle = (command: Command): void => {
    command.exitOverride().configureOutput({ writeOut: () => undefined, writeErr: () => undefined });
    if (command.commands.length === 0) command.action(() => void (ran = command.name()));
    // The hooks check this machine, which the pages do not depend on.
    Object.assign(command, { _lifeCycleHooks: {} });
    for (const child of command.commands) idle(child);
  };
  const program = await programOf({ stdout: quiet, stderr: quiet });
  idle(program);
  await program.parseAsync([...argv], { from: 'user' });
  return ran;
}

const DOCS = fileURLToPath(new URL('../../../docs/', import.meta.url));
const OTHERS = readdirSync(DOCS).filter(name => name.endsWith('.md') && !PAGES.includes(name));

describe('the other pages', () => {
  it.each([...OTHERS, '../README.md'])('%s names commands that the program accepts', async page => {
    const refused = documentedCommands(page)
      // Two spaces: an explanation follows.
      .map(line => line.replace(/\s{2,}.*$/, ''))
      .filter(line => /^tpulab [a-z]/.test(line))
      .map(async line => {
        const code = await parse(line.split(' ').slice(1)).catch(
          (error: unknown) => (error as CommanderError).code
        );
        // A command that the text only mentions may lack its arguments.
        return /unknown(Command|Option)/.test(code ?? '') ? line : null;
      });
    expect((await Promise.all(refused)).filter(line => line !== null)).toEqual([]);
  });
});

describe.each(PAGES)('docs/%s', page => {
  const commands = documentedCommands(page);
  it('has commands', () => expect(commands.length).toBeGreaterThan(0));

  it.each(commands.filter(line => line.startsWith('tpulab ')))('%s', async line => {
    const words = line.split(' ').map(word => word.replace(/^PID$/, '4711'));
    expect(await parse(words.slice(1))).not.toBeNull();
  });
});

it('refuses an invalid command', async () => {
  await expect(parse(['machine', 'frobnicate'])).rejects.toThrow(CommanderError);
  await expect(parse(['connect', 'vm', '--no-such-option'])).rejects.toThrow(CommanderError);
});

it('each command of these pages is run on a stand-in, or listed with the reason why it is not', () => {
  const reasonFor = (line: string): string | undefined =>
    Object.entries(NOT_RUN).find(([words]) => line === words || line.startsWith(`${words} `))?.[1];
  expect(ALL.filter(line => !RUN.includes(line) && reasonFor(line) === undefined)).toEqual([]);
  // No entry remains for a command that the pages no longer contain.
  expect(RUN.filter(line => !ALL.includes(line))).toEqual([]);
  const unused = Object.keys(NOT_RUN).filter(words => !ALL.some(line => line.startsWith(words)));
  expect(unused).toEqual([]);
});
