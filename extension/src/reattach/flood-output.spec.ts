// @vitest-environment jsdom
import { expect, it, vi } from 'vitest';

// jsdom lacks these, and JupyterLab's packages need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends Event {},
    matchMedia: () => ({ addListener: () => undefined })
  })
);

const { Sanitizer } = await import('@jupyterlab/apputils');
const { MimeModel, textRendererFactory } = await import('@jupyterlab/rendermime');
const { printedTextFactory } = await import('./flood-output.js');

const TYPE = 'application/vnd.jupyter.stdout';
const drawn = async (factory: typeof textRendererFactory, texts: readonly string[]): Promise<string> => {
  const renderer = factory.createRenderer({
    mimeType: TYPE,
    sanitizer: new Sanitizer(),
    resolver: null,
    linkHandler: null,
    latexTypesetter: null
  });
  for (const text of texts) await renderer.renderModel(new MimeModel({ data: { [TYPE]: text } }));
  const { outerHTML } = renderer.node;
  renderer.dispose();
  return outerHTML;
};

// JupyterLab's own method takes most of a page's time for a cell that prints without end.
it.each([
  ['nothing', ['']],
  ['lines', ['one', 'one\ntwo\n', 'one\ntwo\nthree <b>&amp;</b> \u{1f600}\n']],
  ['links', ['see https://example.com/a?b=1 or www.example.com', 'data:text/plain,1 and ftp://x.example']],
  ['colours', ['\x1b[31mred\x1b[0m and not', 'plain again']]
])('draws %s as JupyterLab does', async (_, texts) => {
  expect(await drawn(printedTextFactory, texts)).toBe(await drawn(textRendererFactory, texts));
});

it.each([
  ['a link', '\x1b]8;;https://example.com\x1b\\text\x1b]8;;\x07 after', 'text after'],
  ['a title, then colours', '\x1b]0;title\x07\x1b[31mred\x1b(B\x1b[m', 'red'],
  ['a keypad and a picture', 'a\x1b=\x1b>\x1bPq#0;2\x1b\\b', 'ab'],
  ['an unfinished one', 'done\x1b]8;;https://example.com', 'done8;;https://example.com']
])('leaves the text of %s', async (_, printed, shown) => {
  const node = document.createElement('div');
  node.innerHTML = await drawn(printedTextFactory, [printed]);
  expect(node.textContent).toBe(shown);
});
