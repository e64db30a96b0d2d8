// @ts-check
/** Builds the session page into the kernel bridge, which serves it. `npx vite build extension/session` from the root does the same. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { build } from 'esbuild';
import { defineConfig, parseSync, Visitor } from 'vite';

/** @param {string} name */
const here = name => fileURLToPath(new URL(name, import.meta.url));

/** Icons of file types, side bars and the debugger, which this page lacks. */
const UNUSED_ICON = /@jupyterlab\/ui-components\/style\/icons\/(filetype|jupyter|sidebar|debugger)\/.*\.svg$/;

/** JupyterLab's packages import icons as text, as our own do. */
const svgAsText = {
  name: 'svg-as-text',
  enforce: /** @type {const} */ ('pre'),
  /** @param {string} id */
  load(id) {
    const [file = '', query] = id.split('?');
    if (!file.endsWith('.svg') || query !== undefined) return null;
    const svg = UNUSED_ICON.test(file)
      ? '<svg xmlns="http://www.w3.org/2000/svg"></svg>'
      : readFileSync(file, 'utf8');
    return `export default ${JSON.stringify(svg)};`;
  }
};

/** JupyterLab duplicates each icon for extensions that were written before it drew them itself: 17 kB of the first load. */
const withoutIconVariables = {
  postcssPlugin: 'without-icon-variables',
  /** @param {{ prop: string, value: string, remove(): void }} declaration */
  Declaration(declaration) {
    if (declaration.prop.startsWith('--jp-icon-') && declaration.value.includes('url(')) declaration.remove();
  }
};

/** @type {readonly (readonly [RegExp, string])[]} */
const ANYWIDGET_CHANGES = [
  [/^define\(\["@jupyter-widgets\/base"\], (\w+)\);$/m, 'export default $1;'],
  [/AbortSignal\.timeout\(2e3\)/, 'AbortSignal.timeout(60e3)'],
  [
    /(?=setWidgetResult\(\{ status: "error", error \}\))/,
    'resolvers.reject(new Error(`[anywidget] ${error?.message ?? error}`)); '
  ]
];
/**
 * anywidget passes its exports to a global `define`, which other packages would meanwhile mistake for their own. It
 * gives up a widget whose code does not run within two seconds, even if the code works: Plotly's 4 MB take longer on a
 * busy computer. Here the code has a minute, and its own error is reported immediately.
 */
const anywidgetAsModule = {
  name: 'anywidget-as-module',
  /**
   * @param {string} code
   * @param {string} id
   */
  transform(code, id) {
    if (!/\/anywidget\/dist\/index\.js$/.test(id)) return null;
    for (const [found, changed] of ANYWIDGET_CHANGES) {
      if (!found.test(code)) throw new Error(`anywidget no longer has ${found}.`);
      code = code.replace(found, changed);
    }
    return { code, map: null };
  }
};

/**
 * `import address from './x.ts?frame'`: the script as one file for the frame of an output, where no module can be loaded, and its address.
 * Its styles are a part of it.
 */
const frameScripts = {
  name: 'frame-scripts',
  /**
   * @this {import('rolldown').PluginContext}
   * @param {string} id
   */
  async load(id) {
    const [file = '', query] = id.split('?');
    if (query !== 'frame') return null;
    const { outputFiles } = await build({
      entryPoints: [file],
      outdir: here('.'),
      bundle: true,
      minify: true,
      write: false,
      format: 'iife',
      target: 'es2022',
      charset: 'utf8',
      legalComments: 'none',
      define: { global: 'globalThis', 'process.env.NODE_ENV': '"production"', __dirname: '"/"' },
      // Galata's benchmarks, which are excluded, use these names at the root.
      alias: Object.fromEntries(
        ['vega', 'vega-lite', 'vega-statistics'].map(name => [
          name,
          here(
            `../node_modules/${name}/build/${name === 'vega' ? 'vega.module' : name === 'vega-lite' ? 'index' : name}.js`
          )
        ])
      ),
      loader: { '.svg': 'text', '.woff2': 'dataurl', '.woff': 'empty', '.ttf': 'empty', '.eot': 'empty' },
      plugins: [
        {
          name: anywidgetAsModule.name,
          setup(frame) {
            frame.onLoad({ filter: /\/anywidget\/dist\/index\.js$/ }, ({ path }) => ({
              contents: anywidgetAsModule.transform(readFileSync(path, 'utf8'), path)?.code ?? ''
            }));
          }
        }
      ]
    });
    const text = (/** @type {string} */ ending) =>
      outputFiles.find(({ path }) => path.endsWith(ending))?.text ?? '';
    const style = text('.css');
    const source =
      style === ''
        ? text('.js')
        : `{const s=document.createElement('style');s.textContent=${JSON.stringify(style)};document.head.append(s)}${text('.js')}`;
    const name = `frame-${file.split('/').at(-1)?.replace(/\.ts$/, '')}.js`;
    const reference = this.emitFile({ type: 'asset', name, source });
    return `export default import.meta.ROLLUP_FILE_URL_${reference};`;
  }
};

/** Every part that is loaded later, whichever package imports it: with the loader of `index.html`, which retries. */
const retriedImports = {
  name: 'retried-imports',
  apply: /** @type {const} */ ('build'),
  enforce: /** @type {const} */ ('post'),
  /**
   * @param {string} code
   * @param {string} id
   */
  transform(code, id) {
    if (!/\bimport\s*\(/.test(code)) return null;
    /** @type {{ start: number, end: number }[]} */
    const found = [];
    new Visitor({ ImportExpression: node => void found.push(node) }).visit(
      parseSync(`${id}.js`, code).program
    );
    // From the end, so that earlier positions stay valid.
    for (const { start, end } of found.sort((a, b) => b.start - a.start))
      code = `${code.slice(0, start)}globalThis.tpulabRetry(() => ${code.slice(start, end)})${code.slice(end)}`;
    return { code, map: null };
  },
  /** @param {string} html */
  transformIndexHtml(html) {
    const [element = '', entry] =
      /<script type="module" crossorigin src="([^"]+)"><\/script>/.exec(html) ?? [];
    const failed =
      "document.body.append('This page did not load. Check the network, then reload it. ' + error)";
    const start = `<script>tpulabRetry(() => import('${entry}')).catch(error => ${failed})</script>`;
    return element === '' ? html : html.replace(element, '').replace('</body>', `  ${start}\n  </body>`);
  }
};

export default defineConfig({
  root: here('.'),
  // The gateway inserts the page's own address before all relative addresses.
  base: './',
  plugins: [svgAsText, frameScripts, react(), retriedImports],
  css: { postcss: { plugins: [withoutIconVariables] } },
  // MathJax and other packages read Node's names; relative links in Markdown use `process`.
  define: { global: 'globalThis', __dirname: '"/"', 'process.env.NODE_ENV': '"production"' },
  resolve: {
    alias: [
      { find: /^~/, replacement: '' },
      { find: '@tpulab/protocol', replacement: here('../../protocol/src/index.ts') },
      // A parser generator, replaced by the generated parser: the grammar is always the same empty one.
      { find: '@lezer/generator', replacement: here('kit/empty-parser.ts') },
      // TypeBox, reduced to the kinds of types and the one operation on values that the page uses.
      { find: /^@sinclair\/typebox$/, replacement: here('kit/typebox.ts') },
      { find: '@sinclair/typebox/value', replacement: here('kit/typebox-value.ts') },
      // The sanitizer's HTML parser, reduced to the parts that the sanitizer uses: 70 kB less.
      { find: /^htmlparser2$/, replacement: here('kit/html-parser.ts') },
      { find: /^\.\/sanitizer$/, replacement: here('kit/sanitizer.ts') },
      { find: /^postcss$/, replacement: here('kit/style-parser.ts') },
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
