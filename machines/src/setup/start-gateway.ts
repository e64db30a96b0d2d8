/** Starts the gateway on a host, detached from the connection; a gateway of the same bridge that already runs is left alone. */
import type { PreparedHost } from '../machine.js';
import type { HostFacts, HostGateway } from './probe-script.js';
import { plainText } from '@tpulab/platform/plain-text.js';
import { finalError } from '../ssh/explain.js';
import { shown } from '../ssh/ssh-config.js';
import { EXIT, hostScript } from './host-scripts.js';
import type { HostSession } from './host-session.js';
import type { SetupContext } from './host-layout.js';
import { SetupError, type StageReporter } from './stage-reporter.js';

const START_MS = 5 * 60_000;

interface GatewayStart {
  readonly session: HostSession;
  readonly facts: HostFacts;
  readonly context: SetupContext;
  /** Our folder there in our own notation, not as the host reports it: it becomes part of a command. */
  readonly folder: string;
  /** Remote folder of the uploads, relative: no longer needed. */
  readonly incoming: string;
  readonly stages: StageReporter;
  readonly newcomer: Newcomer;
}

/** @throws SetupError `setup_other_build` before any file is sent there, if the running gateway must be left alone */
export function checkRunning(host: string, { gateway }: HostFacts, newcomer: Newcomer): void {
  if (gateway !== null && !mayReplace(gateway, newcomer)) throw otherBuild(host, gateway.bridge, newcomer);
}

export async function startHostGateway(start: GatewayStart): Promise<PreparedHost> {
  const { session, facts, incoming, stages, newcomer } = start;
  const {
    layout,
    tools,
    payload: { version }
  } = start.context;
  const running = facts.gateway;
  if (running !== null && running.bridge === layout.bridge) {
    stages.skip('gateway', 'already running');
    const { socketPath, token, gatewayId } = running;
    return { socketPath, token, gatewayId, version };
  }
  return stages.run('gateway', async stage => {
    const { code, values, lines } = await session.run(
      hostScript('start'),
      [
        `${layout.node}/${tools.node.program}`,
        layout.bridge,
        `${layout.uv}/${tools.uv.program}`,
        layout.environments,
        incoming,
        // The decision is based on an earlier state, so it is checked again: another computer may have started a gateway
        // since.
        newcomer.takeOver ? '*' : (running?.bridge ?? ''),
        `${newcomer.sender} ${newcomer.takeOver && running !== null ? 'yes' : 'no'}`
      ],
      {
        timeoutMs: START_MS,
        onValue: key => {
          if (key === 'replacing') stage.at('ending the server of another version; its kernels keep running');
        }
      }
    );
    const gatewayId = /"gatewayId":"([^"]+)"/.exec(values.get('gateway') ?? '')?.[1];
    const [socketPath, token] = [values.get('socket'), values.get('token')];
    if (code === 0 && gatewayId && socketPath && token)
      return { value: { socketPath, token, gatewayId, version }, detail: null };
    if (code === EXIT.otherBuild) throw otherBuild(session.host, values.get('other') ?? '', newcomer);
    throw new SetupError(
      'setup_gateway_failed',
      `The server did not start on ${session.host}: the error was "${plainText(finalError(lines) || `code ${code}`, 300)}". See state/gateway.log in TPULab's folder there.`,
      { command: `ssh ${shown(session.host)} tail ${shown(`${start.folder}/state/gateway.log`)}` }
    );
  });
}

/**
 * The computer that wants to run its gateway on a host that has another build of TPULab. A newer version replaces an older
 * one; an older build, or another build of the same version, leaves the running one alone until a person insists. No build
 * replaces a gateway on which a person insisted, so that two computers never replace each other's gateway in turn.
 */
export interface Newcomer {
  /** `versions/0.1.0-1a2b3c4d5e6f`: the folder of its bridge. */
  readonly bridge: string;
  readonly sender: string;
  /** A person insists. */
  readonly takeOver: boolean;
}

/** Whether this gateway is the newcomer's own, or may be replaced by it. */
export function mayReplace(running: HostGateway, newcomer: Newcomer): boolean {
  // A gateway whose start was interrupted has not recorded its bridge yet.
  if (running.bridge === newcomer.bridge || running.bridge === '' || newcomer.takeOver) return true;
  const { starter } = running;
  if (starter?.sender === newcomer.sender) return true;
  return starter?.tookOver !== true && isNewer(newcomer.bridge, running.bridge);
}

/** Reports the running build and the remedy. */
export function otherBuild(host: string, running: string, newcomer: Newcomer): SetupError {
  const [theirs, ours] = [nameOf(running), nameOf(newcomer.bridge)];
  const same = isNewer(running, newcomer.bridge)
    ? 'Update TPULab on this computer'
    : 'Have the same TPULab on both computers';
  return new SetupError(
    'setup_other_build',
    `On ${host} TPULab ${theirs} is running for another computer, and this one has ${ours}. Nothing was changed there. ${same}, or connect anyway ("Connect anyway" in JupyterLab, "tpulab connect NAME --take-over"): the other computer is then disconnected. Kernels keep running either way.`
  );
}

function isNewer(one: string, other: string): boolean {
  const [a, b] = [numbersOf(one), numbersOf(other)];
  if (a === null || b === null) return false;
  for (let index = 0; index < a.length; index++) {
    if (a[index] !== b[index]) return (a[index] ?? 0) > (b[index] ?? 0);
  }
  return false;
}

/** The three numbers of a version; null for a folder with another name. Builds of one version have no order. */
function numbersOf(bridge: string): number[] | null {
  const found = /^versions\/(\d+)\.(\d+)\.(\d+)-/.exec(bridge);
  return found ? found.slice(1).map(Number) : null;
}

function nameOf(bridge: string): string {
  const [, version, hash] = /^versions\/(.+)-([0-9a-f]{12})$/.exec(bridge) ?? [];
  return version === undefined ? bridge : `${version} (build ${hash})`;
}
