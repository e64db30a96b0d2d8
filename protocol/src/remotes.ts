/**
 * Remotes: machines that this gateway reaches over ssh, whose own gateways it passes on under `/remotes/NAME/…`.
 *
 * `GET`, `POST /bridge/v1/remotes`, `GET`, `DELETE /bridge/v1/remotes/NAME`, `POST …/NAME/{connect,disconnect,answer,clean}`,
 * `GET …/NAME/log`, `GET …/candidates`, and events of topic `remotes`. A remote is a list of OpenSSH hosts with a name; the first one runs the gateway.
 */
import { type Static, Type } from '@sinclair/typebox';

const Text = Type.Union([Type.String(), Type.Null()]);
const UnixMs = Type.Union([Type.Number({ minimum: 0 }), Type.Null()], {
  description: 'Unix time in milliseconds'
});

/** Safe in a path, in a kernelspec name and in a file name. */
export const RemoteName = Type.String({ pattern: '^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$' });

export const SshSource = Type.Object(
  {
    kind: Type.Literal('ssh'),
    destination: Type.String({
      minLength: 1,
      maxLength: 512,
      description: "host or alias of the user's ssh config, `user@host`, or `ssh://user@host:port`"
    })
  },
  { additionalProperties: false }
);

export const GcloudSource = Type.Object(
  {
    kind: Type.Literal('gcloud'),
    product: Type.Union([
      Type.Literal('tpu-vm'),
      Type.Literal('queued-resource'),
      Type.Literal('instance'),
      Type.Literal('instance-group')
    ]),
    name: Type.String({ minLength: 1, maxLength: 256 }),
    zone: Type.String({ minLength: 1, maxLength: 64 }),
    project: Type.Optional(Type.String({ minLength: 1, maxLength: 256, description: "else gcloud's own" })),
    internalIp: Type.Optional(Type.Boolean()),
    tunnelThroughIap: Type.Optional(Type.Boolean())
  },
  { additionalProperties: false }
);

export const RemoteSource = Type.Union([SshSource, GcloudSource]);
export type RemoteSource = Static<typeof RemoteSource>;

/**
 * `disconnected`: not wanted now. `connecting`: ssh, then checks. `setting-up`: something is being installed there.
 * `connected`: its gateway answers. `reconnecting`: it was connected; the next attempt is at `nextAttemptAt`.
 * `waiting`: for an answer of the person (`prompt`). `failed`: the person must act (`error` says how); no attempt is due.
 * `preempted`: the machine has been taken back.
 */
export const RemoteState = Type.Union([
  Type.Literal('disconnected'),
  Type.Literal('connecting'),
  Type.Literal('setting-up'),
  Type.Literal('connected'),
  Type.Literal('reconnecting'),
  Type.Literal('waiting'),
  Type.Literal('failed'),
  Type.Literal('preempted')
]);
export type RemoteState = Static<typeof RemoteState>;

/** One stage of connecting or setting up, in the order in which they ran. */
export const RemoteStage = Type.Object({
  name: Type.String({
    description: 'stable: `ssh`, `check`, `node`, `bridge`, `uv`, `agent`, `environment`, …'
  }),
  title: Type.String({ description: 'for people: "Python environment jax"' }),
  state: Type.Union([
    Type.Literal('running'),
    Type.Literal('done'),
    Type.Literal('skipped'),
    Type.Literal('failed')
  ]),
  detail: Text,
  fraction: Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Null()])
});
export type RemoteStage = Static<typeof RemoteStage>;

/** What a check of the machine found; `remedy` says what to do when it is not `ok`. */
export const RemoteCheck = Type.Object({
  name: Type.String(),
  state: Type.Union([Type.Literal('ok'), Type.Literal('warning'), Type.Literal('failed')]),
  message: Type.String(),
  remedy: Text
});
export type RemoteCheck = Static<typeof RemoteCheck>;

/** A question of ssh: a passphrase, a password, or whether an unknown host key is right. */
export const RemotePrompt = Type.Object({
  id: Type.String(),
  kind: Type.Union([Type.Literal('secret'), Type.Literal('confirm')]),
  text: Type.String({ description: 'as ssh asks it' }),
  host: Type.String()
});
export type RemotePrompt = Static<typeof RemotePrompt>;

/** Preemption or maintenance that the cloud has announced. */
export const RemoteNotice = Type.Object({
  kind: Type.Union([Type.Literal('preemption'), Type.Literal('maintenance')]),
  since: UnixMs,
  deadline: UnixMs,
  message: Type.String()
});
export type RemoteNotice = Static<typeof RemoteNotice>;

export const RemoteError = Type.Object({
  code: Type.String({ description: 'stable code, listed in docs/errors.md' }),
  message: Type.String({ description: 'what failed and what to do' }),
  command: Type.Union([Type.String(), Type.Null()], {
    description: 'a command to run in a terminal that settles it'
  })
});
export type RemoteError = Static<typeof RemoteError>;

export const Remote = Type.Object({
  name: RemoteName,
  source: RemoteSource,
  hosts: Type.Array(Type.String(), { description: 'as ssh knows them; empty until they were asked for' }),
  environment: Type.String({ description: 'the environment that is set up there: `jax`' }),
  install: Type.Boolean({ description: 'false: nothing is put there, what is installed is used' }),
  state: RemoteState,
  stages: Type.Array(RemoteStage, { description: 'of the present or the last attempt' }),
  checks: Type.Array(RemoteCheck),
  error: Type.Union([RemoteError, Type.Null()]),
  prompt: Type.Union([RemotePrompt, Type.Null()]),
  notice: Type.Union([RemoteNotice, Type.Null()]),
  nextAttemptAt: UnixMs,
  connectedAt: UnixMs,
  roundTripMs: Type.Union([Type.Number({ minimum: 0 }), Type.Null()]),
  accelerator: Type.Union(
    [
      Type.Object({
        type: Text,
        chip: Text,
        chips: Type.Integer({ minimum: 0 })
      }),
      Type.Null()
    ],
    { description: '`v5litepod-8`, `v5e`, 8; null while unknown' }
  ),
  gatewayId: Type.Union([Type.String(), Type.Null()], { description: 'of its gateway' }),
  mirror: Type.Object({
    kernels: Type.Integer({ minimum: 0 }),
    bytes: Type.Number({ minimum: 0 }),
    behindBytes: Type.Number({ minimum: 0, description: 'journaled there, not here yet' })
  })
});
export type Remote = Static<typeof Remote>;

export const RemoteList = Type.Object({ remotes: Type.Array(Remote) });
export type RemoteList = Static<typeof RemoteList>;

/** `POST /bridge/v1/remotes` */
export const AddRemote = Type.Object(
  {
    name: Type.Optional(RemoteName),
    source: RemoteSource,
    environment: Type.Optional(Type.String()),
    install: Type.Optional(
      Type.Boolean({
        description: 'false: use the `tpulab` that is on its PATH and put nothing there; else true'
      })
    ),
    connect: Type.Optional(Type.Boolean({ description: 'at once; the default' }))
  },
  { additionalProperties: false }
);
export type AddRemote = Static<typeof AddRemote>;

/** How ssh gets to a machine of Google Cloud: by its external address, its internal one, or through Identity-Aware Proxy. */
export const CloudReach = Type.Union([
  Type.Literal('external'),
  Type.Literal('internal'),
  Type.Literal('iap')
]);
export type CloudReach = Static<typeof CloudReach>;

/** `POST /bridge/v1/remotes/NAME/connect`; what is left out stays as it is. */
export const ConnectRemote = Type.Object(
  {
    environment: Type.Optional(Type.String({ description: 'to have there from now on' })),
    install: Type.Optional(Type.Boolean({ description: 'as in `AddRemote`, from now on' })),
    reach: Type.Optional(CloudReach),
    takeOver: Type.Optional(
      Type.Boolean({ description: 'a gateway of another build that runs there ends for ours; this once' })
    )
  },
  { additionalProperties: false }
);
export type ConnectRemote = Static<typeof ConnectRemote>;

/** `POST /bridge/v1/remotes/NAME/answer` */
export const AnswerPrompt = Type.Object(
  { id: Type.String(), value: Type.Union([Type.String({ maxLength: 4096 }), Type.Boolean()]) },
  { additionalProperties: false }
);
export type AnswerPrompt = Static<typeof AnswerPrompt>;

export const RemoteLogLine = Type.Object({
  at: Type.Number({ minimum: 0, description: 'Unix time in milliseconds' }),
  text: Type.String()
});
export type RemoteLogLine = Static<typeof RemoteLogLine>;

/** `GET /bridge/v1/remotes/NAME/log`: the last lines, oldest first. */
export const RemoteLogPage = Type.Object({ lines: Type.Array(RemoteLogLine) });
export type RemoteLogPage = Static<typeof RemoteLogPage>;

/** Of `GET /bridge/v1/remotes/candidates`. */
export const CandidatesQuery = Type.Object({
  project: Type.Optional(
    Type.String({
      // A word that begins with a dash would be an option of gcloud.
      pattern: '^[\\w.:][\\w.:-]*$',
      maxLength: 256,
      description: "project of Google Cloud; else gcloud's own"
    })
  )
});
export type CandidatesQuery = Static<typeof CandidatesQuery>;

/** `GET /bridge/v1/remotes/candidates`: what a person may want to connect to. */
export const RemoteCandidates = Type.Object({
  sshHosts: Type.Array(Type.String(), { description: "aliases of the user's ssh config, without patterns" }),
  gcloud: Type.Object({
    state: Type.Union([Type.Literal('ok'), Type.Literal('missing'), Type.Literal('failed')]),
    message: Text,
    remedy: Text,
    project: Text,
    machines: Type.Array(
      Type.Object({
        source: GcloudSource,
        acceleratorType: Text,
        state: Type.String({ description: "the cloud's own word: READY, RUNNING, PREEMPTED" })
      })
    )
  })
});
export type RemoteCandidates = Static<typeof RemoteCandidates>;

/** A remote has changed (topic remotes); sent for each one at subscription. */
export const RemoteEvent = Type.Object({
  topic: Type.Literal('remotes'),
  remote: Remote,
  removed: Type.Boolean()
});
export type RemoteEvent = Static<typeof RemoteEvent>;
