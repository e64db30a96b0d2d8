/** What a remote has once it is connected: chips, memory, and who holds the chips. Asked for once. No DOM. */
import type { TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { DevicesPage, type Holder, HoldersPage } from '@tpulab/protocol';
import type { RemotesApi } from '../../backends/remotes-api.js';

export interface IMachineFacts {
  readonly chips: number;
  /** `4 × 31.25 GiB`; null where the chip is not known. */
  readonly hbm: string | null;
  /** Processes that have the chips; JAX does not start beside them. */
  readonly holders: readonly Holder[];
}

/** Null where the remote's gateway does not tell. */
export async function machineFacts(api: RemotesApi, name: string): Promise<IMachineFacts | null> {
  const at = `machines/${encodeURIComponent(name)}/bridge/v1/devices`;
  const page = as(DevicesPage, await api.request<unknown>('GET', at));
  if (page === null) {
    return null;
  }
  const [spec] = page.specs;
  const chips = page.chips.length;
  const devices = spec === undefined ? 0 : chips * spec.devices;
  const held =
    chips === 0
      ? null
      : as(HoldersPage, await api.request<unknown>('GET', `${at}/holders`).catch(() => null));
  return {
    chips,
    hbm:
      devices === 0 || spec?.usableGiBPerDevice == null
        ? null
        : `${devices} × ${spec.usableGiBPerDevice} GiB`,
    holders: held?.holders ?? []
  };
}

/** What another machine says is looked at before it is drawn. */
function as<T>(schema: { readonly static: T }, value: unknown): T | null {
  // TypeBox's types are seen twice, as in `events/parse-frame.ts`.
  return Value.Check(schema as unknown as TSchema, value) ? (value as T) : null;
}
