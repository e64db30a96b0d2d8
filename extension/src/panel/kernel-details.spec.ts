import { YNotebook } from '@jupyter/ydoc';
import { beforeEach, expect, test } from 'vitest';
import { ignoreKernelDetails, watchChoice } from './kernel-details.js';

let notebook: YNotebook;
beforeEach(() => {
  const kernelspec = { name: 'tpulab-jax', display_name: 'JAX', language: 'python' };
  notebook = YNotebook.create({ data: { metadata: { kernelspec, language_info: { name: 'python' } } } });
  notebook.dirty = false;
  ignoreKernelDetails(notebook);
});

/** Lab's metadata after a kernel has answered. */
const DETAILS = { name: 'python', version: '3.12.4', file_extension: '.py' };
const settled = (): Promise<void> => Promise.resolve();

test('a kernel that reports its details leaves a notebook unchanged, and its details are available', async () => {
  notebook.setMetadata('language_info', DETAILS);
  notebook.setMetadata('kernelspec', { name: 'tpulab-jax', display_name: 'JAX on TPU', language: 'python' });
  await settled();
  expect(notebook.dirty).toBe(false);
  expect(notebook.getMetadata('language_info')).toEqual(DETAILS);
});

test('another kernel is a change, and so is an edit by the user', async () => {
  notebook.setMetadata('kernelspec', {
    name: 'remote/vm/tpulab-jax',
    display_name: 'JAX',
    language: 'python'
  });
  await settled();
  expect(notebook.dirty).toBe(true);
  notebook.dirty = false;
  notebook.setMetadata('title', 'mine');
  await settled();
  expect(notebook.dirty).toBe(true);
});

test('a notebook with unsaved changes still has to be saved', async () => {
  notebook.addCell({ cell_type: 'code', source: '1' });
  expect(notebook.dirty).toBe(true);
  notebook.setMetadata('language_info', DETAILS);
  await settled();
  expect(notebook.dirty).toBe(true);
});

test('a notebook without a kernelspec is unchanged by a kernel that the page chose', async () => {
  const plain = YNotebook.create({ data: { metadata: {} } });
  // Lab's model in that case.
  plain.setMetadata('language_info', { name: '' });
  plain.setMetadata('kernelspec', { name: '', display_name: '' });
  plain.dirty = false;
  ignoreKernelDetails(plain, () => false, true);
  plain.setMetadata('language_info', DETAILS);
  plain.setMetadata('kernelspec', { name: 'tpulab-jax', display_name: 'JAX', language: 'python' });
  await settled();
  expect(plain.dirty).toBe(false);
});

test('a substitute for a missing kernel leaves the original name in the notebook until the user chooses a kernel', async () => {
  const changed: unknown[] = [];
  const context = { changeKernel: async (options?: never) => void changed.push(options) };
  const r = { name: 'ir', display_name: 'R' };
  const other = YNotebook.create({ data: { metadata: { kernelspec: r } } });
  other.dirty = false;
  ignoreKernelDetails(other, watchChoice(context));
  const substitute = { name: 'tpulab-jax', display_name: 'JAX', language: 'python' };
  other.setMetadata('kernelspec', substitute);
  await settled();
  expect(other.getMetadata('kernelspec')).toEqual(r);
  expect(other.dirty).toBe(false);
  await context.changeKernel({ name: 'tpulab-jax' } as never);
  other.setMetadata('kernelspec', substitute);
  await settled();
  expect(other.getMetadata('kernelspec')).toEqual(substitute);
  expect(other.dirty).toBe(true);
  expect(changed).toEqual([{ name: 'tpulab-jax' }]);
});
