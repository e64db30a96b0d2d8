/**
 * One request to a bridge and its answer: the address at that time, the token, a time limit, and one error for a missing
 * answer. The callers interpret status and body, and word their messages.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';

export interface BridgeQuestion {
  /** How the bridge is reached now; null while unknown. */
  readonly settings: ServerConnection.ISettings | null;
  /** Path below the bridge's address; may have a query. */
  readonly route: string;
  /** `GET` when it is left out. */
  readonly method?: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Limit for the whole answer, with its body. */
  readonly timeoutMs: number;
  /** Each of these signals ends the wait too. */
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
 * `noAddress`: no request was sent. `noAnswer`: no server answered, or the caller gave up. `timeout`: it took too long.
 * `cutOff`: the answer broke off. Only after `noAddress` is it certain that the bridge did not carry out the request.
 */
type NoAnswerCode = 'request.noAddress' | 'request.noAnswer' | 'request.timeout' | 'request.cutOff';

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
 * An answer with any status. The body of a refusal that breaks off counts as empty: its status is sufficient.
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
    if (response && !response.ok) return { response, text: '', body: undefined };
    const code = timeout.aborted ? 'request.timeout' : response ? 'request.cutOff' : 'request.noAnswer';
    throw new NoAnswer(code, cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/** The validated body; null when it has another form. */
export function bodyAs<T>(schema: { readonly static: T }, { body }: BridgeAnswer): T | null {
  // The compiler sees TypeBox's types twice, as in `events/parse-frame.ts`.
  return Value.Check(schema as unknown as TSchema, body) ? (body as T) : null;
}

/** The bridge's reason for a refusal; null when it gave none. */
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
