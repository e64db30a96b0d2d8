// @ts-check
/**
 * The program that bundles the front ends of the widgets (`build-widgets.mjs` starts it). A separate process, because
 * NODE_ENV is `production` for the whole process that it builds in, and tests started from there would be given React's
 * production build.
 */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { transform } from 'esbuild';
import { build } from 'vite';
import { WIDGET_FILES, WIDGETS } from './build-widgets.mjs';
import { checkout } from './checkout.mjs';

const require = createRequire(import.meta.url);
const SOURCES = path.join(checkout.root, 'extension/src/widgets/afm');
const STYLES = path.join(checkout.root, 'style');
/** Style sheets of the widgets; the sheets of the dialog and the status bar are left out. */
const SHEETS = ['tokens', 'parts', 'panel', 'charts', 'devices', 'runs', 'steps', 'widgets'];

/** React's interface in a tenth of its size: the text travels to the page with each widget. */
const PREACT = [
  { find: 'react-dom/client', replacement: 'preact/compat/client' },
  { find: 'react/jsx-runtime', replacement: 'preact/jsx-runtime' },
  { find: /^react(-dom)?$/, replacement: 'preact/compat' }
];

// Vite keeps the value of the calling process, and a test's is another.
process.env['NODE_ENV'] = 'production';
await rm(WIDGET_FILES, { recursive: true, force: true });
for (const name of WIDGETS) {
  await build({
    configFile: false,
    root: checkout.root,
    logLevel: 'error',
    // Types of the protocol are erased; the remaining module is empty, but its name must resolve.
    resolve: {
      alias: [
        ...PREACT,
        { find: '@tpulab/protocol', replacement: path.join(checkout.root, 'protocol/src/index.ts') }
      ]
    },
    oxc: { jsx: { runtime: 'automatic' } },
    build: {
      outDir: WIDGET_FILES,
      emptyOutDir: false,
      target: 'es2022',
      // One file each: the page gets only its text.
      rolldownOptions: { output: { codeSplitting: false, minify: true } },
      lib: { entry: path.join(SOURCES, `${name}.tsx`), formats: ['es'], fileName: () => `${name}.js` }
    }
  });
}

const { code } = await transform(
  (
    await Promise.all(
      [
        require.resolve('uplot/dist/uPlot.min.css'),
        ...SHEETS.map(name => path.join(STYLES, `${name}.css`))
      ].map(file => readFile(file, 'utf8'))
    )
  ).join('\n'),
  { loader: 'css', minify: true }
);
await writeFile(path.join(WIDGET_FILES, 'widgets.css'), code);
