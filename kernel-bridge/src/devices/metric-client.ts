/** One metric server: a persistent connection to one port, and what it answers. */
import { Client, credentials, type MethodDefinition, type ServiceError, status } from '@grpc/grpc-js';
import { type MetricPoint, pointsOf } from './metric-points.js';
import { type ListRequest, type ListResponse, metricService, type MetricRequest } from './metric-service.js';

export type MetricAnswer =
  | { readonly state: 'ok'; readonly points: readonly MetricPoint[] }
  /** Nobody serves the port: no process holds the chips. */
  | { readonly state: 'absent' }
  /** This runtime has no such metric. */
  | { readonly state: 'unknown' }
  | { readonly state: 'failed'; readonly reason: string };

/** It is on this machine; one that takes longer is stuck, and the next sample comes soon. */
export const ANSWER_MS = 1_000;
/** Far more than thousands of devices need. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;

export interface MetricClientOptions {
  readonly port: number;
  readonly answerMs?: number;
  /** Ask this process alone, not for its whole host: when every process has a port that we know. */
  readonly alone?: boolean;
}

export class MetricClient implements Disposable {
  readonly port: number;
  readonly #client: Client;
  readonly #answerMs: number;
  readonly #alone: boolean;

  constructor({ port, answerMs = ANSWER_MS, alone = false }: MetricClientOptions) {
    this.port = port;
    this.#answerMs = answerMs;
    this.#alone = alone;
    this.#client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      // The variables for proxies speak of the network, not of this machine.
      'grpc.enable_http_proxy': 0,
      'grpc.initial_reconnect_backoff_ms': 500,
      'grpc.max_reconnect_backoff_ms': 5_000,
      'grpc.max_receive_message_length': MAX_ANSWER_BYTES
    });
  }

  async metric(name: string): Promise<MetricAnswer> {
    const request: MetricRequest = { metric_name: name, skip_node_aggregation: this.#alone };
    const answer = await this.#ask('GetRuntimeMetric', request);
    return answer.state === 'ok' ? { state: 'ok', points: pointsOf(answer.value) } : answer;
  }

  /** Names of the metrics that this runtime has; null when it does not say. */
  async supported(filter = ''): Promise<ReadonlySet<string> | null> {
    const answer = await this.#ask('ListSupportedMetrics', { filter });
    if (answer.state !== 'ok') return null;
    const { supported_metric } = answer.value as ListResponse;
    return new Set((supported_metric ?? []).flatMap(({ metric_name }) => metric_name ?? []));
  }

  /** What comes out of the decoder has the shape that our description gives it. */
  #ask(
    method: string,
    request: MetricRequest | ListRequest
  ): Promise<Exclude<MetricAnswer, { state: 'ok' }> | { state: 'ok'; value: object }> {
    const definition = metricService()[method] as MethodDefinition<object, object>;
    return new Promise(resolve => {
      this.#client.makeUnaryRequest(
        definition.path,
        definition.requestSerialize,
        definition.responseDeserialize,
        request,
        { deadline: Date.now() + this.#answerMs },
        (error, value) => {
          if (error) resolve(failureOf(error));
          else if (value === undefined) resolve({ state: 'failed', reason: 'the answer was empty' });
          else resolve({ state: 'ok', value });
        }
      );
    });
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}

function failureOf({ code, details }: ServiceError): Exclude<MetricAnswer, { state: 'ok' }> {
  if (code === status.UNAVAILABLE) return { state: 'absent' };
  if (code === status.NOT_FOUND || code === status.UNIMPLEMENTED) return { state: 'unknown' };
  if (code === status.DEADLINE_EXCEEDED) return { state: 'failed', reason: 'it does not answer in time' };
  return { state: 'failed', reason: details || `gRPC status ${code}` };
}
