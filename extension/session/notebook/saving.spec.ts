// @vitest-environment jsdom
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import type { FileEntry } from '@tpulab/protocol';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { FileVersion } from '../files/file-client.js';
import { NotebookTexts } from '../files/notebook-text.js';
import { seenOutputs } from '../files/seen-outputs.js';
import { NotebookSaving, type NotebookStore } from './saving.js';

// jsdom lacks these, and JupyterLab's widgets need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends Event {},
    matchMedia: () => ({ addListener: () => undefined, addEventListener: () => undefined })
  })
);

const { NotebookModel } = await import('@jupyterlab/notebook/lib/model.js');
const { BridgeDrive } = await import('../files/drive.js');

const html = (text: string) => ({ output_type: 'display_data', metadata: {}, data: { 'text/html': text } });
const code = (id: string, more: object) => ({
  ...{ cell_type: 'code', id, metadata: {}, source: 'x', execution_count: null, outputs: [] },
  ...more
});
const fileOf = (cells: readonly object[], metadata: object = {}): string =>
  JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }, null, 1);

/** A notebook that is open in the page, and its file. */
function openNotebook(file: string): {
  model: InstanceType<typeof NotebookModel>;
  /** Another program writes the file, and the page notices. */
  change(text: string): Promise<void>;
  text(): string;
} {
  const notebooks = new NotebookTexts();
  const model = new NotebookModel();
  model.fromJSON(notebooks.read('a.ipynb', file) as unknown as INotebookContent);
  model.dirty = false;
  const context = {
    ...{ path: 'a.ipynb', model, isReady: true, ready: Promise.resolve(), contentsModel: { hash: file } },
    ...{ saveState: new Signal({}), fileChanged: new Signal({}) },
    _updateContentsModel: (now: { hash: string }) => (context.contentsModel = now)
  };
  let stored = file;
  const store = {
    notebooks,
    get: (path: string, { content = true } = {}) =>
      Promise.resolve({ hash: stored, content: content ? notebooks.read(path, stored) : null })
  };
  const panel = { context, content: { widgets: [] }, disposed: new Signal({}) };
  const saving = new NotebookSaving(
    panel as unknown as NotebookPanel,
    store as unknown as NotebookStore,
    false
  );
  onTestFinished(() => {
    saving.dispose();
    model.dispose();
  });
  return {
    model,
    change: async text => {
      stored = text;
      const reloaded = new Promise(resolve => saving.reloaded.connect(resolve));
      document.dispatchEvent(new Event('visibilitychange'));
      await reloaded;
    },
    text: () => saving.text()
  };
}

it('takes all of a changed file: a later save reverts no tag, attachment or other metadata', async () => {
  const text = (more: object) => ({ cell_type: 'markdown', id: 'b', metadata: {}, source: 'text', ...more });
  const notebook = openNotebook(
    fileOf([code('a', { metadata: { tags: ['old'], collapsed: true } }), text({ metadata: { a: 1 } })], {
      kernelspec: { name: 'ours', display_name: 'Ours' },
      jupytext: { formats: 'ipynb' }
    })
  );
  const changed = fileOf(
    [
      code('a', { metadata: { tags: ['parameters'] } }),
      text({ attachments: { 'a.png': { 'image/png': 'aQ==' } }, metadata: { b: 2 } })
    ],
    { kernelspec: { name: 'ours', display_name: 'Ours' }, papermill: { version: '2' } }
  );
  await notebook.change(changed);
  expect(notebook.text()).toBe(changed);
});

it('trusts outputs in a changed file only if they are known, wherever the ones before came from', async () => {
  const [mine, theirs] = [html('<script>mine</script>'), html('<script>theirs</script>')];
  const notebook = openNotebook(fileOf([code('a', { outputs: [mine] })]));
  const cell = notebook.model.cells.get(0);
  cell.trusted = true;
  seenOutputs.learn(notebook.model.toJSON());
  notebook.model.dirty = false;
  await notebook.change(fileOf([code('a', { outputs: [theirs] })]));
  expect(cell.trusted).toBe(false);
  await notebook.change(fileOf([code('a', { outputs: [mine] })]));
  expect(cell.trusted).toBe(true);
  // Text beside the output is no reason to doubt it.
  await notebook.change(fileOf([code('a', { outputs: [mine], source: 'y' })]));
  expect(cell.trusted).toBe(true);
});

it('trusts no outputs because a cell that this page has run was compared with them', () => {
  const notebooks = new NotebookTexts();
  const content = notebooks.read('b.ipynb', fileOf([code('a', { outputs: [html('<script>new</script>')] })]));
  content.cells[0]!['metadata'] = { trusted: true };
  expect(notebooks.isSame('b.ipynb', content)).toBe(true);
  expect(notebooks.read('b.ipynb', fileOf(content.cells)).cells[0]!['metadata']).toEqual({});
});

// A laptop that slept, or a slow network: the server has saved the notebook, and the page does not know.
it('is not in conflict with its own save, whose answer was lost, nor with the same bytes written again', async () => {
  vi.stubGlobal('tpulabRetry', (work: () => unknown) => work());
  const drive = new BridgeDrive({} as never);
  let disk = { text: fileOf([code('a', {})]), etag: '1' };
  let isLost = false;
  const version = (): FileVersion => ({ etag: disk.etag, modifiedAt: '', createdAt: '', isWritable: true });
  const blob = (): Blob =>
    ({ arrayBuffer: () => Promise.resolve(new TextEncoder().encode(disk.text).buffer) }) as Blob;
  vi.spyOn(drive.files, 'load').mockImplementation(() =>
    Promise.resolve({ blob: blob(), version: version() })
  );
  vi.spyOn(drive.files, 'readVersion').mockImplementation(() => Promise.resolve(version()));
  vi.spyOn(drive.files, 'write').mockImplementation((path, text, replaced) => {
    if (replaced !== disk.etag) return Promise.reject(Object.assign(new Error(), { code: 'file_changed' }));
    disk = { text: text as string, etag: `${disk.etag}1` };
    return isLost
      ? Promise.reject(new Error('no answer'))
      : Promise.resolve({ path, ...version() } as FileEntry);
  });
  const model = new NotebookModel();
  const first = await drive.get('a.ipynb');
  model.fromJSON(first.content as INotebookContent);
  model.dirty = false;
  const saveState = new Signal({});
  const context = {
    ...{ path: 'a.ipynb', model, isReady: true, ready: Promise.resolve(), contentsModel: first },
    ...{ saveState, _saveState: saveState, fileChanged: new Signal({}) },
    _updateContentsModel: (now: typeof first) => (context.contentsModel = now)
  };
  const panel = { context, content: { widgets: [] }, disposed: new Signal({}) };
  const saving = new NotebookSaving(panel as unknown as NotebookPanel, drive, false);
  onTestFinished(() => saving.dispose());
  const cell = model.cells.get(0).sharedModel;
  // Another program, such as `git stash pop`, writes the same bytes.
  disk = { ...disk, etag: '6' };
  cell.setSource('after a stash');
  await saving.save();
  expect(saving.state.kind).toBe('saved');
  isLost = true;
  cell.setSource('first');
  await saving.save();
  expect(saving.state.kind).toBe('failed');
  cell.setSource('second');
  isLost = false;
  await saving.save();
  expect(saving.state.kind).toBe('saved');
  expect(disk.text).toContain('second');
  // Another program's change still is one, even to what this page has saved before.
  disk = { text: disk.text.replace('second', 'theirs'), etag: '7' };
  cell.setSource('third');
  await saving.save();
  expect(saving.state.kind).toBe('conflict');
  expect(disk.text).toContain('theirs');
});
