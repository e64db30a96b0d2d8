/**
 * One question to a bridge and its answer: the address as it is then, the token, a time limit, and one error for an answer that
 * does not come. What a status or a body means, and in what words it is told, is for those who ask.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';

export interface BridgeQuestion {
  /** How the bridge is reached now; null while that is not known. */
  readonly settings: ServerConnection.ISettings | null;
  /** Below the bridge's address; may have a query. */
  readonly route: string;
  /** `GET` when it is left out. */
  readonly method?: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** For the whole answer, with its body. */
  readonly timeoutMs: number;
  /** Each of them ends the waiting too. */
  readonly signals?: readonly (AbortSignal | undefined)[];
}

export interface BridgeAnswer {
  /** Its body has been read. */
  readonly response: Response;
  readonly text: string;
  /** Undefined where the text is not JSON. */
  readonly body: unknown;
}

/**
 * `noAddress`: nobody was asked. `noAnswer`: nobody answered, or nobody wanted the answer any more. `timeout`: it took too long.
 * `cutOff`: an answer came and broke off. Whether the bridge did what it was asked is known only for the first.
 */
export type NoAnswerCode = 'request.noAddress' | 'request.noAnswer' | 'request.timeout' | 'request.cutOff';

export class NoAnswer extends Error {
  constructor(
    readonly code: NoAnswerCode,
    message: string,
    options?: ErrorOptions
  ) {
    super(message, options);
    this.name = 'NoAnswer';
  }
}

/**
 * An answer with any status. The body of a refusal that breaks off counts as none: its status says enough.
 *
 * @throws NoAnswer
 */
export async function requestBridge(question: BridgeQuestion): Promise<BridgeAnswer> {
  const { settings, route, method = 'GET', body, timeoutMs, signals = [] } = question;
  if (settings === null) {
    throw new NoAnswer('request.noAddress', 'The address of the TPULab server is not known yet.');
  }
  const timeout = AbortSignal.timeout(timeoutMs);
  const init: RequestInit = {
    method,
    signal: AbortSignal.any([timeout, ...signals.filter(signal => signal !== undefined)]),
    ...(body !== undefined && {
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json' }
    })
  };
  let response: Response | undefined;
  try {
    response = await ServerConnection.makeRequest(URLExt.join(settings.baseUrl, route), init, settings);
    const text = await response.text();
    return { response, text, body: asJson(text) };
  } catch (cause) {
    if (response && !response.ok) {
      return { response, text: '', body: undefined };
    }
    const code = timeout.aborted ? 'request.timeout' : response ? 'request.cutOff' : 'request.noAnswer';
    throw new NoAnswer(code, cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/** The body as this page knows it; null when it is another. */
export function bodyAs<T>(schema: { readonly static: T }, { body }: BridgeAnswer): T | null {
  // TypeBox's types are seen twice, as in `events/parse-frame.ts`.
  return Value.Check(schema as unknown as TSchema, body) ? (body as T) : null;
}

/** What the bridge said of a refusal; null when it said nothing. */
export function messageOf({ body }: BridgeAnswer): string | null {
  const reason = (body as { message?: unknown } | null | undefined)?.message;
  return typeof reason === 'string' && reason !== '' ? reason : null;
}

function asJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
