// @ts-check
/**
 * The program that bundles the front ends of the widgets (`build-widgets.mjs` starts it). A process of its own, because
 * Vite sets NODE_ENV to `production` for the whole process that it builds in, and tests started from there would be given
 * React's production build.
 */
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { build } from 'vite';
import { WIDGET_FILES, WIDGETS } from './build-widgets.mjs';
import { checkout } from './checkout.mjs';

const SOURCES = path.join(checkout.root, 'extension/src/widgets/afm');

await rm(WIDGET_FILES, { recursive: true, force: true });
for (const name of WIDGETS) {
  await build({
    configFile: false,
    root: checkout.root,
    logLevel: 'error',
    // Types of the protocol are erased; what is left of it is nothing, but the name must be found.
    resolve: { alias: { '@tpulab/protocol': path.join(checkout.root, 'protocol/src/index.ts') } },
    build: {
      outDir: WIDGET_FILES,
      emptyOutDir: false,
      target: 'es2022',
      lib: { entry: path.join(SOURCES, `${name}.ts`), formats: ['es'], fileName: () => `${name}.js` }
    }
  });
}
