/** What kind of TPU a remote has, as its gateway tells. */
import { DevicesPage, type Remote } from '@tpulab/protocol';
import { Value } from '@sinclair/typebox/value';
import { askGateway } from './forward/ask-gateway.js';

export async function acceleratorOf(
  socketPath: string,
  token: string,
  signal: AbortSignal
): Promise<Remote['accelerator']> {
  const { status, body } = await askGateway({ socketPath, token, path: '/bridge/v1/devices', signal });
  if (status !== 200 || !Value.Check(DevicesPage, body)) return null;
  return {
    type: body.accelerator.type,
    chip: body.chips[0]?.name ?? null,
    chips: body.chips.length
  };
}
