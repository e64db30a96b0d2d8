// @ts-check
/** Puts all pages of the documentation into one folder for VitePress: the pages of `docs`, the notebooks, and the generated reference. */
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from '../setup/checkout.mjs';
import { addressOf, CONTENTS } from './contents.mjs';
import { notebookPage } from './notebook-page.mjs';

const DOCS = path.join(checkout.root, 'docs');

/**
 * @param {string} folder which is emptied first
 * @param {{ made: Readonly<Record<string, string>> }} options `made`: each generated text by its name: a page, or what stands at `<!-- made: NAME -->` in one
 */
export async function stagePages(folder, { made }) {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await cp(path.join(DOCS, 'images'), path.join(folder, 'public', 'images'), { recursive: true });
  const pages = CONTENTS.flatMap(({ pages }) => pages);
  const decisions = (await readdir(path.join(DOCS, 'decisions')))
    .filter(name => name.endsWith('.md') && name !== 'README.md')
    .map(name => ({ source: `decisions/${name}` }));
  for (const { source } of [...pages, ...decisions]) {
    const [kind, name = ''] = source.split(':');
    const address = addressOf(source);
    if (kind === 'notebook') {
      const notebook = JSON.parse(await readFile(path.join(checkout.notebooks, `${name}.ipynb`), 'utf8'));
      const { text, assets } = notebookPage(name, notebook);
      await put(folder, `${address}.md`, withLinks(text, `notebooks/${name}.ipynb`, address));
      for (const asset of assets)
        await put(folder, path.join('public', 'tutorials', asset.name), asset.bytes);
    } else if (kind === 'made') {
      await put(folder, `${address}.md`, made[name] ?? '');
    } else {
      const written = await readFile(path.join(DOCS, source), 'utf8');
      const text = written.replace(/<!-- made: ([\w-]+) -->/g, (_, part) => made[part] ?? '');
      await put(folder, `${address}.md`, withLinks(text, path.posix.join('docs', source), address));
    }
  }
  await put(folder, 'index.md', home(await readFile(path.join(checkout.root, 'README.md'), 'utf8')));
}

/** @param {string} folder @param {string} name @param {string | Buffer} content */
async function put(folder, name, content) {
  const target = path.join(folder, name);
  await mkdir(path.dirname(target), { recursive: true });
  await writeFile(target, content);
}

/**
 * Links between files of the repository become links between pages; a file without a page is only named.
 *
 * @param {string} text @param {string} file of the text, from the root @param {string} address of its page
 */
export function withLinks(text, file, address) {
  const pages = new Map(
    CONTENTS.flatMap(({ pages }) =>
      pages.map(({ source }) => {
        const [kind, name = ''] = source.split(':');
        const own = kind === 'notebook' ? `notebooks/${name}.ipynb` : path.posix.join('docs', source);
        return /** @type {const} */ ([own, addressOf(source)]);
      })
    )
  );
  pages.set('README.md', 'index');
  pages.set('docs/README.md', 'index');
  return text.replace(/(!?)\[([^\]]*)\]\(([^)\s]+)\)/g, (whole, picture, title, target) => {
    if (/^[a-z]+:|^[#/]/.test(target)) return whole;
    const [relative = '', anchor = ''] = target.split(/(?=#)/);
    const wanted = path.posix.normalize(path.posix.join(path.posix.dirname(file), relative));
    const up = path.posix.dirname(address);
    if (picture === '!' || wanted.startsWith('docs/images/')) {
      return `${picture}[${title}](/${wanted.replace(/^docs\//, '')})`;
    }
    const page =
      pages.get(wanted) ??
      (/^docs\/decisions\/\d.*\.md$/.test(wanted) ? wanted.replace(/^docs\/|\.md$/g, '') : null);
    if (page === null) return title;
    const link = path.posix.relative(up, page);
    return `[${title}](${link.startsWith('.') ? link : `./${link}`}.md${anchor})`;
  });
}

/** The first screen: the README's sentence, commands and picture. @param {string} readme */
export function home(readme) {
  const [, sentence = ''] = /\n\*\*([\s\S]+?)\*\*/.exec(readme) ?? [];
  const [, picture = ''] = /!\[[^\]]*\]\(docs\/([^)]+)\)/.exec(readme) ?? [];
  const [, commands = ''] = /\n```\n([\s\S]+?)\n```/.exec(readme) ?? [];
  const tagline = sentence
    .replace(/\s+/g, ' ')
    .replace(/^Jupyter for JAX and PyTorch\/XLA: ./, found => (found.at(-1) ?? '').toUpperCase());
  const cards = [
    ['Learn without a TPU', 'The same programs, compiled for your CPU.', 'start-laptop'],
    ['Use my TPU VM', 'Paste its name. TPULab sets it up over ssh.', 'tpu-vm'],
    ['Fine-tune a model', 'BERT or your own, in JAX or PyTorch/XLA.', 'tutorials/04-bert-fine-tune'],
    ['Train a voice or pictures', 'Dia, GPT-SoVITS, English speech, diffusion.', 'tutorials/05-ddpm'],
    ['Use several hosts', 'A slice as one kernel: a cell runs on every host.', 'slices']
  ].map(([title, details, link]) => `  - title: ${title}\n    details: "${details}"\n    link: /${link}`);
  const groups = CONTENTS.map(({ group, pages }) => {
    const links = pages.map(({ title, source }) => `- [${title}](./${addressOf(source)}.md)`);
    return `<div>\n\n### ${group}\n\n${links.join('\n')}\n\n</div>`;
  });
  return `---
layout: home
hero:
  name: TPULab
  text: Jupyter for JAX and PyTorch/XLA
  tagline: ${JSON.stringify(tagline)}
  image:
    src: /${picture}
    alt: JupyterLab with TPULab
  actions:
    - theme: brand
      text: Get started
      link: /start-laptop
    - theme: alt
      text: What was tested
      link: /status
features:
${cards.join('\n')}
---

\`\`\`sh
${commands}
\`\`\`

## All pages

<div class="all-pages">

${groups.join('\n\n')}

</div>
`;
}
