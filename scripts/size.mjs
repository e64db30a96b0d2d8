// @ts-check
/** `npm run size`: lines and files of each room, code and tests separately, and their growth since main. */
import { execFileSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { checkout } from './setup/checkout.mjs';
import { sizesOf, tableOf } from './size/rooms.mjs';

const HELP = `npm run size [-- --since COMMIT]

Prints lines and files of each package and of each of its folders, code and tests separately, in the current checkout,
and their growth since a commit.

  --since COMMIT  commit to compare with (default: main)
  --help          this text`;

const { values } = parseArgs({
  options: { since: { type: 'string', default: 'main' }, help: { type: 'boolean', default: false } }
});

if (values.help) {
  console.log(HELP);
} else {
  try {
    const before = sizesOf(countLines([values.since]));
    for (const line of tableOf(sizesOf(countLines(['--untracked'])), before)) console.log(line);
  } catch (error) {
    console.error(`git does not know "${values.since}": ${String(error).split('\n')[1] ?? String(error)}`);
    process.exitCode = 2;
  }
}

/**
 * @param {readonly string[]} where a commit, or the current files
 * @returns {(readonly [string, number])[]}
 */
function countLines(where) {
  // An empty pattern is in every line; -z ends each name with a NUL.
  const text = execFileSync('git', ['grep', '-c', '-z', '-e', '', ...where], {
    cwd: checkout.root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'pipe']
  });
  return text
    .split('\n')
    .filter(line => line !== '')
    .map(line => {
      const [name = '', count = '0'] = line.split('\0');
      const [, file = name] = where[0] === '--untracked' ? [] : (/^[^:]*:(.*)$/.exec(name) ?? []);
      return /** @type {const} */ ([file, Number(count)]);
    });
}
