/** Which plugins, apart from ours and Lab's own, provide some of the given tokens. */
interface IPluginFacts {
  readonly id: string;
  readonly enabled: boolean;
  readonly provides: { readonly name: string } | string | null;
}

const EXPECTED_PREFIXES = ['@tpulab/labextension:', '@jupyterlab/services-extension:'];

export function conflictingPlugins(
  plugins: readonly IPluginFacts[],
  tokenNames: readonly string[]
): string[] {
  return plugins
    .filter(({ id, enabled }) => enabled && !EXPECTED_PREFIXES.some(prefix => id.startsWith(prefix)))
    .filter(({ provides }) => {
      const name = typeof provides === 'string' ? provides : provides?.name;
      return name !== undefined && tokenNames.includes(name);
    })
    .map(({ id }) => id);
}
