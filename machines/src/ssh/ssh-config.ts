/**
 * The destination for ssh, and the hosts that the user's ssh configuration names. ssh itself interprets the settings of these
 * hosts.
 */
import { readdir, readFile } from 'node:fs/promises';
import { homeFolder } from '@tpulab/platform/user-folders.js';
import path from 'node:path';
import { readPasted } from '@tpulab/protocol';
import { RemoteProblem } from '../remote-error.js';

/** The same limit as in ssh. */
const MAX_INCLUDE_DEPTH = 16;
const MAX_FILES = 256;

/** Aliases without patterns, in the order of the files, without duplicates. */
export async function sshHosts(home = homeFolder()): Promise<string[]> {
  const found = new Set<string>();
  const seen = { files: 0 };
  await readHosts(path.join(home, '.ssh', 'config'), home, 0, seen, found);
  return [...found];
}

async function readHosts(
  file: string,
  home: string,
  depth: number,
  seen: { files: number },
  found: Set<string>
): Promise<void> {
  if (depth > MAX_INCLUDE_DEPTH || ++seen.files > MAX_FILES) return;
  const text = await readFile(file, 'utf8').catch(() => '');
  for (const line of text.split(/\r?\n/)) {
    const { keyword, words } = parseLine(line);
    if (keyword === 'host') {
      for (const word of words) if (!/[*?!]/.test(word) && !word.startsWith('-')) found.add(word);
    } else if (keyword === 'include') {
      for (const word of words) {
        for (const included of await expand(word, home)) {
          await readHosts(included, home, depth + 1, seen, found);
        }
      }
    }
  }
}

/** `Keyword words`, `Keyword=words`, optionally with quoted words. */
function parseLine(line: string): { keyword: string; words: string[] } {
  const match = /^\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)$/.exec(line);
  if (!match) return { keyword: '', words: [] };
  const words: string[] = [];
  for (const [, quoted, plain] of (match[2] ?? '').matchAll(/"([^"]*)"|(\S+)/g)) {
    if (plain?.startsWith('#')) break;
    words.push(quoted ?? plain ?? '');
  }
  return { keyword: (match[1] ?? '').toLowerCase(), words };
}

/** The files that an `Include` names; each part of the path can be a pattern. */
async function expand(pattern: string, home: string): Promise<string[]> {
  const full = pattern.startsWith('~/')
    ? path.join(home, pattern.slice(2))
    : path.resolve(path.join(home, '.ssh'), pattern);
  let paths = [path.parse(full).root];
  for (const part of full.slice(1).split(path.sep).filter(Boolean)) {
    if (!/[*?[]/.test(part)) {
      paths = paths.map(folder => path.join(folder, part));
      continue;
    }
    const matches = matcher(part);
    const next: string[] = [];
    for (const folder of paths) {
      const entries = await readdir(folder).catch(() => []);
      next.push(
        ...entries
          .filter(name => matches.test(name) && (part.startsWith('.') || !name.startsWith('.')))
          .sort()
          .map(name => path.join(folder, name))
      );
    }
    paths = next;
  }
  return paths;
}

function matcher(pattern: string): RegExp {
  const source = pattern
    .replace(/[.+^${}()|\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.')
    .replaceAll('[!', '[^');
  try {
    return new RegExp(`^${source}$`);
  } catch {
    return /^(?!)/;
  }
}

/** The destination and options of ssh for one host. */
export interface SshTarget {
  /** In ssh's notation: an alias, `user@host` or `ssh://user@host:port`. */
  readonly destination: string;
  /** Further arguments, as an array that no shell sees. */
  readonly options: readonly string[];
  /** Connection time limit in seconds, for a slow ProxyCommand. */
  readonly connectTimeoutS?: number;
  /** Explains the output of a failed ProxyCommand, which causes ssh's later messages. null: no known message. */
  readonly explain?: (lines: readonly string[]) => RemoteProblem | null;
  /** POSIX sh code that precedes every script on the host. */
  readonly preamble?: string;
}

/** Refuses text that ssh would parse as an option, or that no host name contains. */
export function checkDestination(destination: string): string {
  if (/^[^@]*\\/.test(destination)) {
    const pasted = readPasted(destination);
    if ('refused' in pasted) throw new RemoteProblem('remote_destination_invalid', pasted.refused);
  }
  if (destination === '' || destination.startsWith('-') || /[\s\x00-\x1f\x7f'"`$;|&<>\\]/.test(destination)) {
    throw new RemoteProblem(
      'remote_destination_invalid',
      `${JSON.stringify(destination)} is not a valid ssh destination; write HOST, USER@HOST or ssh://USER@HOST:PORT.`
    );
  }
  return destination;
}

/** The command with which a person reaches the same host. */
export function commandFor({ destination, options }: SshTarget, more: readonly string[] = []): string {
  return ['ssh', ...options, ...more, destination].map(shown).join(' ');
}

/** The argument as a person types it, quoted if a shell would interpret it. */
export function shown(argument: string): string {
  return /^[\w@%+=:,./~-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", `'\\''`)}'`;
}
