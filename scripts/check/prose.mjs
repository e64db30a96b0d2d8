// @ts-check
/**
 * `npm run check -- prose`: the words of documentation, messages, help, titles of tests and names in code. The rules are in `prose-rules.mjs`. Text that
 * was there before the rules is counted for each file in `prose-baseline.json`: a file may have fewer findings than that, never more.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { NAME_WORDS, RULES } from './prose-rules.mjs';

/** @typedef {{ path: string, line: number, rule: string, text: string, instead: string }} Finding */

const BASELINE = 'scripts/check/prose-baseline.json';
const TITLES = /^(?:it|test|describe|expect)$/;
/** The names that a line of Python defines: a function, a class, a variable or an attribute of itself. */
const PYTHON_NAME = /^\s*(?:(?:async )?def|class) (\w+)|^\s*(?:self\.)?(\w+)(?:: [^=]+)? = /;
const PYTHON_TITLE = /^\s*(?:async )?def test_(\w+)/;

/** Code, addresses and commands are not prose. @param {string} text */
const withoutCode = text =>
  text
    .replace(/```[\s\S]*?(?:```|$)/g, blank)
    .replace(/`[^`\n]*`/g, blank)
    .replace(/\]\([^)\n]*\)/g, blank)
    .replace(/https?:\/\/\S+/g, blank);

/** @param {string} text */
const blank = text => text.replace(/[^\n]/g, '·');

/** @param {string} file @param {string} text @param {number} firstLine @returns {Finding[]} */
export function findIn(file, text, firstLine = 1) {
  const prose = withoutCode(text);
  return RULES.filter(({ only }) => only === undefined || only.test(file)).flatMap(
    ({ rule, pattern, instead }) =>
      [
        ...prose.matchAll(
          new RegExp(pattern, pattern.flags.includes('g') ? pattern.flags : `${pattern.flags}g`)
        )
      ].map(match => ({
        path: file,
        line: firstLine + prose.slice(0, match.index).split('\n').length - 1,
        rule,
        text: match[0].trim(),
        instead
      }))
  );
}

/**
 * Strings of TypeScript that people read: strings with a blank, and in tests only the titles.
 *
 * @param {string} file @param {string} text @returns {Finding[]}
 */
function findInStrings(file, text) {
  const source = ts.createSourceFile(
    file,
    text,
    ts.ScriptTarget.Latest,
    true,
    file.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS
  );
  const isTest = /\.spec\.|\/testing\/|^ui-tests\//.test(file);
  /** @type {Finding[]} */
  const found = [];
  /** @param {ts.Node} node */
  const visit = node => {
    const { name } = /** @type {{ name?: ts.Node }} */ (node);
    if (name && isDeclaration(node) && (ts.isIdentifier(name) || ts.isPrivateIdentifier(name)))
      found.push(
        ...findInName(file, name.text, source.getLineAndCharacterOfPosition(name.getStart(source)).line + 1)
      );
    if (
      ts.isStringLiteralLike(node) ||
      ts.isTemplateHead(node) ||
      ts.isTemplateMiddle(node) ||
      ts.isTemplateTail(node) ||
      ts.isJsxText(node)
    ) {
      const words = node.text;
      if (/[a-z] [a-z]/i.test(words) && !/\n.*\n.*\n/.test(words) && (!isTest || isTitle(node)))
        found.push(
          ...findIn(file, words, source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1)
        );
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** @param {ts.Node} node */
const isDeclaration = node =>
  ts.isVariableDeclaration(node) ||
  ts.isParameter(node) ||
  ts.isBindingElement(node) ||
  ts.isFunctionDeclaration(node) ||
  ts.isClassElement(node) ||
  ts.isTypeElement(node) ||
  ts.isClassDeclaration(node) ||
  ts.isInterfaceDeclaration(node) ||
  ts.isTypeAliasDeclaration(node);

/**
 * A declared name: its words, whatever the case.
 *
 * @param {string} file @param {string} name @param {number} line @returns {Finding[]}
 */
function findInName(file, name, line) {
  const words = name
    .replace(/([a-z\d])(?=[A-Z])/g, '$1 ')
    .toLowerCase()
    .split(/[^a-z]+/);
  return words.flatMap(word =>
    Object.hasOwn(NAME_WORDS, word)
      ? [
          {
            path: file,
            line,
            rule: 'name',
            text: name,
            instead: NAME_WORDS[/** @type {keyof typeof NAME_WORDS} */ (word)]
          }
        ]
      : []
  );
}

/** @param {ts.Node} node */
function isTitle({ parent }) {
  if (!ts.isCallExpression(parent)) return false;
  const [name] = parent.expression.getText().split(/[.(]/);
  return TITLES.test(name ?? '') && name !== 'expect';
}

/** @param {string} file @param {string} text @returns {Finding[]} */
export function findInFile(file, text) {
  if (file.endsWith('.md')) return findIn(file, text);
  if (/\.[mc]?[jt]sx?$/.test(file)) return findInStrings(file, text);
  if (file.endsWith('.py'))
    return text.split('\n').flatMap((line, index) => {
      const title = PYTHON_TITLE.exec(line)?.[1];
      if (title !== undefined) return findIn(file, title.replaceAll('_', ' '), index + 1);
      const name = PYTHON_NAME.exec(line)?.slice(1).find(Boolean);
      return name === undefined ? [] : findInName(file, name, index + 1);
    });
  if (file.endsWith('.json'))
    return [...text.matchAll(/"(?:title|description)": "((?:[^"\\]|\\.)*)"/g)].flatMap(match =>
      findIn(file, match[1] ?? '', text.slice(0, match.index).split('\n').length)
    );
  return [];
}

const READ =
  /^(README|CHANGELOG|CONTRIBUTING|SECURITY)\.md$|^docs\/(?!decisions\/).*\.md$|^(kernel-bridge|platform|machines|extension|protocol|ui-tests|scripts)\/.*\.(?:tsx?|mjs)$|^extension\/schema\/.*\.json$|^(kernel-agent|recipes|tests)\/.*\.py$/;
const NOT_READ = /\/generated\/|^scripts\/check\/prose|^docs\/glossary\.md$/;

/** @param {string} root @param {readonly string[]} files @returns {Map<string, Finding[]>} */
function findAll(root, files) {
  const found = new Map();
  for (const file of files) {
    if (!READ.test(file) || NOT_READ.test(file)) continue;
    const findings = findInFile(file, readFileSync(path.join(root, file), 'utf8'));
    if (findings.length > 0) found.set(file, findings);
  }
  return found;
}

/** @param {string} root @param {string[]} args @returns {string[]} none in a copy without a branch main */
function gitLines(root, args) {
  try {
    const stdio = /** @type {['ignore', 'pipe', 'ignore']} */ (['ignore', 'pipe', 'ignore']);
    return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio }).split('\n').filter(Boolean);
  } catch {
    return [];
  }
}

/** @param {string} root @returns {Finding[]} errors in the subjects of a branch's commits that main does not have */
function findInSubjects(root) {
  const subjects = gitLines(root, ['log', '--format=%h %s', 'main..HEAD']);
  return subjects.flatMap(line => {
    const [hash = '', ...words] = line.split(' ');
    const subject = words.join(' ');
    const long =
      subject.length > 72
        ? [{ path: hash, line: 1, rule: 'subject', text: subject, instead: '72 characters or fewer' }]
        : [];
    return [...long, ...findIn(hash, subject)];
  });
}

/** @param {string} root @param {readonly string[]} files @returns {string[]} lines for people; empty: no problem */
export function proseFindings(root, files) {
  /** @type {Record<string, number>} */
  const before = JSON.parse(readFileSync(path.join(root, BASELINE), 'utf8'));
  return [...compare(before, findAll(root, files)), ...findInSubjects(root).map(lineOf)];
}

/** @param {Record<string, number>} before @param {ReadonlyMap<string, Finding[]>} found @returns {string[]} */
export function compare(before, found) {
  const more = [...found].flatMap(([file, findings]) => {
    const may = before[file] ?? 0;
    if (findings.length <= may) return [];
    const lines = findings.map(lineOf);
    return may === 0
      ? lines
      : [`${file}: ${findings.length} findings instead of ${may}; one of these is new:`, ...lines];
  });
  const fewer = Object.entries(before).flatMap(([file, count]) => {
    const now = found.get(file)?.length ?? 0;
    return now < count
      ? [`${file}: ${now} findings instead of ${count}; run node scripts/check/prose.mjs --lower`]
      : [];
  });
  return [...more, ...fewer];
}

/** @param {Finding} finding */
const lineOf = ({ path: file, line, rule, text, instead }) =>
  `${file}:${line}  ${rule}: "${text}"; write: ${instead}`;

/** `--lower` writes the smaller counts; it never raises one. `--list` shows all findings. */
async function main() {
  const { checkout } = await import('../setup/checkout.mjs');
  const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '--deduplicate'], {
    cwd: checkout.root,
    encoding: 'utf8'
  }).split('\n');
  const { existsSync } = await import('node:fs');
  const found = findAll(
    checkout.root,
    files.filter(file => file !== '' && existsSync(path.join(checkout.root, file)))
  );
  if (process.argv.includes('--list')) {
    for (const findings of found.values())
      for (const finding of findings) process.stdout.write(`${lineOf(finding)}\n`);
    return;
  }
  const target = path.join(checkout.root, BASELINE);
  /** @type {Record<string, number>} */
  const before = JSON.parse(readFileSync(target, 'utf8'));
  const lower = Object.entries(before)
    .map(([file, count]) => /** @type {const} */ ([file, Math.min(count, found.get(file)?.length ?? 0)]))
    .filter(([, count]) => count > 0);
  writeFileSync(target, `${JSON.stringify(Object.fromEntries(lower), null, 2)}\n`);
}

if (import.meta.filename === process.argv[1]) await main();
