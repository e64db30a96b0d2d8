/** Composition of the keeper process: builds its parts, connects them, and disposes of them in order. */
import { rm, rmdir } from 'node:fs/promises';
import { basename } from 'node:path';
import { WireError } from '../jupyter/kernel-message.js';
import type { KeeperTask } from '../keeper-protocol/contract.js';
import { checkpointFile } from './checkpoint.js';
import { ControlLine } from './control-line.js';
import { isControlMessage, KEEPER_FEATURES, KEEPER_PROTOCOL_VERSION } from '../keeper-protocol/messages.js';
import { readConnectionFile, runPaths, writeConnectionFile } from './connection-file.js';
import { GatewayServer, type Orphan } from './gateway-server.js';
import { keeperElsewhere, KeeperError } from '../keeper-protocol/keeper-error.js';
import {
  type KeeperRecord,
  kernelPaths,
  presenceOfKernel,
  readLaunch,
  writeKeeperRecord
} from '../keeper-protocol/keeper-file.js';
import { type KeeperLog, LogBound } from './keeper-log.js';
import { KernelKeeper } from './kernel-keeper.js';
import { isSameProcess, processStart, thisHost } from '@tpulab/platform/process-identity.js';
import {
  describeHolder,
  LockHeldError,
  type ProcessLock,
  takeProcessLock
} from '@tpulab/platform/process-lock.js';
import { TelemetryHistory } from '../keeper-protocol/telemetry-history.js';
import { TelemetrySocket } from './telemetry-socket.js';

interface RunningKeeper {
  /** Shuts the kernel down and then ends. Idempotent. */
  end(): void;
  /** Resolves when only the journal and logs of the kernel remain. */
  readonly ended: Promise<void>;
}

/** Rejects with a typed error that states why the kernel cannot be kept; no additional process runs then. */
export async function runKeeper(kernelDir: string, task: KeeperTask, log: KeeperLog): Promise<RunningKeeper> {
  const lock = await onlyKeeper(kernelDir);
  try {
    return await keep(kernelDir, task, lock, log);
  } catch (error) {
    await lock[Symbol.asyncDispose]();
    throw error;
  }
}

async function keep(
  kernelDir: string,
  task: KeeperTask,
  lock: ProcessLock,
  log: KeeperLog
): Promise<RunningKeeper> {
  const launch = await readLaunch(kernelDir);
  const orphan = await orphanOf(kernelDir);
  if (task === 'adopt' && orphan === null) {
    throw new KeeperError(
      'kernel_dead',
      `Kernel ${launch.kernelId} is no longer running; restart or delete it.`
    );
  }
  const paths = kernelPaths(kernelDir);
  const sockets = runPaths(launch.runDir);
  const connection =
    task === 'adopt'
      ? await readConnectionFile(paths.connection)
      : await writeConnectionFile(paths.connection, launch.runDir, launch.specName);
  const telemetry = new TelemetryHistory();
  const record = new RecordFile(kernelDir, {
    kernelId: launch.kernelId,
    pid: process.pid,
    processStart: await processStart(process.pid),
    host: await thisHost(),
    kernelPid: null,
    kernelProcessStart: null,
    startedAt: new Date().toISOString(),
    socketPath: sockets.keeperSocket
  });

  let keeper: KernelKeeper;
  const gateways = new GatewayServer(
    sockets.keeperSocket,
    {
      hello: () => ({
        event: 'hello',
        version: KEEPER_PROTOCOL_VERSION,
        shutdownWaitMs: launch.shutdownWaitMs,
        features: KEEPER_FEATURES,
        snapshot: keeper.snapshot
      }),
      snapshot: () => keeper.snapshot,
      command: async command => {
        switch (command.op) {
          case 'control':
            return { message: await control.send(command.command) };
          case 'status':
            return { snapshot: keeper.snapshot, kernelInfo: keeper.kernelInfo };
          case 'interrupt':
            await keeper.interrupt();
            return {};
          case 'restart':
            try {
              return { snapshot: await keeper.restart() };
            } finally {
              // Even after a failure: a client that gets the reply and then queries must not receive an earlier state.
              await gateways.stateSent();
            }
          case 'shutdown':
            await keeper.shutdown();
            // After the reply, which is written when this function has returned.
            setImmediate(end);
            return {};
        }
      },
      subscribe: () => ({ liveFrom: keeper.snapshot.lastSeq + 1 }),
      telemetryRange: () => ({ historyFrom: telemetry.firstSeq, lastSeq: telemetry.lastSeq }),
      message: frame => {
        try {
          keeper.send(frame);
        } catch (error) {
          if (!(error instanceof WireError)) throw error;
          log.warn({ code: error.code, err: error }, 'a gateway sent what is not a message');
        }
      }
    },
    telemetry,
    log
  );
  const received = (json: string, message: Readonly<Record<string, unknown>>): void => {
    gateways.telemetryAdded(telemetry.add({ seq: telemetry.lastSeq + 1, json }, message));
    if (isControlMessage(message)) control.received(message);
  };
  const control = new ControlLine(message => received(JSON.stringify(message), message), log);
  const agent = await TelemetrySocket.listen(sockets.agentSocket, received, log, connection =>
    control.use(connection)
  );
  const processChanged = (pid: number | null): void => {
    if (pid === null) control.processEnded();
    void record
      .setKernel(pid)
      .catch((error: unknown) => log.error({ err: error }, 'keeper.json cannot be written'));
  };
  try {
    const parts = {
      kernelDir,
      launch,
      connection,
      files: {
        connectionFile: paths.connection,
        kernelLog: paths.kernelLog,
        agentSocket: sockets.agentSocket
      },
      journalDir: paths.journal,
      listener: gateways,
      processChanged,
      log
    };
    keeper = await (orphan !== null && task === 'adopt'
      ? KernelKeeper.adopt(parts, orphan)
      : KernelKeeper.start(parts));
  } catch (error) {
    await agent[Symbol.asyncDispose]();
    if (task === 'start') await rm(paths.connection, { force: true });
    throw error;
  }

  const logs = new LogBound([paths.kernelLog, paths.keeperLog], log);
  let finish!: () => void;
  const ended = new Promise<void>(resolve => {
    finish = resolve;
  });
  const end = (): void => {
    control[Symbol.dispose]();
    void keeper
      .shutdown()
      .catch((error: unknown) => log.error({ err: error }, 'the shutdown was not clean'))
      .then(async () => {
        await gateways[Symbol.asyncDispose]();
        await agent[Symbol.asyncDispose]();
        await logs[Symbol.asyncDispose]();
        await record.remove();
        await rm(paths.connection, { force: true });
        await rm(checkpointFile(kernelDir), { force: true });
        // Only when it is empty: other files in it are not ours.
        await rmdir(launch.runDir).catch((error: unknown) =>
          log.debug({ err: error }, 'the run folder stays')
        );
      })
      .catch((error: unknown) => log.error({ err: error }, 'not everything could be removed'))
      .then(() => lock[Symbol.asyncDispose]())
      .catch((error: unknown) => log.error({ err: error }, 'the lock stays'))
      .finally(finish);
  };
  await gateways.listen().catch(async (error: unknown) => {
    // A kernel that was taken over stays unchanged.
    await (task === 'start' ? keeper.shutdown() : undefined);
    await agent[Symbol.asyncDispose]();
    throw error;
  });
  await record.ready();
  lock.touchWithLock(paths.keeper);
  return { end, ended };
}

/** Two keepers would write one journal. */
async function onlyKeeper(kernelDir: string): Promise<ProcessLock> {
  const { record, presence, elsewhere } = await presenceOfKernel(kernelDir);
  if (elsewhere !== null) throw keeperElsewhere(basename(kernelDir), elsewhere);
  try {
    if (presence === 'here' && record !== null && (await isSameProcess(record.pid, record.processStart))) {
      throw new LockHeldError(kernelPaths(kernelDir).keeper, { pid: record.pid });
    }
    return await takeProcessLock(kernelPaths(kernelDir).lock);
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    throw new KeeperError(
      'keeper_exists',
      `The kernel in ${kernelDir} already has a keeper, ${describeHolder(error.holder)}; attach to it.`,
      { cause: error }
    );
  }
}

/** The kernel process that the last keeper of this folder has left behind, if it runs. */
async function orphanOf(kernelDir: string): Promise<Orphan | null> {
  const { record, presence } = await presenceOfKernel(kernelDir);
  if (presence !== 'here' || record?.kernelPid == null || record.kernelProcessStart === null) return null;
  const { kernelPid: pid, kernelProcessStart: start } = record;
  return (await isSameProcess(pid, start)) ? { pid, start } : null;
}

/** `keeper.json`, written once gateways can connect and again for each process of the kernel. */
class RecordFile {
  #listening = false;
  #notification: Promise<void> = Promise.resolve();
  #writing: Promise<void> = Promise.resolve();

  constructor(
    private readonly kernelDir: string,
    private content: KeeperRecord
  ) {}

  /** In turn, because the start time of a process is looked up: the last call determines the file. */
  setKernel(pid: number | null): Promise<void> {
    this.#notification = this.#notification
      .catch(() => undefined)
      .then(async () => {
        const kernelProcessStart = pid === null ? null : await processStart(pid);
        this.content = { ...this.content, kernelPid: pid, kernelProcessStart };
        if (this.#listening) await this.#write();
      });
    return this.#notification;
  }

  /** Names the kernel's process from the start: a keeper that is killed must not leave an unrecorded process. */
  async ready(): Promise<void> {
    await this.#notification;
    this.#listening = true;
    await this.#write();
  }

  async remove(): Promise<void> {
    this.#listening = false;
    await this.#writing;
    await rm(kernelPaths(this.kernelDir).keeper, { force: true });
  }

  #write(): Promise<void> {
    this.#writing = this.#writing
      .catch(() => undefined)
      .then(() => writeKeeperRecord(this.kernelDir, this.content));
    return this.#writing;
  }
}
