// @ts-check
/** Stages: uv, which makes all other environments, and the checkers for Python. */
import { existsSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { fingerprint } from './fingerprint.mjs';
import { lockOf, pythonIn, UV_ENV } from './python-environment.mjs';
import { run, runOrExplain } from './run-command.mjs';

/** @type {import('./stage.mjs').Stage} */
export const uvTool = {
  id: 'uv',
  title: 'uv',
  after: [],
  fingerprint: () => fingerprint({ files: [lockOf('tools')], texts: [process.platform, process.arch] }),
  isThere: async () => existsSync(checkout.uv),
  async isRight({ signal }) {
    const wanted = /^uv==(\S+)/m.exec(await readFile(lockOf('tools'), 'utf8'))?.[1];
    const ended = await run(checkout.uv, ['--version'], { signal });
    return ended.exitCode === 0 && ended.stdout[0]?.split(' ')[1] === wanted;
  },
  async make({ signal, detail, python }) {
    const { path: interpreter, version } = await python();
    await mkdir(checkout.made, { recursive: true });
    detail(`with Python ${version}`);
    await runOrExplain(
      'making the environment of uv',
      interpreter,
      ['-m', 'venv', '--clear', checkout.tools],
      {
        signal,
        timeoutMs: 300_000
      }
    );
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--require-hashes'];
    await runOrExplain('installing uv', pythonIn(checkout.tools), [...pip, '-r', lockOf('tools')], {
      signal,
      timeoutMs: 600_000
    });
  }
};

/** @type {import('./stage.mjs').Stage} */
export const checkTools = {
  id: 'check-tools',
  title: 'ruff, mypy and shellcheck',
  after: ['uv'],
  fingerprint: () => fingerprint({ files: [lockOf('check'), lockOf('tools')] }),
  isThere: async () =>
    ['ruff', 'mypy', 'shellcheck'].every(name => existsSync(path.join(checkout.tools, 'bin', name))),
  async make({ signal, detail }) {
    const install = [
      'pip',
      'install',
      '--python',
      pythonIn(checkout.tools),
      '--require-hashes',
      '--compile-bytecode'
    ];
    await runOrExplain(
      'installing ruff, mypy and shellcheck',
      checkout.uv,
      [...install, '-r', lockOf('check')],
      {
        signal,
        env: UV_ENV,
        timeoutMs: 600_000,
        onLine: line => detail(line.trim())
      }
    );
  }
};
