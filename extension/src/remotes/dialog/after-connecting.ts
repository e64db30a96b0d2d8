/** The equipment of a connected remote: chips, memory, and the holders of the chips. Requested once. No DOM. */
import type { TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { DevicesPage, type Holder, HoldersPage } from '@tpulab/protocol';
import type { RemotesApi } from '../../backends/remotes-api.js';

export interface IMachineFacts {
  readonly chips: number;
  /** `4 × 31.25 GiB`; null where the chip is unknown. */
  readonly hbm: string | null;
  /** Processes that hold the chips; JAX does not start beside them. */
  readonly holders: readonly Holder[];
}

/** Null where the remote's gateway does not report it. */
export async function machineFacts(api: RemotesApi, name: string): Promise<IMachineFacts | null> {
  const at = `machines/${encodeURIComponent(name)}/bridge/v1/devices`;
  const page = as(DevicesPage, await api.request<unknown>('GET', at));
  if (page === null) return null;
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

/** Data of another machine is validated before it is drawn. */
function as<T>(schema: { readonly static: T }, value: unknown): T | null {
  // The compiler sees TypeBox's types twice, as in `events/parse-frame.ts`.
  return Value.Check(schema as unknown as TSchema, value) ? (value as T) : null;
}
