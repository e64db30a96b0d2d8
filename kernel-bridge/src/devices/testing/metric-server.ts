/** For specs: a metric server that uses the real protocol on a free port, with figures from the spec. */
import { type sendUnaryData, Server, ServerCredentials, type ServerUnaryCall, status } from '@grpc/grpc-js';
import {
  metricService,
  type MetricRequest,
  type MetricResponse,
  type WireMetric
} from '../metric-service.js';

export class MetricServer implements AsyncDisposable {
  /** The answer for each metric name. */
  readonly metrics = new Map<string, readonly WireMetric[]>();
  readonly requests: MetricRequest[] = [];
  /** While set, requests get no answer. */
  isStuck = false;
  /** While set, requests fail with this error. */
  refusal: { readonly code: number; readonly details: string } | null = null;

  private constructor(
    readonly port: number,
    readonly server: Server
  ) {}

  static async start(port: number): Promise<MetricServer> {
    const server = new Server();
    let self: MetricServer | null = null;
    server.addService(metricService(), {
      GetRuntimeMetric: (
        call: ServerUnaryCall<MetricRequest, MetricResponse>,
        answer: sendUnaryData<MetricResponse>
      ) => self?.answer(call.request, answer),
      ListSupportedMetrics: (
        call: ServerUnaryCall<{ filter: string }, object>,
        answer: sendUnaryData<object>
      ) => answer(null, { supported_metric: self?.names(call.request.filter) ?? [] })
    });
    const bound = await new Promise<number>((resolve, reject) => {
      server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, found) =>
        error ? reject(error) : resolve(found)
      );
    });
    self = new MetricServer(bound, server);
    return self;
  }

  names(filter: string): { metric_name: string }[] {
    const pattern = new RegExp(filter);
    return [...this.metrics.keys()].filter(name => pattern.test(name)).map(name => ({ metric_name: name }));
  }

  answer(request: MetricRequest, answer: sendUnaryData<MetricResponse>): void {
    this.requests.push(request);
    if (this.isStuck) return;
    if (this.refusal) {
      answer(this.refusal);
      return;
    }
    const metrics = this.metrics.get(request.metric_name);
    if (metrics) answer(null, { metric: { name: request.metric_name, metrics } });
    else answer({ code: status.NOT_FOUND, details: `no metric ${request.metric_name}` });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.server.forceShutdown();
    await Promise.resolve();
  }
}
