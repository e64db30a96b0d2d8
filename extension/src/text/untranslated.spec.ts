import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';

const PAGE = join(import.meta.dirname, '../../session');
/** Attributes and properties with visible or spoken text. */
const READ = /^(aria-label|title|placeholder|alt|label|okLabel|about)$/;
/** Names, which are the same in every language. */
const NAMES = new Set(['TPULab', 'Ctrl+K', 'TPU', 'HBM', 'CPU', 'RAM']);

const isText = (text: string): boolean => /\p{L}{2}/u.test(text) && !NAMES.has(text.trim());

/** The texts that a file shows without a translation call. */
function untranslated(file: string): string[] {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isJsxText(node) && isText(node.text)) {
      found.push(node.text.trim());
    }
    if ((ts.isJsxAttribute(node) || ts.isPropertyAssignment(node)) && READ.test(node.name.getText())) {
      const value = node.initializer;
      if (value && (ts.isStringLiteral(value) || ts.isTemplateLiteral(value)) && isText(value.getText())) {
        if (!NAMES.has(value.getText().slice(1, -1))) found.push(value.getText());
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

test('every text that the session page shows goes through the translation domain', () => {
  const files = readdirSync(PAGE, { recursive: true, encoding: 'utf8' }).filter(
    name => /\.tsx?$/.test(name) && !name.includes('.spec.')
  );
  expect(files).toContain(join('shell', 'app.tsx'));
  expect(files.flatMap(name => untranslated(join(PAGE, name)))).toEqual([]);
});
