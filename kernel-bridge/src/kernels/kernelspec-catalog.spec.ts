import { expect, it } from 'vitest';
import { type KernelSpec, KernelSpecCatalog } from './kernelspec-catalog.js';

const catalog = (...specs: readonly (readonly [name: string, language: string])[]): KernelSpecCatalog =>
  new KernelSpecCatalog(
    [
      {
        kernelspecs: async () =>
          specs.map(
            ([name, language]) => ({ name, language, bestEffort: !name.startsWith('tpulab-') }) as KernelSpec
          )
      }
    ],
    null
  );

it.each(['python3', 'python', 'Python3'])(
  'the name %s is the default Python where no kernelspec has it',
  async name => {
    expect((await catalog(['bash', 'bash'], ['tpulab-jax', 'python']).get(name)).name).toBe('tpulab-jax');
    expect((await catalog(['bash', 'bash'], ['mypy', 'python']).get(name)).name).toBe('mypy');
    expect((await catalog(['tpulab-jax', 'python'], ['python3', 'python']).get(name)).name).toBe('python3');
  }
);

it('the default is the first of our environments, in the order of their catalogue', async () => {
  const specs = [
    ['bash', 'bash'],
    ['tpulab-jax', 'python'],
    ['tpulab-aot', 'python']
  ] as const;
  expect((await catalog(...specs).get(null)).name).toBe('tpulab-jax');
});

it('any other unknown name is refused with a list of the existing ones', async () => {
  await expect(catalog(['tpulab-jax', 'python'], ['bash', 'bash']).get('ir')).rejects.toThrow(
    'The kernelspec "ir" does not exist here; there are bash, tpulab-jax.'
  );
  await expect(catalog(['bash', 'bash']).get('python3')).rejects.toThrow('there are bash');
  await expect(catalog().get(null)).rejects.toThrow('"tpulab env create jax" makes one');
});
