// @ts-check
/** Stage: the session page, built with Vite into the kernel bridge, which serves it. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { fingerprint } from './fingerprint.mjs';
import { runOrExplain } from './run-command.mjs';

export const SESSION_PAGE = path.join(checkout.root, 'kernel-bridge', 'session');
/** @param {string} name */
const inRoot = name => path.join(checkout.root, name);

/** @type {import('./stage.mjs').Stage} */
export const sessionPage = {
  id: 'session-page',
  title: 'session page',
  after: ['npm-packages'],
  fingerprint: () =>
    fingerprint({
      files: [
        ...['package-lock.json', 'tsconfig.base.json', 'protocol/src', 'style'].map(inRoot),
        ...['session', 'src'].map(part => path.join(checkout.extension, part)),
        inRoot('scripts/setup/bundle-session.mjs')
      ]
    }),
  isThere: async () => existsSync(path.join(SESSION_PAGE, 'index.html')),
  async make({ signal, detail }) {
    detail('bundling the session page');
    await runOrExplain(
      'bundling the session page',
      process.execPath,
      [inRoot('scripts/setup/bundle-session.mjs')],
      { cwd: checkout.root, timeoutMs: 600_000, signal }
    );
  }
};
