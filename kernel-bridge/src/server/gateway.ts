/** The composition root: builds every part of a gateway, owns them, and takes them down again. */
import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import type { Logger } from 'pino';
import { ChannelsHub } from '../channels/channels-hub.js';
import { channelsRoute } from '../channels/channels-route.js';
import type { FeedLimits } from '../channels/client-feed.js';
import type { ConfirmationOptions } from '../channels/confirmations.js';
import { JOURNAL_LIMITS, type JournalLimits } from '../journal/index.js';
import { EnvironmentCatalog } from '../environments/index.js';
import { JupyterKernelSpecs } from '../kernels/jupyter-kernelspecs.js';
import { jupyterDataFolders } from '../kernels/jupyter-paths.js';
import { type KeeperAccess, localKeepers } from '../kernels/keeper-access.js';
import { JournalSweeper } from '../kernels/journal-sweeper.js';
import { KernelRegistry } from '../kernels/kernel-registry.js';
import { KernelSpecCatalog } from '../kernels/kernelspec-catalog.js';
import { OutputsOfKernels } from '../outputs/index.js';
import { SessionFile } from '../sessions/session-file.js';
import { SessionStore } from '../sessions/session-store.js';
import { EventSource } from '../telemetry/event-source.js';
import { eventsRoute } from '../telemetry/events-route.js';
import type { AccessRules } from './access-hooks.js';
import { createApp, type RouteEntry } from './app.js';
import { Authenticator } from './authentication.js';
import { addBridgeRoutes } from './bridge-routes.js';
import { DisposalStack } from './disposal-stack.js';
import { EnvironmentSpecs } from './environment-specs.js';
import { lockStateFolder } from './gateway-lock.js';
import { addJupyterRoutes } from './jupyter-routes.js';
import { addKernelRoutes } from './kernel-routes.js';
import { addKernelSpecRoutes } from './kernelspec-routes.js';
import { listen } from './listening.js';
import { OriginPolicy } from './origin-policy.js';
import { addOutputsRoutes } from './outputs-routes.js';
import { ServeError } from './server-errors.js';
import { addSessionRoutes } from './session-routes.js';
import { chooseToken, prepareStateFolder, removeGatewayRecord, writeGatewayRecord } from './state-folder.js';
import { Upgrades } from './upgrades.js';

export interface GatewayOptions {
  readonly stateDir: string;
  readonly rootDir: string;
  readonly host?: string;
  /** 0: a free one. */
  readonly port?: number;
  /** Generated and kept in the state folder when absent. */
  readonly token?: string | undefined;
  readonly envDir?: string | undefined;
  readonly allowedOrigins?: readonly string[];
  /** Further names for the Host header, beside the loopback names. */
  readonly allowedHosts?: readonly string[];
  readonly defaultKernel?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Largest REST body. */
  readonly bodyLimitBytes?: number;
  /** Largest WebSocket message; widget buffers count. */
  readonly maxPayloadBytes?: number;
  readonly confirmation?: Partial<ConfirmationOptions>;
  readonly limits?: Partial<FeedLimits>;
  /** How much is kept of what kernels said, and for how long. */
  readonly journal?: Partial<JournalLimits>;
  readonly keepers?: KeeperAccess;
  readonly log: Logger;
}

export interface Gateway extends AsyncDisposable {
  readonly url: string;
  readonly token: string;
  readonly gatewayId: string;
  readonly routes: readonly RouteEntry[];
  readonly upgrades: Upgrades;
  readonly registry: KernelRegistry;
  /** Resolves when the kernels of an earlier gateway have been found; until then most answers are 503. */
  readonly ready: Promise<void>;
}

const MIB = 1024 * 1024;
/** How long sockets may take to close when the gateway stops. */
const CLOSE_GRACE_MS = 1000;

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const owned = new DisposalStack();
  try {
    return await build(options, owned);
  } catch (error) {
    await owned[Symbol.asyncDispose]();
    throw error;
  }
}

async function build(options: GatewayOptions, undo: DisposalStack): Promise<Gateway> {
  const { stateDir, rootDir, keepers = localKeepers, log, env = process.env, host = '127.0.0.1' } = options;
  const gatewayId = randomUUID();
  const startedAt = new Date();
  await checkRoot(rootDir);
  await prepareStateFolder(stateDir);
  undo.use(await lockStateFolder(stateDir));
  const token = await chooseToken(stateDir, options.token);

  const environments = new EnvironmentCatalog(
    options.envDir === undefined ? {} : { environments: options.envDir }
  );
  const folders = jupyterDataFolders({ env, platform: process.platform, home: homedir() });
  const specs = new KernelSpecCatalog(
    [new EnvironmentSpecs(environments), new JupyterKernelSpecs(folders, log)],
    options.defaultKernel ?? null
  );
  const journal = { ...JOURNAL_LIMITS, ...options.journal };
  const registry = new KernelRegistry({ stateDir, rootDir, specs, keepers, env, journal, log });
  undo.defer(() => registry.detach());
  const isKept = (id: string): boolean => registry.isInUse(id);
  const sweeper = undo.use(new JournalSweeper({ stateDir, limits: journal, isKept, log }));
  const sessions = undo.use(
    new SessionStore(registry, new SessionFile(path.join(stateDir, 'sessions.json'), log), log)
  );
  const { confirmation = {}, limits = {} } = options;
  const hub = undo.use(new ChannelsHub({ registry, log, confirmation, limits }));
  const events = undo.use(new EventSource(registry, hub, log));
  const outputs = undo.use(new OutputsOfKernels({ stateDir, registry, log }));

  let isReady = false;
  const rules: AccessRules = {
    authenticator: new Authenticator(token),
    origins: new OriginPolicy([host, ...(options.allowedHosts ?? [])], options.allowedOrigins ?? []),
    ready: () => isReady
  };
  const { app, routes } = await createApp({ rules, log, bodyLimitBytes: options.bodyLimitBytes ?? 4 * MIB });
  addJupyterRoutes(app, registry, startedAt);
  addKernelSpecRoutes(app, specs);
  addKernelRoutes(app, registry);
  addSessionRoutes(app, sessions);
  addOutputsRoutes(app, outputs);
  addBridgeRoutes(app, {
    registry,
    gatewayId,
    startedAt,
    ready: rules.ready,
    environments: () => environments.list()
  });
  const upgrades = new Upgrades({ rules, log, maxPayloadBytes: options.maxPayloadBytes ?? 256 * MIB });
  upgrades.add(channelsRoute(registry, hub));
  upgrades.add(eventsRoute(events, gatewayId));
  upgrades.listen(app.server);
  undo.defer(async () => {
    // Sockets first: an HTTP server is closed when its last connection is.
    hub[Symbol.dispose]();
    await upgrades.close(CLOSE_GRACE_MS);
    await app.close();
  });

  const { url, closeTwin } = await listen(app, host, options.port ?? 0);
  undo.defer(closeTwin);
  await writeGatewayRecord(stateDir, {
    url,
    pid: process.pid,
    gatewayId,
    startedAt: startedAt.toISOString()
  });
  undo.defer(() => removeGatewayRecord(stateDir, gatewayId));
  const ready = (async () => {
    await registry.adopt();
    await sessions.restore();
    isReady = true;
    void sweeper.sweep();
    log.info({ url, gatewayId, kernels: registry.list().length }, 'gateway ready');
  })();
  return {
    url,
    token,
    gatewayId,
    routes,
    upgrades,
    registry,
    ready,
    [Symbol.asyncDispose]: async () => {
      // Adoption reaches into parts that are taken down below.
      await ready.catch(() => undefined);
      await undo[Symbol.asyncDispose]();
    }
  };
}

async function checkRoot(rootDir: string): Promise<void> {
  const found = await stat(rootDir).catch(() => null);
  if (found?.isDirectory() !== true) {
    throw new ServeError(
      'root_dir_missing',
      `The root folder ${rootDir} does not exist; name another with --root-dir.`
    );
  }
}
