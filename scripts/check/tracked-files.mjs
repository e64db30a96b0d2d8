// @ts-check
/**
 * What must not be in a tracked file: a path of somebody's machine, the address of a package registry, something that
 * looks like a secret, and the output of a notebook.
 */

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
  }
];

/** The check itself names what it forbids. */
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

/** Outputs and execution counts left in a notebook. @param {string} path @param {string} text @returns {Finding[]} */
export function findNotebookOutputs(path, text) {
  if (!path.endsWith('.ipynb')) return [];
  /** @type {{ cells?: { cell_type: string, id?: string, outputs?: unknown[], execution_count?: number | null }[] }} */
  const notebook = JSON.parse(text);
  return (notebook.cells ?? []).flatMap((cell, index) => {
    const line = index + 1;
    if (cell.cell_type !== 'code') return [];
    if ((cell.outputs?.length ?? 0) > 0)
      return [{ path, line, what: 'the output of a notebook cell (line = cell)' }];
    if (cell.execution_count != null) return [{ path, line, what: 'an execution count (line = cell)' }];
    return [];
  });
}
