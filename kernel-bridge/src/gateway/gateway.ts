/** The composition root: builds every part of a gateway, owns them, and disposes of them. */
import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { homeFolder } from '@tpulab/platform/user-folders.js';
import path from 'node:path';
import type { Logger } from 'pino';
import { ChannelsHub, channelsRoute, type ChannelsTuning } from '../channels/channels-hub.js';
import { processStart, thisHost } from '@tpulab/platform/process-identity.js';
import { describeHolder } from '@tpulab/platform/process-lock.js';
import { JOURNAL_LIMITS, type JournalLimits } from '../journal/index.js';
import { ChipHolders, CloudNotices, MachineSampler } from '../devices/index.js';
import { EnvironmentCatalog, EnvironmentCreations } from '@tpulab/machines/environments';
import { jupyterDataFolders, JupyterKernelSpecs } from '../kernels/jupyter-kernelspecs.js';
import { type KeeperAccess, localKeepers } from '../keeper-client/access.js';
import { JournalSweeper } from '../kernels/journal-sweeper.js';
import { CULLING_DEFAULTS, type CullingOptions, KernelCulling } from '../kernels/kernel-culling.js';
import { KernelRegistry } from '../kernels/kernel-registry.js';
import { KernelSpecCatalog } from '../kernels/kernelspec-catalog.js';
import { OutputsOfKernels } from '../outputs/index.js';
import { Forwarder, RequestedExecutions } from '../remotes/index.js';
import { Mirrors } from '../remotes/mirror/mirrors.js';
import { SessionStore } from '../sessions/session-store.js';
import { ClientTokens } from '../http/client-tokens.js';
import { TokenStore } from '../http/token-store.js';
import { NarrowedAccess } from '../sharing/narrowed-access.js';
import { addShareRoutes } from '../sharing/share-routes.js';
import { EventSource } from '../telemetry/event-source.js';
import { Notices } from '../telemetry/notices.js';
import { RunArchive } from '../telemetry/run-archive.js';
import { addRunsRoutes, eventsRoute } from '../telemetry/events-route.js';
import type { AccessRules } from '../http/access-hooks.js';
import { createApp } from '../http/app.js';
import { Authenticator } from '../http/authentication.js';
import { BaseUrl } from '../http/base-url.js';
import { addPageKeyRoute } from '../http/page-key-route.js';
import { addBridgeRoutes, addIdentityRoute } from './bridge-routes.js';
import { addDevicesRoutes } from '../devices/devices-routes.js';
import { bytesOf, findJournals } from '../kernels/journal-folders.js';
import { addMetricsRoute } from './metrics-route.js';
import { addFrontendRoutes } from './frontend-routes.js';
import { addHoldersRoutes } from './holders-routes.js';
import { checkpointOnNotice } from './notice-checkpoint.js';
import { NotifyCommand } from './notify-command.js';
import type { RouteEntry } from '../http/error-answers.js';
import { DisposalStack } from '@tpulab/platform/disposal-stack.js';
import { EnvironmentSpecs } from './environment-specs.js';
import { addEnvironmentsRoutes, addLessonsRoutes } from '../environments/environments-routes.js';
import { newProofKey } from '../http/gateway-proof.js';
import { addJupyterRoutes } from './jupyter-routes.js';
import { addKernelRoutes } from '../kernels/kernel-routes.js';
import { addKernelSpecRoutes } from '../kernels/kernelspec-routes.js';
import { ATTEMPT_LIMITS, type AttemptLimits, FailedAttempts } from '../http/failed-attempts.js';
import { HTTP_LIMITS, type HttpLimits } from '../http/http-limits.js';
import { listen } from '../http/listening.js';
import { listenOnSocket } from '../http/unix-listening.js';
import { OriginPolicy } from '../http/origin-policy.js';
import type { RemoteCheck } from '@tpulab/protocol';
import { addFilesRoutes } from '../files/files-routes.js';
import { RootFolder } from '../files/root-folder.js';
import { NotebookChecks } from '../preflight/notebook-checks.js';
import { addPreflightRoutes } from '../preflight/preflight-routes.js';
import { addDocsRoutes } from '../session-page/docs-routes.js';
import { addSessionPageRoutes } from '../session-page/session-page-routes.js';
import { addMirrorRoutes } from '../remotes/mirror/routes.js';
import { addOutputsRoutes } from '../outputs/outputs-routes.js';
import { ServeError } from '@tpulab/platform/errors.js';
import { addForwardingRoutes, addRequestedRoute, forwardedSockets } from '../remotes/forward/routes.js';
import { ChipTable, HostOnly, Remotes, type RemotesOptions, SyncJobs } from '@tpulab/machines';
import { addRemotesRoutes, addSyncRoutes } from '../remotes/routes.js';
import { addResolvePathRoutes } from '../kernels/resolve-path-routes.js';
import { addSessionRoutes } from '../sessions/session-routes.js';
import {
  chooseToken,
  forgetToken,
  lockStateFolder,
  prepareStateFolder,
  removeGatewayRecord,
  writeGatewayRecord
} from './state-folder.js';
import { Upgrades } from '../http/upgrades.js';
import { SpareKeeper } from '../keeper-client/spare-keeper.js';

export interface GatewayOptions extends ChannelsTuning {
  readonly stateDir: string;
  readonly rootDir: string;
  readonly host?: string;
  /** 0: any free port. */
  readonly port?: number;
  /** Why remotes are not connected at the start. */
  readonly pausedBecause?: string | undefined;
  /** Generated and stored in the state folder when not given. */
  readonly token?: string | undefined;
  readonly envDir?: string | undefined;
  readonly allowedOrigins?: readonly string[];
  /** Names for the Host header in addition to the loopback names. */
  readonly allowedHosts?: readonly string[];
  /** Allowed origins may send requests in the browser's credentials mode, and their token in the query (Colab). */
  readonly allowCredentials?: boolean;
  /** Prefix of all paths, for a proxy that forwards them unchanged. */
  readonly baseUrl?: string;
  /** The gateway listens on this unix socket instead of a port. */
  readonly unixSocket?: string | undefined;
  readonly defaultKernel?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Largest REST body. */
  readonly bodyLimitBytes?: number;
  /** Largest WebSocket message; widget buffers count. */
  readonly maxPayloadBytes?: number;
  readonly maxSockets?: number;
  readonly http?: Partial<HttpLimits>;
  readonly attempts?: Partial<AttemptLimits>;
  /** Names of variables that a request may set for its kernel, in addition to `KERNEL_*`. */
  readonly clientEnvs?: readonly string[];
  readonly restartLimit?: number | undefined;
  readonly shutdownWaitMs?: number | undefined;
  readonly culling?: Partial<CullingOptions>;
  /** How much kernel output is stored, and for how long. */
  readonly journal?: Partial<JournalLimits>;
  /** Machine samples per second while a page polls; 0: only requested samples. */
  readonly sampleHz?: number;
  /** File that corrects or extends the table of chips (docs/devices.md). */
  readonly chipTable?: string | undefined;
  /** Whether runs are asked for a checkpoint when the cloud announces a preemption; true by default. */
  readonly checkpointOnNotice?: boolean;
  /** Shell command for notices to a user who has no page open, and the minimum duration of a cell or run that gets one. */
  readonly notifyCommand?: string | undefined;
  readonly notifyAfterMs?: number;
  /** Replaces `/` for devices, sysfs and proc; specs use another root. */
  readonly machineRoot?: string | undefined;
  /** Folder of the built session page; default: the package's own. */
  readonly sessionPage?: string | undefined;
  /** Folder of the built documentation; likewise. */
  readonly documentation?: string | undefined;
  readonly keepers?: KeeperAccess;
  /** Keeps a spare keeper ready for the next kernel. */
  readonly spareKeeper?: boolean;
  /** How remotes are reached and prepared. */
  readonly remotes?: Pick<
    RemotesOptions,
    | 'setup'
    | 'open'
    | 'sshProgram'
    | 'gcloud'
    | 'colab'
    | 'network'
    | 'home'
    | 'queuePollMs'
    | 'colabBalanceMs'
  >;
  readonly log: Logger;
}

export interface Gateway extends AsyncDisposable {
  readonly url: string;
  readonly token: string;
  readonly gatewayId: string;
  readonly routes: readonly RouteEntry[];
  readonly upgrades: Upgrades;
  readonly registry: KernelRegistry;
  readonly specs: KernelSpecCatalog;
  readonly remotes: Remotes;
  /** Resolves when the kernels of an earlier gateway have been found; until then most answers are 503. */
  readonly ready: Promise<void>;
  /** Resolves when another gateway has taken over the state folder because this process stalled: it has to end. */
  readonly lost: Promise<void>;
}

const MIB = 1024 * 1024;
/**
 * How long sockets may take to close when the gateway stops. A stock client that is cut off before it answers gets its last
 * moments of output again, so a slow client needs time to answer.
 */
const CLOSE_GRACE_MS = 5_000;
/** The same for sockets whose token is no longer valid. */
const REVOKED_GRACE_MS = 1_000;
const MAX_SOCKETS = 1024;

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const disposables = new DisposalStack();
  try {
    return await build(options, disposables);
  } catch (error) {
    await disposables[Symbol.asyncDispose]();
    throw error;
  }
}

async function build(options: GatewayOptions, disposables: DisposalStack): Promise<Gateway> {
  const { stateDir, rootDir, log, env = process.env, host = '127.0.0.1' } = options;
  const gatewayId = randomUUID();
  const startedAt = new Date();
  const proofKey = newProofKey();
  await checkRoot(rootDir);
  await prepareStateFolder(stateDir);
  let lose = (): void => undefined;
  const lost = new Promise<void>(resolve => (lose = resolve));
  const lock = disposables.use(await lockStateFolder(stateDir, lose));
  if (lock.replaced !== null) {
    const by = describeHolder(lock.replaced);
    log.warn({ stateDir, by }, 'took the state folder over from a server that ended without closing it');
  }
  const token = await chooseToken(stateDir, options.token);
  const base = new BaseUrl(options.baseUrl ?? '/');
  const http = { ...HTTP_LIMITS, ...options.http };

  const environments = new EnvironmentCatalog(
    options.envDir === undefined ? {} : { environments: options.envDir }
  );
  const folders = jupyterDataFolders({ env, platform: process.platform, home: homeFolder(env) });
  const specs = new KernelSpecCatalog(
    [new EnvironmentSpecs(environments), new JupyterKernelSpecs(folders, log)],
    options.defaultKernel ?? null
  );
  const spare =
    options.spareKeeper === true ? disposables.use(new SpareKeeper({ folder: stateDir, log })) : null;
  const keepers = options.keepers ?? localKeepers({ spare });
  const journal = { ...JOURNAL_LIMITS, ...options.journal };
  const table = options.chipTable === undefined ? new ChipTable() : await ChipTable.read(options.chipTable);
  const hostOnly = new HostOnly(stateDir, table, options.machineRoot);
  const registry = new KernelRegistry({
    stateDir,
    rootDir,
    specs,
    keepers,
    // The agents in the kernels have a separate table, without the changes of the user's file.
    env:
      options.chipTable === undefined
        ? env
        : { ...env, TPULAB_PEAK_FLOPS: JSON.stringify(table.ownPeakFlops()) },
    hostEnv: spec => hostOnly.variables(spec),
    journal,
    log,
    clientEnvs: options.clientEnvs ?? [],
    ...(options.restartLimit === undefined ? {} : { restartLimit: options.restartLimit }),
    ...(options.shutdownWaitMs === undefined ? {} : { shutdownWaitMs: options.shutdownWaitMs })
  });
  disposables.defer(() => registry.detach());
  const isInUse = (id: string): boolean => registry.isInUse(id);
  const sweeper = disposables.use(new JournalSweeper({ stateDir, limits: journal, isInUse, log }));
  const sessions = disposables.use(new SessionStore(registry, path.join(stateDir, 'sessions.json'), log));
  const { confirmation, limits, leases, queueLimits: held, unsentLimitBytes } = options;
  const hub = disposables.use(
    new ChannelsHub({ registry, log, confirmation, limits, leases, queueLimits: held, unsentLimitBytes })
  );
  disposables.use(new KernelCulling(registry, { ...CULLING_DEFAULTS, ...options.culling }, log));
  const machine = disposables.use(
    new MachineSampler({
      folder: path.join(stateDir, 'devices'),
      gatewayId,
      table,
      env,
      isKernel: id => registry.find(id) !== undefined,
      log,
      ...(options.machineRoot === undefined ? {} : { root: options.machineRoot }),
      ...(options.sampleHz === undefined ? {} : { sampleHz: options.sampleHz })
    })
  );
  const outputs = disposables.use(new OutputsOfKernels({ stateDir, registry, log }));
  const mirrors = disposables.use(
    new Mirrors({
      stateDir,
      limits: journal,
      log,
      onChange: name => remotes.refresh(name),
      onLog: (name, line) => remotes.find(name)?.log.add(line),
      onFull: name => remotes.find(name)?.report.check(mirrorFull(journal.totalBytes))
    })
  );
  const remotes: Remotes = disposables.use(
    await Remotes.open({ ...options.remotes, stateDir, log, mirror: name => mirrors.totals(name) })
  );
  disposables.use(
    remotes.onReachable((name, found) => {
      const done = found ? mirrors.attach(name, found) : mirrors.detach(name);
      done.catch((error: unknown) => log.error({ remote: name, err: error }, 'journals cannot be mirrored'));
    })
  );
  const requested = disposables.use(new RequestedExecutions({ stateDir, log }));
  const forwarder = disposables.use(new Forwarder(remotes, requested, log));
  const notices = disposables.use(new CloudNotices({ env, root: options.machineRoot, log }));
  if (options.checkpointOnNotice !== false)
    disposables.use(checkpointOnNotice({ notices, kernels: () => registry.list(), log }));
  const events = disposables.use(
    new EventSource(registry, hub, log, machine, remotes, { gatewayId, source: notices })
  );
  const documentOf = (kernelId: string): string | null =>
    sessions.list().find(({ kernel }) => kernel.id === kernelId)?.path ?? null;
  const { notifyCommand: command, notifyAfterMs: longMs = 60_000 } = options;
  const notify = command === undefined ? null : disposables.use(new NotifyCommand({ command, env, log }));
  const runNotices = notify
    ? disposables.use(
        new Notices({
          registry,
          documentOf,
          longMs,
          send: notice => notify.send(notice),
          file: path.join(stateDir, 'watched-cells.json')
        })
      )
    : undefined;
  const runs = disposables.use(
    new RunArchive({ folder: path.join(stateDir, 'runs'), events, log, documentOf, notices: runNotices })
  );

  const tokens = new TokenStore(stateDir);
  const narrowed = new NarrowedAccess({ rootDir, sessions, registry, specs, outputs, tokens, log });
  const clientTokens = disposables.use(new ClientTokens(stateDir, log));
  let isReady = false;
  const rules: AccessRules = {
    authenticator: new Authenticator(token, clientTokens),
    origins: new OriginPolicy(
      [host, ...(options.allowedHosts ?? [])],
      options.allowedOrigins ?? [],
      options.allowCredentials
    ),
    attempts: new FailedAttempts({ ...ATTEMPT_LIMITS, ...options.attempts }, log),
    ready: () => isReady,
    mayDo: narrowed.mayDo
  };
  const bodyLimitBytes = options.bodyLimitBytes ?? 4 * MIB;
  const { app, routes } = await createApp({ rules, log, base, bodyLimitBytes, http });
  narrowed.addTo(app);
  addIdentityRoute(app, proofKey);
  addPageKeyRoute(app, rules.authenticator, base);
  addJupyterRoutes(app, registry, startedAt, base);
  addKernelSpecRoutes(app, specs, base);
  addKernelRoutes(app, registry, base);
  addFrontendRoutes(app, registry, specs);
  addResolvePathRoutes(app, registry, rootDir);
  addSessionRoutes(app, sessions, base);
  addOutputsRoutes(app, outputs, registry, (actor, id) => narrowed.visible(actor, id));
  addMirrorRoutes(app, mirrors);
  addRemotesRoutes(app, remotes);
  addSyncRoutes(app, remotes, disposables.use(new SyncJobs()));
  addRequestedRoute(app, requested);
  await addForwardingRoutes(app, forwarder);
  addDevicesRoutes(app, machine, hostOnly);
  addRunsRoutes(app, runs);
  addMetricsRoute(app, {
    kernels: () => registry.list().map(({ snapshot }) => snapshot.executionState),
    runs: () => runs.list(),
    machine: async () => (await machine.page()).sample,
    journalBytes: async () => (await findJournals(stateDir)).reduce((sum, each) => sum + bytesOf(each), 0)
  });
  addHoldersRoutes(app, {
    holders: new ChipHolders({ table, root: options.machineRoot }),
    registry,
    sessions
  });
  addEnvironmentsRoutes(app, disposables.use(new EnvironmentCreations(environments)));
  addLessonsRoutes(app, rootDir);
  const files = new RootFolder(rootDir);
  await addFilesRoutes(app, files);
  const folder = path.join(stateDir, 'checks');
  const machines = (): string[] =>
    remotes.list().flatMap(({ name, phase }) => (phase.kind === 'connected' ? [name] : []));
  const checks = new NotebookChecks({
    ...{ catalog: environments, files, rootDir, folder, stateDir, machines, env }
  });
  addPreflightRoutes(app, disposables.use(checks));
  addShareRoutes(
    app,
    tokens,
    path => files.read(path),
    path => narrowed.stampOf(path)
  );
  addSessionPageRoutes(app, base, options.sessionPage);
  addDocsRoutes(app, base, options.documentation);
  addBridgeRoutes(app, {
    registry,
    gatewayId,
    startedAt,
    ready: rules.ready,
    notice: () => notices.notice
  });
  const { maxPayloadBytes = 256 * MIB, maxSockets = MAX_SOCKETS } = options;
  const upgrades = new Upgrades({ rules, log, base, maxPayloadBytes, maxSockets });
  disposables.use(clientTokens.onChange(() => upgrades.closeUnauthorized(REVOKED_GRACE_MS)));
  upgrades.add(channelsRoute(registry, hub, (actor, id) => narrowed.view(actor, id)));
  upgrades.add(eventsRoute(events, gatewayId, narrowed.events));
  upgrades.addRelay(forwardedSockets(forwarder));
  upgrades.listen(app.server);
  disposables.defer(async () => {
    // Sockets first: an HTTP server is closed when its last connection is.
    hub[Symbol.dispose]();
    await upgrades.close(CLOSE_GRACE_MS);
    await app.close();
  });

  const address = await (
    options.unixSocket === undefined
      ? listen(app, host, options.port ?? 0, http)
      : listenOnSocket(app, options.unixSocket)
  ).catch(async (error: unknown) => {
    // Clients of the gateway that had this port may have sent their token to the program that has it now.
    const isTaken = error instanceof ServeError && error.code === 'address_in_use';
    if (isTaken && options.token === undefined) await forgetToken(stateDir);
    throw error;
  });
  disposables.defer(address.close);
  const url = address.url + base.path.slice(1);
  const start = await processStart(process.pid);
  await writeGatewayRecord(stateDir, {
    url,
    pid: process.pid,
    gatewayId,
    startedAt: startedAt.toISOString(),
    ...(start === null ? {} : { processStart: start }),
    host: await thisHost(),
    proofKey,
    rootDir
  });
  lock.touchWithLock(path.join(stateDir, 'gateway.json'));
  disposables.defer(() => removeGatewayRecord(stateDir, gatewayId));
  const ready = (async () => {
    await registry.adopt();
    await sessions.restore();
    isReady = true;
    void runs
      .endMissing(async id => registry.find(id) !== undefined || (await registry.isElsewhere(id)))
      .then(() => runNotices?.catchUp());
    remotes.start(options.pausedBecause);
    spare?.keepReady();
    void sweeper.sweep();
    log.info({ url, gatewayId, kernels: registry.list().length }, 'server ready');
  })();
  return {
    url,
    token,
    gatewayId,
    routes,
    upgrades,
    registry,
    specs,
    remotes,
    ready,
    lost,
    [Symbol.asyncDispose]: async () => {
      // Adopting kernels uses parts that are disposed of below.
      await ready.catch(() => undefined);
      await disposables[Symbol.asyncDispose]();
    }
  };
}

/** Shown with a remote, because output that is not mirrored here is lost with its machine. */
function mirrorFull(bytes: number): RemoteCheck {
  return {
    name: 'mirror',
    state: 'warning',
    message: `The copies of this machine's outputs have reached ${Math.round(bytes / MIB)} MiB; the oldest were removed.`,
    remedy:
      'Raise Bridge.journal_total_bytes, or remove copies that nobody needs with "tpulab journal prune".'
  };
}

async function checkRoot(rootDir: string): Promise<void> {
  const found = await stat(rootDir).catch(() => null);
  if (found?.isDirectory() !== true) {
    throw new ServeError(
      'root_dir_missing',
      `The root folder ${rootDir} ${found === null ? 'does not exist' : 'is not a folder'}; choose another with --root-dir.`
    );
  }
}
