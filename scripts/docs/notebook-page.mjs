// @ts-check
/** A shipped notebook as a page: its text, its code and the outputs saved in it, pictures and sound as files beside the page. */

/**
 * @typedef {{ cell_type: string, source: string | string[], outputs?: Output[], metadata?: { tags?: string[] } }} Cell
 * @typedef {{ output_type: string, text?: string | string[], data?: Record<string, string | string[]> }} Output
 * @typedef {{ name: string, bytes: Buffer }} Asset
 */

/** Base path of the built site; the server replaces it. */
const BASE = '/tpulab-docs-base/';
const INLINE = /data:((?:image|audio)\/([\w+-]+));base64,([A-Za-z0-9+/=]+)/g;
/** A page must not contain scripts, nor the style sheets that highlighted source adds in each cell. */
const UNWANTED = /<(script|style)\b[\s\S]*?<\/\1>/gi;

/** @param {string | string[] | undefined} text */
const joined = text => [text ?? ''].flat().join('');

/**
 * @param {string} name of the notebook, without `.ipynb`
 * @param {{ cells: Cell[] }} notebook
 * @returns {{ text: string, assets: Asset[] }}
 */
export function notebookPage(name, { cells }) {
  /** @type {Asset[]} */
  const assets = [];
  const place = (/** @type {string} */ extension, /** @type {string} */ base64) => {
    const file = `${name}-${assets.length + 1}.${extension.replace('jpeg', 'jpg').replace('svg+xml', 'svg')}`;
    assets.push({ name: file, bytes: Buffer.from(base64, 'base64') });
    return `/tutorials/${file}`;
  };
  const parts = cells.map(({ cell_type: type, source, outputs = [] }) => {
    const text = joined(source).trimEnd();
    if (type === 'markdown') return text;
    if (type !== 'code' || text === '') return '';
    return [fenced(text, 'python'), ...outputs.map(output => outputText(output, place))].join('\n\n');
  });
  const download = `_This page is the notebook \`notebooks/${name}.ipynb\` with the outputs of a real run._`;
  const [title = '', ...rest] = parts.filter(part => part !== '');
  return { text: `${[title, download, ...rest].join('\n\n')}\n`, assets };
}

/** @param {Output} output @param {(extension: string, base64: string) => string} place */
function outputText({ output_type: type, text, data = {} }, place) {
  if (type === 'stream') return fenced(joined(text).trimEnd(), 'text');
  const picture = joined(data['image/png']);
  if (picture !== '') return `![Output of the cell](${place('png', picture.replaceAll('\n', ''))})`;
  const html = joined(data['text/html']);
  if (html !== '') {
    const safe = html
      .replace(UNWANTED, '')
      // VitePress puts the base before the address of a picture, not of sound.
      .replace(INLINE, (_, type, extension, base64) =>
        type.startsWith('audio/') ? `${BASE}${place(extension, base64).slice(1)}` : place(extension, base64)
      )
      .replace(/\n\s*\n/g, '\n');
    return `<div class="nb-output" v-pre>\n${safe.trim()}\n</div>`;
  }
  const plain = joined(data['text/plain']).trimEnd();
  return plain === '' ? '' : fenced(plain, 'text');
}

/** @param {string} text @param {string} language */
function fenced(text, language) {
  const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length + 1)));
  return `${fence}${language}\n${text}\n${fence}`;
}
