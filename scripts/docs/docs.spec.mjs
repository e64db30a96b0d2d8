// @ts-check
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkout } from '../setup/checkout.mjs';
import { addressOf, CONTENTS } from './contents.mjs';
import { notebookPage } from './notebook-page.mjs';
import { settingsTables } from './settings.mjs';
import { home, withLinks } from './stage.mjs';

const DOCS = path.join(checkout.root, 'docs');
const PAGES = readdirSync(DOCS).filter(name => name.endsWith('.md') && name !== 'README.md');
const sources = CONTENTS.flatMap(({ pages }) => pages.map(({ source }) => source));
const textOf = (/** @type {string} */ file) => readFileSync(path.join(checkout.root, file), 'utf8');
const withoutCode = (/** @type {string} */ text) => text.replace(/```[\s\S]*?```|`[^`\n]*`/g, '');

describe('the contents of the site', () => {
  it('have every page of docs and every notebook, once', () => {
    expect([...PAGES].sort()).toEqual(sources.filter(source => PAGES.includes(source)).sort());
    const notebooks = readdirSync(checkout.notebooks).filter(name => name.endsWith('.ipynb'));
    expect(sources.filter(source => source.startsWith('notebook:')).sort()).toEqual(
      notebooks.map(name => `notebook:${name.replace('.ipynb', '')}`).sort()
    );
    expect(new Set(sources.map(addressOf)).size).toBe(sources.length);
  });
});

it('the page of settings has both tables, with what a setting accepts and what Jupyter calls it', async () => {
  const tables = await settingsTables();
  for (const [name, text] of Object.entries(tables)) {
    expect(textOf('docs/configuration.md').split(`<!-- made: ${name} -->`)).toHaveLength(2);
    const widths = text.split('\n').map(line => line.split(' | ').length);
    expect(new Set(widths).size).toBe(1);
  }
  expect(tables.settings).toContain('| `ServerApp.port` | `--port` | `TPULAB_PORT` | a port');
  expect(tables.settings).toContain('`ServerApp.token`');
  expect(tables['settings-of-jupyter']).toContain('| `ServerApp.password` | there are no passwords');
});

describe('pages for users', () => {
  const pages = CONTENTS.filter(({ group }) => group !== 'Project')
    .flatMap(group => group.pages)
    .filter(({ source }) => PAGES.includes(source));

  it('do not grow: pages for developers only are under Project', () => {
    const words = pages.flatMap(({ source }) =>
      textOf(`docs/${source}`)
        .replaceAll(/```[^]*?```/g, '')
        .split(/\s+/)
        .filter(word => /\p{L}/u.test(word))
    );
    expect(words.length).toBeLessThan(25_000);
  });

  it.each(pages)('$source has no target and no figure of a busy machine', ({ source }) => {
    const lines = textOf(`docs/${source}`).split('\n');
    expect(lines.filter(line => /\bthe target (for|of|is) |\(load \d|at load \d/i.test(line))).toEqual([]);
  });
});

describe.each([
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...[...PAGES, 'README.md'].map(name => `docs/${name}`)
])('%s', file => {
  const text = textOf(file);

  it('links to files and headings that exist', () => {
    const missing = [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = '']) => {
      if (/^[a-z]+:/.test(target)) return [];
      const [relative = '', anchor] = target.split('#');
      const wanted = relative === '' ? file : path.posix.join(path.posix.dirname(file), relative);
      if (!existsSync(path.join(checkout.root, wanted))) return [target];
      if (anchor === undefined || !wanted.endsWith('.md')) return [];
      return anchors(textOf(wanted)).includes(anchor) ? [] : [target];
    });
    expect(missing).toEqual([]);
  });

  it('names npm scripts that exist', () => {
    const { scripts } = JSON.parse(textOf('package.json'));
    const named = [...text.matchAll(/\bnpm run ([\w:-]+)/g)].map(([, name = '']) => name);
    expect(named.filter(name => !Object.hasOwn(scripts, name))).toEqual([]);
  });
});

it('CONTRIBUTING.md names the existing files of 20 usual changes', () => {
  const rows = textOf('CONTRIBUTING.md').match(/^\| (?!to change|---).*\|$/gm) ?? [];
  expect(rows).toHaveLength(20);
  for (const row of rows) {
    const paths = [...row.matchAll(/`((?:[\w.-]+\/)+[\w.-]*)`/g)].map(([, name = '']) => name);
    // Names in capitals stand for any: the folder around them exists.
    const missing = paths.filter(
      name => !existsSync(path.join(checkout.root, name.replace(/[A-Z]+(\.css)?$/, '')))
    );
    expect(missing).toEqual([]);
  }
});

describe('the status page', () => {
  const status = textOf('docs/status.md');

  it('has a row for each claim of the README', () => {
    const claims = [...textOf('README.md').matchAll(/^- \*\*([^*]+)\*\*/gm)].map(([, claim = '']) => claim);
    expect(claims.length).toBeGreaterThan(5);
    const rows = [...status.matchAll(/^\| ([^|]+?) +\|/gm)].map(([, first = '']) => first);
    expect(claims.map(claim => claim.replace(/\.$/, '')).filter(claim => !rows.includes(claim))).toEqual([]);
  });

  it.each([
    ['JAX', 'jax', 'jax'],
    ['torch_xla', 'torch-xla', 'torch-xla'],
    ['torch_tpu', 'torch-tpu', 'torch-tpu'],
    ['PyTorch', 'torch-tpu', 'torch'],
    ['JupyterLab', 'lab', 'jupyterlab'],
    ['jupyter_server', 'lab', 'jupyter-server']
  ])('names the version of %s that the tests have', (name, environment, distribution) => {
    const lock = textOf(`environments/${environment}/requirements.lock`);
    const pinned = [...lock.matchAll(new RegExp(`^${distribution}==(\\d+\\.\\d+\\.\\d+)`, 'gm'))];
    const named = new RegExp(`\\b${name} ([\\d., and]*\\d)`).exec(status)?.[1] ?? '';
    expect(named.split(' and ')).toEqual([...new Set(pinned.map(([, version]) => version))]);
  });

  it('counts the tests of jupyter_server as the page of conformance does', () => {
    const [, ran, skipped] =
      /^\| `jupyter-server` \|.*\| (\d+) +\| (\d+) +\|$/m.exec(textOf('docs/conformance.md')) ?? [];
    expect(status).toContain(`${ran} tested, ${skipped} skipped`);
    expect(textOf('README.md')).toContain(`passes [${ran} of jupyter_server's own tests]`);
  });
});

/** In the form of VitePress and GitHub. @param {string} text */
function anchors(text) {
  const headings = text.replace(/```[\s\S]*?```/g, '').matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, title = '']) =>
    title
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replace(/\s/g, '-')
  );
}

describe('a page', () => {
  it('links to pages of the site; a file that is no page is only named', () => {
    const text =
      '[a](steps.md#x) [b](../README.md) [c](../notebooks/06-dia.ipynb) [d](../ruff.toml) ![e](images/x.png) [f](https://x.org)';
    expect(withLinks(text, 'docs/connect.md', 'connect')).toBe(
      '[a](./steps.md#x) [b](./index.md) [c](./tutorials/06-dia.md) d ![e](/images/x.png) [f](https://x.org)'
    );
    expect(withLinks('[a](../steps.md) [b](0001-x.md)', 'docs/decisions/0002-y.md', 'decisions/0002-y')).toBe(
      '[a](../steps.md) [b](./0001-x.md)'
    );
  });

  it('of a notebook has its text, code, pictures and sound', () => {
    const sound = Buffer.from('RIFF').toString('base64');
    const { text, assets } = notebookPage('x', {
      cells: [
        { cell_type: 'markdown', source: '# X' },
        {
          cell_type: 'code',
          source: ['print(1)\n', 'show()'],
          outputs: [
            { output_type: 'stream', text: '1 {{ x }}\n' },
            { output_type: 'display_data', data: { 'image/png': sound, 'text/plain': 'figure' } },
            {
              output_type: 'display_data',
              data: {
                'text/html': `<style>p {}</style><script>x()</script><audio src="data:audio/wav;base64,${sound}"></audio>`
              }
            }
          ]
        }
      ]
    });
    expect(text).toContain('```python\nprint(1)\nshow()\n```');
    expect(text).toContain('```text\n1 {{ x }}\n```');
    expect(text).toContain('![Output of the cell](/tutorials/x-1.png)');
    expect(text).toContain('<audio src="/tpulab-docs-base/tutorials/x-2.wav"></audio>');
    expect(text).not.toMatch(/<style|<script/);
    expect(assets.map(({ name, bytes }) => [name, bytes.toString()])).toEqual([
      ['x-1.png', 'RIFF'],
      ['x-2.wav', 'RIFF']
    ]);
  });

  it('home has the sentence, the command and the picture of the README, and all pages', () => {
    const page = home(textOf('README.md'));
    expect(page).toContain('See where the time of every training step goes');
    expect(page).toContain('npm start');
    expect(page).toMatch(/src: \/images\/[\w-]+\.png/);
    for (const source of sources) expect(page).toContain(`(./${addressOf(source)}.md)`);
  });
});
