// @ts-check
/** Builds the session page into the kernel bridge, which serves it. `npx vite build extension/session` from the root does the same. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** @param {string} name */
const here = name => fileURLToPath(new URL(name, import.meta.url));

/** JupyterLab's packages import icons as text, as our own do. */
const svgAsText = {
  name: 'svg-as-text',
  enforce: /** @type {const} */ ('pre'),
  /** @param {string} id */
  load(id) {
    const [file = '', query] = id.split('?');
    return file.endsWith('.svg') && query === undefined
      ? `export default ${JSON.stringify(readFileSync(file, 'utf8'))};`
      : null;
  }
};

export default defineConfig({
  root: here('.'),
  // The gateway puts the page's own address before all relative ones.
  base: './',
  plugins: [svgAsText, react()],
  // MathJax and others look at Node's names; relative links of Markdown ask for `process`.
  define: { global: 'globalThis', __dirname: '"/"', 'process.env.NODE_ENV': '"production"' },
  resolve: {
    alias: [
      { find: /^~/, replacement: '' },
      { find: '@tpulab/protocol', replacement: here('../../protocol/src/index.ts') },
      // A parser generator, for a language that is always the same: the one without words.
      { find: '@lezer/generator', replacement: here('kit/empty-parser.ts') },
      // Of TypeBox's operations on values, the one that the page uses.
      { find: '@sinclair/typebox/value', replacement: here('kit/typebox-value.ts') },
      // 250 kB of web components for three kinds of button.
      { find: '@jupyter/react-components', replacement: here('kit/react-components.tsx') },
      { find: '@jupyter/web-components', replacement: here('kit/web-components.ts') }
    ],
    dedupe: [
      'react',
      'react-dom',
      'yjs',
      '@lumino/widgets',
      '@lumino/signaling',
      '@codemirror/state',
      '@codemirror/view'
    ]
  },
  build: {
    outDir: here('../../kernel-bridge/session'),
    emptyOutDir: true,
    target: 'es2022',
    assetsDir: '_page',
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 4_000,
    reportCompressedSize: false
  }
});
