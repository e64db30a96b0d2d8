/** Bodies of our own REST API under `/bridge/v1`. Jupyter's own routes are described in Jupyter's `api.yaml`. */
import { type Static, Type } from '@sinclair/typebox';
import { RemoteNotice } from './remotes.js';

/** Version of the `/bridge/v1` API and of the telemetry messages. A breaking change raises it. */
export const PROTOCOL_VERSION = 1;

/** `GET /bridge/v1/health` */
export const Health = Type.Object({
  status: Type.Union([Type.Literal('ok'), Type.Literal('starting')]),
  version: Type.String(),
  protocolVersion: Type.Integer(),
  gatewayId: Type.String({ description: 'changes when the gateway process changes' }),
  pid: Type.Integer(),
  startedAt: Type.String({ format: 'date-time' }),
  kernels: Type.Integer({ minimum: 0 }),
  access: Type.Optional(
    Type.Union([Type.Literal('full'), Type.Literal('read')], {
      description: 'read: this token may read one notebook and its kernel, and change nothing'
    })
  ),
  notice: Type.Optional(
    Type.Union([RemoteNotice, Type.Null()], {
      description: 'preemption or maintenance that the cloud has announced for this machine'
    })
  )
});
export type Health = Static<typeof Health>;

/** `GET /bridge/v1/identity?challenge=HEX`: answered without a token, so that no client sends one to a foreign program. */
export const GatewayIdentity = Type.Object({
  proof: Type.String({ description: 'HMAC-SHA256 of the challenge under the gateway’s `proofKey`, in hex' })
});
export type GatewayIdentity = Static<typeof GatewayIdentity>;

/** Answer of the Jupyter server extension, `GET <base>/tpulab/bridge`: where a page finds the bridge. */
export const BridgeAddress = Type.Object({
  status: Type.Union([Type.Literal('ready'), Type.Literal('starting'), Type.Literal('failed')]),
  url: Type.Union([Type.String(), Type.Null()], { description: 'base URL with a trailing slash' }),
  token: Type.Union([Type.String(), Type.Null()]),
  proofKey: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description: 'with it the page sees that it speaks to this bridge (`GET /bridge/v1/identity`)'
    })
  ),
  message: Type.Union([Type.String(), Type.Null()], { description: 'what failed and what to do' }),
  proxy: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description:
        'path below the address of the Jupyter server at which it passes requests on to the bridge; pages on another machine get no url and no token'
    })
  )
});
export type BridgeAddress = Static<typeof BridgeAddress>;

/** Any error answer of the bridge: Jupyter's own shape plus a stable code. */
export const ErrorBody = Type.Object({
  message: Type.String(),
  reason: Type.Union([Type.String(), Type.Null()]),
  code: Type.String({ description: 'stable code, listed in docs/error-codes.md' })
});
export type ErrorBody = Static<typeof ErrorBody>;

/** The line that `tpulab serve` prints on stdout when it is ready. */
export const ServeReady = Type.Object({ url: Type.String(), pid: Type.Integer() });
export type ServeReady = Static<typeof ServeReady>;

/** Answer of `POST /bridge/v1/examples` and of `tpulab examples FOLDER --json`. */
export const LessonsCopied = Type.Object({
  folder: Type.String({
    description: 'relative to the root folder of the gateway; of the command: absolute'
  }),
  copied: Type.Array(Type.String(), { description: 'names of notebooks' }),
  kept: Type.Array(Type.String(), { description: 'those that were there already, and are as they were' })
});
export type LessonsCopied = Static<typeof LessonsCopied>;
