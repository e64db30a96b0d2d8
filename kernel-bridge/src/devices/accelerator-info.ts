/** The accelerator, as described by the environment and the cloud's metadata server. Either may be missing. */
import type { AcceleratorInfo } from '@tpulab/protocol';
import { deadline } from '@tpulab/platform/waiting.js';

type Env = Readonly<Record<string, string | undefined>>;

/** The metadata server is one hop away; if it does not exist, no caller should wait long. */
const METADATA_MS = 1_000;
const MAX_BYTES = 64 * 1024;

export interface MetadataOptions {
  /** With a scheme, without a trailing slash. */
  readonly url?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** The user's variables override the cloud. The metadata server is queried only if a field is still unknown. */
export async function acceleratorInfo(env: Env, options: MetadataOptions = {}): Promise<AcceleratorInfo> {
  const fromEnv = {
    type: env['TPU_ACCELERATOR_TYPE'] ?? null,
    workerId: env['TPU_WORKER_ID'] ?? env['CLOUD_TPU_TASK_ID'] ?? null,
    processBounds: env['TPU_PROCESS_BOUNDS'] ?? env['TPU_HOST_BOUNDS'] ?? null,
    chipsPerProcessBounds: env['TPU_CHIPS_PER_PROCESS_BOUNDS'] ?? env['TPU_CHIPS_PER_HOST_BOUNDS'] ?? null
  };
  if (
    /^(1|true)$/i.test(env['TPU_SKIP_MDS_QUERY'] ?? '') ||
    Object.values(fromEnv).every(value => value !== null)
  )
    return fromEnv;
  const fromCloud = await tpuEnv({ url: metadataUrl(env), ...options });
  return {
    type: fromEnv.type ?? fromCloud.get('ACCELERATOR_TYPE') ?? null,
    workerId: fromEnv.workerId ?? fromCloud.get('WORKER_ID') ?? null,
    processBounds:
      fromEnv.processBounds ?? fromCloud.get('TPU_PROCESS_BOUNDS') ?? fromCloud.get('HOST_BOUNDS') ?? null,
    chipsPerProcessBounds:
      fromEnv.chipsPerProcessBounds ??
      fromCloud.get('TPU_CHIPS_PER_PROCESS_BOUNDS') ??
      fromCloud.get('CHIPS_PER_HOST_BOUNDS') ??
      null
  };
}

/** With a scheme, without a trailing slash. Google's own libraries use the same variables. */
export function metadataUrl(env: Env): string {
  return `http://${env['GCE_METADATA_IP'] ?? env['GCE_METADATA_HOST'] ?? 'metadata.google.internal'}`;
}

/** `tpu-env` is a list of `KEY: 'value'` lines. Any failure counts as an empty list. */
async function tpuEnv({
  url = '',
  timeoutMs = METADATA_MS,
  signal
}: MetadataOptions): Promise<Map<string, string>> {
  using within = deadline(timeoutMs, signal);
  try {
    const response = await fetch(`${url}/computeMetadata/v1/instance/attributes/tpu-env`, {
      headers: { 'Metadata-Flavor': 'Google' },
      redirect: 'error',
      signal: within.signal
    });
    // A captive portal would answer too, but without this header.
    if (!response.ok || response.headers.get('metadata-flavor') !== 'Google') {
      await response.body?.cancel();
      return new Map();
    }
    return keysOf(await response.text());
  } catch {
    return new Map();
  }
}

function keysOf(text: string): Map<string, string> {
  const keys = new Map<string, string>();
  for (const line of text.slice(0, MAX_BYTES).split('\n')) {
    const [, key, quoted, plain] = /^([A-Z][A-Z0-9_]*):\s*(?:['"](.*)['"]|(.*?))\s*$/.exec(line) ?? [];
    const value = quoted ?? plain;
    if (key !== undefined && value !== undefined && value !== '') keys.set(key, value);
  }
  return keys;
}
