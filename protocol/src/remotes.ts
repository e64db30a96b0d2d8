/**
 * Remotes: machines that this gateway reaches over ssh; it forwards their own gateways under `/machines/NAME/…`.
 *
 * `GET`, `POST /bridge/v1/machines`, `GET`, `DELETE /bridge/v1/machines/NAME`, `POST …/NAME/{connect,disconnect,answer,clean}`,
 * `GET …/NAME/log`, `GET …/candidates`, and events of topic `remotes`. A remote is a named list of ssh hosts; the first runs its
 * gateway.
 */
import { type Static, Type } from '@sinclair/typebox';
import { Transfer } from './transfer.js';

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

export const ColabAccelerator = Type.Union([Type.Literal('v5e1'), Type.Literal('v6e1')]);
export type ColabAccelerator = Static<typeof ColabAccelerator>;

/** A Google Colab runtime, created through Google's own `colab` command once a user has agreed. */
export const ColabSource = Type.Object(
  { kind: Type.Literal('colab'), accelerator: ColabAccelerator },
  { additionalProperties: false }
);

export const RemoteSource = Type.Union([SshSource, GcloudSource, ColabSource]);
export type RemoteSource = Static<typeof RemoteSource>;

/**
 * `disconnected`: not requested now. `connecting`: ssh, then checks. `setting-up`: something is being installed on the machine.
 * `connected`: its gateway answers. `reconnecting`: it was connected; the next attempt is at `nextAttemptAt`.
 * `queued`: the cloud has not provided the machine yet (`queue`); it is connected as soon as it is ready.
 * `waiting`: for an answer of the user (`prompt`). `failed`: the user must act (`error` states how); no attempt is scheduled.
 * `preempted`: the machine was preempted.
 */
export const RemoteState = Type.Union([
  Type.Literal('disconnected'),
  Type.Literal('connecting'),
  Type.Literal('setting-up'),
  Type.Literal('connected'),
  Type.Literal('reconnecting'),
  Type.Literal('queued'),
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
  fraction: Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Null()]),
  durationMs: Type.Optional(Type.Number({ minimum: 0, description: 'how long it took, once it has ended' })),
  transfer: Type.Optional(
    Type.Union([Transfer, Type.Null()], { description: 'while something is downloaded or sent' })
  )
});
export type RemoteStage = Static<typeof RemoteStage>;

/** How ssh reaches a Google Cloud machine: by its external address, its internal one, or through Identity-Aware Proxy. */
export const CloudReach = Type.Union([
  Type.Literal('external'),
  Type.Literal('internal'),
  Type.Literal('iap')
]);
export type CloudReach = Static<typeof CloudReach>;

/** `POST /bridge/v1/machines/NAME/connect`; omitted fields are unchanged. */
export const ConnectRemote = Type.Object(
  {
    environment: Type.Optional(Type.String({ description: 'to have there from now on' })),
    install: Type.Optional(Type.Boolean({ description: 'as in `AddRemote`, from now on' })),
    reach: Type.Optional(CloudReach),
    hostOnly: Type.Optional(
      Type.Boolean({ description: 'of a slice: kernels use the chips of their own host alone, from now on' })
    ),
    takeOver: Type.Optional(
      Type.Boolean({ description: 'a gateway of another build that runs there ends for ours; this once' })
    ),
    addKey: Type.Optional(
      Type.Boolean({
        description: "gcloud first adds the person's ssh key to the machine of Google Cloud; this once"
      })
    )
  },
  { additionalProperties: false }
);
export type ConnectRemote = Static<typeof ConnectRemote>;

/** A remedy that the gateway can apply: a front end shows `label` on a button and sends `connect` to `POST …/NAME/connect`. */
export const RemoteAction = Type.Object({
  label: Type.String({ description: 'a verb and its object: "Connect through IAP"' }),
  connect: ConnectRemote
});
export type RemoteAction = Static<typeof RemoteAction>;

const Action = Type.Optional(Type.Union([RemoteAction, Type.Null()]));

/** Result of a check of the machine; `remedy` describes what to do when it is not `ok`, and `action` does it. */
export const RemoteCheck = Type.Object({
  name: Type.String(),
  state: Type.Union([Type.Literal('ok'), Type.Literal('warning'), Type.Literal('failed')]),
  message: Type.String(),
  remedy: Text,
  action: Action
});
export type RemoteCheck = Static<typeof RemoteCheck>;

/** The key of a host, when ssh asks whether it is the right one. */
export const HostKeyQuestion = Type.Object({
  type: Type.String({ description: '`ED25519`' }),
  fingerprint: Type.String({ description: '`SHA256:…`' }),
  address: Type.Union([Type.String(), Type.Null()], { description: 'that ssh reached, where it says so' }),
  command: Type.Union([Type.String(), Type.Null()], {
    description:
      'shows the fingerprint when it is typed on that host; null for a type of key without a usual place'
  })
});
export type HostKeyQuestion = Static<typeof HostKeyQuestion>;

/** A value for the user's decision. */
export const ConsentFigure = Type.Object({
  name: Type.String({ description: 'stable: `balance`, `rate`, `hours-left`, `runtimes`' }),
  label: Type.String({ description: 'for people: "Compute units left"' }),
  value: Type.Union([Type.Number(), Type.Null()], { description: 'null: unknown' }),
  unit: Type.String({ description: '`compute units`, `compute units/h`, `h`; empty for a count' })
});
export type ConsentFigure = Static<typeof ConsentFigure>;

/** An action that costs money or binds the user, and is done only with consent. */
export const RemoteConsent = Type.Object({
  title: Type.String({ description: 'what is about to be done: "Create a Colab runtime with a TPU v5e"' }),
  terms: Type.Array(Type.String(), { description: 'paragraphs, the most important first' }),
  figures: Type.Array(ConsentFigure),
  accept: Type.String({ description: 'label of the button that agrees, a verb: "Create runtime"' }),
  source: Type.Union([Type.String(), Type.Null()], { description: 'address of the terms' })
});
export type RemoteConsent = Static<typeof RemoteConsent>;

/**
 * A question that must be answered before connecting continues. `secret`: a passphrase or password of ssh. `confirm`:
 * whether an unknown host key is right. `consent`: whether an action that costs money or binds the user may be done;
 * answered with true or false.
 */
export const RemotePrompt = Type.Object({
  id: Type.String(),
  kind: Type.Union([Type.Literal('secret'), Type.Literal('confirm'), Type.Literal('consent')]),
  text: Type.String({ description: 'as ssh asks it; of a consent, all of it as plain text' }),
  host: Type.String(),
  consent: Type.Optional(RemoteConsent),
  hostKey: Type.Optional(HostKeyQuestion)
});
export type RemotePrompt = Static<typeof RemotePrompt>;

/** `GET /bridge/v1/machines/NAME/ssh`: how programs of this user on this machine reach the remote over the open connection. */
export const RemoteSsh = Type.Object({
  program: Type.String({ description: 'OpenSSH: its name or its path' }),
  controlPath: Type.String({ description: 'socket of the connection that stands' }),
  destination: Type.String({ description: 'what ssh is given' }),
  options: Type.Array(Type.String(), { description: 'and with it: `-i`, `-o`, …' })
});
export type RemoteSsh = Static<typeof RemoteSsh>;

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
  }),
  action: Type.Optional(
    Type.Union([RemoteAction, Type.Null()], {
      description:
        'the same remedy, carried out by the gateway; where there is one it is offered before `command`'
    })
  )
});
export type RemoteError = Static<typeof RemoteError>;

/** A machine that the cloud has promised but not provided yet. */
export const RemoteQueue = Type.Object({
  state: Type.String({ description: "the cloud's own word: WAITING_FOR_RESOURCES, CREATING" }),
  since: UnixMs
});
export type RemoteQueue = Static<typeof RemoteQueue>;

export const Remote = Type.Object({
  name: RemoteName,
  source: RemoteSource,
  hosts: Type.Array(Type.String(), { description: 'as ssh knows them; empty until they were asked for' }),
  environment: Type.String({ description: 'the environment that is set up there: `jax`' }),
  install: Type.Boolean({ description: 'false: nothing is put there, what is installed is used' }),
  hostOnly: Type.Optional(Type.Boolean({ description: 'as in `ConnectRemote`; absent is false' })),
  state: RemoteState,
  stages: Type.Array(RemoteStage, { description: 'of the present or the last attempt' }),
  checks: Type.Array(RemoteCheck),
  error: Type.Union([RemoteError, Type.Null()]),
  prompt: Type.Union([RemotePrompt, Type.Null()]),
  notice: Type.Union([RemoteNotice, Type.Null()]),
  queue: Type.Optional(Type.Union([RemoteQueue, Type.Null()], { description: 'while `queued`' })),
  nextAttemptAt: UnixMs,
  connectedAt: UnixMs,
  lastConnectedAt: Type.Optional(UnixMs),
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
    behindBytes: Type.Number({ minimum: 0, description: 'journaled there, not here yet' }),
    putAside: Type.Optional(
      Type.Integer({
        minimum: 0,
        description:
          'copies of journals that the remote does not have any more, as after a loss of power; kept here (docs/journal.md)'
      })
    )
  })
});
export type Remote = Static<typeof Remote>;

export const RemoteList = Type.Object({ remotes: Type.Array(Remote) });
export type RemoteList = Static<typeof RemoteList>;

/** A machine whose zone has to be looked up: gcloud's default zone, or the zone of the only machine with this name. */
export const UnplacedGcloudSource = Type.Omit(GcloudSource, ['zone'], { additionalProperties: false });
export type UnplacedGcloudSource = Static<typeof UnplacedGcloudSource>;

/** `POST /bridge/v1/machines` */
export const AddRemote = Type.Object(
  {
    name: Type.Optional(RemoteName),
    source: Type.Union([RemoteSource, UnplacedGcloudSource]),
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

/** `POST /bridge/v1/machines/NAME/disconnect` */
export const DisconnectRemote = Type.Object(
  {
    stop: Type.Optional(Type.Boolean({ description: 'ends the Colab runtime and its kernels too; verified' }))
  },
  { additionalProperties: false }
);
export type DisconnectRemote = Static<typeof DisconnectRemote>;

/** `POST /bridge/v1/machines/NAME/answer` */
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

/** `GET /bridge/v1/machines/NAME/log`: the last lines, oldest first. */
export const RemoteLogPage = Type.Object({ lines: Type.Array(RemoteLogLine) });
export type RemoteLogPage = Static<typeof RemoteLogPage>;

/** Query of `GET /bridge/v1/machines/candidates`. */
export const CandidatesQuery = Type.Object({
  project: Type.Optional(
    Type.String({
      // An argument that begins with a dash would be a gcloud option.
      pattern: '^[\\w.:][\\w.:-]*$',
      maxLength: 256,
      description: "project of Google Cloud; else gcloud's own"
    })
  )
});
export type CandidatesQuery = Static<typeof CandidatesQuery>;

/** `GET /bridge/v1/machines/candidates`: machines that a user may want to connect to. */
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
        state: Type.String({ description: "the cloud's own word: READY, RUNNING, PREEMPTED" }),
        spot: Type.Optional(
          Type.Boolean({ description: 'the cloud may end it at any time; also preemptible ones' })
        )
      })
    )
  }),
  colab: Type.Optional(
    Type.Object({
      state: Type.Union(
        [Type.Literal('ok'), Type.Literal('missing'), Type.Literal('login'), Type.Literal('failed')],
        { description: '`ok`: the `colab` command is there and logged in' }
      ),
      message: Text,
      remedy: Type.Union([Type.String(), Type.Null()], { description: 'a command for a terminal' }),
      accelerators: Type.Array(ColabAccelerator)
    })
  )
});
export type RemoteCandidates = Static<typeof RemoteCandidates>;

/** A remote has changed (topic remotes); sent for each one at subscription. */
export const RemoteEvent = Type.Object({
  topic: Type.Literal('remotes'),
  remote: Remote,
  removed: Type.Boolean()
});
export type RemoteEvent = Static<typeof RemoteEvent>;
