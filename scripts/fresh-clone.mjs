// @ts-check
/**
 * The check that the setup depends on nothing on this machine: clones the committed state into a temporary folder, with
 * an empty home folder and empty caches, and runs `npm start -- --setup-only` there, and then `npm test` in the clone made
 * empty again, as a new user would: each of the two commands sets up automatically.
 */
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { checkout } from './setup/checkout.mjs';
import { main } from './setup/main.mjs';
import { run, runOrExplain } from './setup/run-command.mjs';
import { formatSeconds } from './setup/stage-printer.mjs';

const HELP = `npm run fresh-clone [-- OPTIONS] [-- PART…]

Clones the committed state into a temporary folder, with an empty home and empty caches. Runs npm start -- --setup-only
there, empties the clone again, and runs npm test (all parts, or those named).

  --keep-caches   use this machine's download caches (faster, but a weaker check)
  --keep          keep the folder afterwards
  --help          this text`;

await main(async signal => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'keep-caches': { type: 'boolean', default: false },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false }
    }
  });
  const print = (/** @type {string} */ line) => process.stdout.write(`${line}\n`);
  if (values.help) {
    print(HELP);
    return 0;
  }
  const folder = await mkdtemp(path.join(tmpdir(), 'tpulab-fresh-'));
  // Stand-in VMs have their own users, who read the checkout through it.
  await chmod(folder, 0o755);
  try {
    const clone = path.join(folder, 'tpulab');
    const home = path.join(folder, 'home');
    await mkdir(home);
    await runOrExplain('cloning', 'git', ['clone', '--quiet', checkout.root, clone], { signal });
    const env = freshEnvironment(home, values['keep-caches']);
    for (const { fresh: isFresh, args } of [
      { fresh: false, args: ['start', '--', '--setup-only', '--no-browser'] },
      { fresh: false, args: ['start', '--', '--setup-only', '--no-browser'] },
      { fresh: true, args: ['test', '--', ...positionals] }
    ]) {
      if (isFresh)
        await runOrExplain('cleaning the clone', 'git', ['clean', '-ffdxq'], { cwd: clone, signal });
      print(`\n== npm ${args.join(' ')}`);
      const since = performance.now();
      const ended = await run('npm', ['--silent', ...args], {
        cwd: clone,
        env,
        signal,
        onLine: print,
        keptLines: 1
      });
      print(
        `== npm ${args.join(' ')}: ${ended.exitCode === 0 ? 'good' : 'FAILED'}, ${formatSeconds(performance.now() - since)}`
      );
      if (ended.exitCode !== 0) return 1;
    }
    return 0;
  } finally {
    if (values.keep) print(`\nKept: ${folder}`);
    else await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
});

/**
 * @param {string} home
 * @param {boolean} keepCaches
 * @returns {Record<string, string | undefined>}
 */
function freshEnvironment(home, keepCaches) {
  /** @type {Record<string, string | undefined>} */
  const env = { CI: 'true', VIRTUAL_ENV: undefined, CONDA_PREFIX: undefined, PYTHONPATH: undefined };
  // Variables of this checkout's own runs must not lead the clone back here.
  for (const name of Object.keys(process.env)) {
    if (/^(TPULAB_|JUPYTER|XDG_|INIT_CWD$)/.test(name)) env[name] = undefined;
    // npm's settings of the run that we are in; the person's settings (a registry, a certificate) stay.
    if (
      /^npm_(lifecycle|package|node_execpath|execpath|command|config_(local_prefix|prefix|noproxy))/.test(
        name
      )
    ) {
      env[name] = undefined;
    }
  }
  if (keepCaches) return env;
  return {
    ...env,
    HOME: home,
    // The person's package sources stay as configured; earlier downloads do not.
    NPM_CONFIG_USERCONFIG:
      process.env['NPM_CONFIG_USERCONFIG'] ?? path.join(process.env['HOME'] ?? home, '.npmrc'),
    npm_config_cache: path.join(home, '.npm'),
    UV_CACHE_DIR: path.join(home, '.cache', 'uv'),
    PIP_CACHE_DIR: path.join(home, '.cache', 'pip'),
    XDG_CACHE_HOME: path.join(home, '.cache')
  };
}
