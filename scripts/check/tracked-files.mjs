// @ts-check
/**
 * Forbidden content of a tracked file: a path of a person's machine, the address of a package registry, text that
 * looks like a secret, an enum of TypeScript, and notebook outputs that identify a machine or belong to other code.
 */

import { createHash } from 'node:crypto';

/** @typedef {{ path: string, line: number, what: string }} Finding */

/** @type {{ what: string, pattern: RegExp, except?: RegExp }[]} */
const FORBIDDEN = [
  {
    what: 'a path of one machine',
    pattern: /(?<![\w.$}/-])\/(?:home|Users)\/(?!runner\b|USER\b|you\b|me\b)[a-z][\w-]*\/|\/work\/main\b/
  },
  {
    what: 'the address of a package registry',
    pattern:
      /\b(?:registry\.npmjs\.org|registry\.yarnpkg\.com|files\.pythonhosted\.org|pypi\.org\/simple|test\.pypi\.org)\b/
  },
  { what: 'a private key', pattern: /-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----/ },
  {
    what: 'an access token',
    pattern: /\b(?:ghp_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}|AIza[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{30,})\b/
  },
  {
    what: 'an enum: a union of literals takes its place',
    pattern: /^\s*(?:export )?(?:declare )?(?:const )?enum \w+ \{/
  }
];

/** The check itself names the forbidden texts. */
const SELF = /^scripts\/check\/tracked-files(\.spec)?\.mjs$/;

/** @param {string} path @param {string} text @returns {Finding[]} */
export function findForbidden(path, text) {
  if (SELF.test(path)) return [];
  /** @type {Finding[]} */
  const found = [];
  text.split('\n').forEach((line, index) => {
    for (const { what, pattern } of FORBIDDEN) {
      if (pattern.test(line)) found.push({ path, line: index + 1, what });
    }
  });
  return found;
}

/** Largest notebook with its outputs, in characters. */
export const NOTEBOOK_LIMIT = 1_200_000;
/** Sound and pictures, whose letters have no meaning: base64 has slashes too. */
const DATA = /(?:base64,|"image\/png":\s*")[A-Za-z0-9+/=\\n]+/g;
/** Text in an output that identifies the machine. */
const MACHINE_TEXT = /\/(home|root|tmp|work|Users|var)\/|\bat 0x[0-9a-f]{6,}/;

/**
 * @param {{ source: string | string[], cell_type: string }[]} cells
 * @returns {string} the hash that `npm run notebooks` writes into `metadata.tpulab.outputs_of`
 */
export function codeHash(cells) {
  const sources = cells.filter(cell => cell.cell_type === 'code').map(cell => [cell.source].flat().join(''));
  return createHash('sha256').update(sources.join('\0')).digest('hex');
}

/** The errors of the outputs saved in a notebook. @param {string} path @param {string} text @returns {Finding[]} */
export function findNotebookOutputs(path, text) {
  if (!path.endsWith('.ipynb')) return [];
  /** @type {{ metadata?: { tpulab?: { outputs_of?: string } }, cells?: { cell_type: string, source: string | string[], outputs?: { output_type: string }[], execution_count?: number | null }[] }} */
  const { cells = [], metadata } = JSON.parse(text);
  /** @type {Finding[]} */
  const found = [];
  cells.forEach((cell, index) => {
    const line = index + 1;
    if (cell.cell_type !== 'code') return;
    if (cell.execution_count != null)
      found.push({ path, line, what: 'an execution count (line = cell); `npm run notebooks` saves outputs' });
    for (const output of cell.outputs ?? []) {
      if (output.output_type === 'error')
        found.push({ path, line, what: 'the error of a notebook cell (line = cell)' });
      const machine = MACHINE_TEXT.exec(JSON.stringify(output).replace(DATA, ''))?.[0];
      if (machine !== undefined)
        found.push({ path, line, what: `"${machine}" in the output of a cell (line = cell)` });
    }
  });
  const hasOutputs = cells.some(cell => (cell.outputs?.length ?? 0) > 0);
  if (hasOutputs && metadata?.tpulab?.outputs_of !== codeHash(cells))
    found.push({
      path,
      line: 1,
      what: "outputs of other code than the cells'; run `npm run notebooks`"
    });
  if (text.length > NOTEBOOK_LIMIT)
    found.push({ path, line: 1, what: `a notebook of more than ${NOTEBOOK_LIMIT} characters` });
  return found;
}

/**
 * Sources that a notebook prints by `show_source` and that no current recipe has: outputs of the same cells, of older recipes.
 *
 * @param {string} path @param {string} text @param {readonly string[]} recipes their source files @returns {Finding[]}
 */
export function findPrintedSources(path, text, recipes) {
  /** @type {{ cells?: { source: string | string[], outputs?: { data?: Record<string, string | string[]> }[] }[] }} */
  const { cells = [] } = JSON.parse(text);
  return cells.flatMap(({ source, outputs }, index) => {
    const printed = /^show_source\(/m.test([source].flat().join(''))
      ? outputs?.at(-1)?.data?.['text/plain']
      : '';
    return [printed ?? '']
      .flat()
      .join('')
      .trimEnd()
      .split(/\n\n(?=\S)/)
      .filter(part => part !== '' && !recipes.some(recipe => hasBlock(recipe, part)))
      .map(part => {
        const what = `"${part.split('\n')[0]}" as no recipe has it today; run \`npm run notebooks\` (line = cell)`;
        return { path, line: index + 1, what };
      });
  });
}

/** Whether this is a whole function or class of the file, at any depth. @param {string} file @param {string} block */
function hasBlock(file, block) {
  return ['', ' '.repeat(4), ' '.repeat(8)].some(indent => {
    const [, after] = `\n${file}\n`.split(`\n${block.replaceAll(/^(?=.)/gm, indent)}\n`);
    const next = /^ *(?=\S)/m.exec(after ?? '')?.[0] ?? '';
    return after !== undefined && next.length <= indent.length;
  });
}
