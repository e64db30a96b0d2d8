// @ts-check
/** Replaces a runtime that uses the chips: serves libtpu's metrics of some devices on a free port, which it prints. */
import { Server, ServerCredentials, status } from '@grpc/grpc-js';
import { metricService } from '../../kernel-bridge/lib/devices/metric-service.js';

const devices = Number(process.argv[2] ?? 8);
const GIB = 2 ** 30;
/** @type {Record<string, (device: number) => { as_int?: number, as_double?: number }>} */
const METRICS = {
  'tpu.runtime.hbm.memory.usage.bytes': device => ({ as_int: (8 + (device % 4)) * GIB }),
  'tpu.runtime.hbm.memory.total.bytes': () => ({ as_int: 16 * GIB }),
  'tpu.runtime.tensorcore.dutycycle.percent': device => ({ as_double: 80 + (device % 16) }),
  'tpu.runtime.hbm.utilization.percent': device => ({ as_double: 30 + (device % 32) }),
  'tpu.runtime.tensorcore.idle_duration.seconds': () => ({ as_double: 0 }),
  'hlo.queue.size.gauge': () => ({ as_int: 1 })
};

const server = new Server();
server.addService(metricService(), {
  GetRuntimeMetric: (/** @type {any} */ call, /** @type {any} */ answer) => {
    const gauge = METRICS[call.request.metric_name];
    if (!gauge) {
      answer({ code: status.NOT_FOUND, details: 'no such metric' });
      return;
    }
    const metrics = Array.from({ length: devices }, (_, device) => ({
      attribute: { key: 'device-id', value: { int_attr: device } },
      gauge: gauge(device)
    }));
    answer(null, { metric: { name: call.request.metric_name, metrics } });
  },
  ListSupportedMetrics: (/** @type {any} */ _, /** @type {any} */ answer) =>
    answer(null, { supported_metric: Object.keys(METRICS).map(metric_name => ({ metric_name })) })
});
server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  // A string: where colours are forced, as by Playwright, a number would be printed in colour.
  console.log(String(port));
});
