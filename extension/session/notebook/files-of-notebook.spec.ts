// @vitest-environment jsdom
import { expect, it, vi } from 'vitest';

// jsdom lacks these, and JupyterLab's widgets need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends Event {},
    matchMedia: () => ({ addListener: () => undefined, addEventListener: () => undefined })
  })
);

const { Files } = await import('./files-of-notebook.js');

const FOLDER: Readonly<Record<string, BlobPart>> = {
  'work/report.html': '<h1>report</h1>',
  'work/table.csv': 'a,<b>',
  'work/picture.png': new Uint8Array([1, 2, 3]),
  'work/paper.pdf': '%PDF-1.4 text',
  'work/data.bin': new Uint8Array([255, 0, 1])
};
const files = new Files({
  path: () => 'work/notebook.ipynb',
  bytes: async path => {
    const found = FOLDER[path];
    if (found === undefined) throw new Error(`${path} does not exist`);
    // jsdom's class has no such method.
    return Object.assign(new Blob([found]), { arrayBuffer: () => new Response(found).arrayBuffer() });
  },
  openNotebook: () => undefined
});

async function framed(address: string): Promise<Element | null> {
  const html = await files.inlined(`<iframe src="${address}"></iframe>`);
  return new DOMParser().parseFromString(html, 'text/html').body.firstElementChild;
}

// Arguments of IPython.display.IFrame.
it.each([
  ['report.html', '<h1>report</h1>'],
  ['table.csv', '<pre>a,&lt;b&gt;</pre>'],
  ['picture.png', '<img src="data:image/png;base64,AQID">'],
  ['data:text/html,<h1>in%20it</h1>', '<h1>in it</h1>'],
  ['data:text/html;charset=utf-8;base64,PGI+eDwvYj4=', '<b>x</b>'],
  ['data:text/plain,a<b', '<pre>a&lt;b</pre>'],
  ['data:,plain', '<pre>plain</pre>']
])('shows %s in a frame of an output', async (address, shown) => {
  const frame = await framed(address);
  expect(frame?.getAttribute('srcdoc')).toBe(shown);
  expect(frame?.hasAttribute('src')).toBe(false);
});

it.each([
  ['paper.pdf', 'This file is not shown in an output: paper.pdf'],
  ['data.bin', 'This file is not shown in an output: data.bin'],
  ['https://example.com/', 'The session page shows no other sites: https://example.com/']
])('links to %s, which no frame shows', async (address, text) => {
  const line = await framed(address);
  expect(line?.textContent).toBe(text);
  expect(line?.querySelector('a')?.getAttribute('href')).toBe(address);
});

it('names a file that is missing', async () => {
  const html = await files.inlined('<iframe src="gone.html"></iframe>');
  expect(html).toBe('work/gone.html does not exist');
});
