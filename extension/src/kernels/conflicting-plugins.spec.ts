import { expect, test } from 'vitest';
import { conflictingPlugins } from './conflicting-plugins.js';

const KERNELS = '@jupyterlab/services:IKernelManager';

test('names the enabled plugins of others that provide one of the managers', () => {
  const plugins = [
    { id: '@jupyterlab/services-extension:kernel-manager', enabled: true, provides: { name: KERNELS } },
    { id: '@tpulab/labextension:kernel-manager', enabled: true, provides: { name: KERNELS } },
    { id: 'hybrid:kernels', enabled: true, provides: { name: KERNELS } },
    { id: 'hybrid:off', enabled: false, provides: { name: KERNELS } },
    { id: 'other:text', enabled: true, provides: KERNELS },
    { id: 'other:plugin', enabled: true, provides: null }
  ];
  expect(conflictingPlugins(plugins, [KERNELS])).toEqual(['hybrid:kernels', 'other:text']);
});
