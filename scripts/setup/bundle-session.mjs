// @ts-check
/**
 * The program that builds the session page (`session-page.mjs` starts it): a separate process, as Vite sets NODE_ENV for the whole
 * process. Each file is compressed once, at the highest level, so that the gateway only sends it.
 */
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { build } from 'vite';
import { checkout } from './checkout.mjs';
import { SESSION_PAGE } from './session-page.mjs';

const BUILDING = `${SESSION_PAGE}.building`;
const COMPRESSED = /\.(js|css|svg|json|ttf)$/;

// A test may start this, whose own value would make a page for developers.
process.env['NODE_ENV'] = 'production';
await build({
  configFile: path.join(checkout.extension, 'session', 'vite.config.mjs'),
  logLevel: 'error',
  build: { outDir: BUILDING, emptyOutDir: true }
});
const compress = promisify(gzip);
for (const file of await readdir(BUILDING, { recursive: true })) {
  if (!COMPRESSED.test(file)) continue;
  const at = path.join(BUILDING, file);
  await writeFile(`${at}.gz`, await compress(await readFile(at), { level: 9 }));
  await rm(at);
}
await rm(SESSION_PAGE, { recursive: true, force: true });
await rename(BUILDING, SESSION_PAGE);
