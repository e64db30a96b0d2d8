/** Runs in the frame of a Vega or Vega-Lite chart. */
import embed from 'vega-embed';
import type { FrameContent, FromFrame } from './messages.js';

const scope = globalThis as typeof globalThis & {
  tpulabFrame?: { readonly content: FrameContent; readonly port: MessagePort };
};
const received = scope.tpulabFrame;
delete scope.tpulabFrame;

if (received !== undefined) {
  const { spec, options } = received.content.data as {
    readonly spec: never;
    readonly options: object;
  };
  embed('#chart', spec, options).catch((error: unknown) =>
    received.port.postMessage({ kind: 'failed', message: String(error) } satisfies FromFrame)
  );
}
