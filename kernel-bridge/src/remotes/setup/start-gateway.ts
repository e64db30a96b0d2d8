/** Starts the gateway on a host, detached from the connection; one that runs already from the same bridge is left alone. */
import type { PreparedHost } from '../contracts.js';
import type { HostFacts } from './host-facts.js';
import { EXIT, START_SCRIPT } from './host-scripts.js';
import type { HostSession } from './host-session.js';
import { mayReplace, type Newcomer, otherBuild } from './other-build.js';
import type { SetupContext } from './setup-context.js';
import { SetupError } from './setup-error.js';
import type { StageReporter } from './stage-reporter.js';

const START_MS = 5 * 60_000;

export interface GatewayStart {
  readonly session: HostSession;
  readonly facts: HostFacts;
  readonly context: SetupContext;
  /** Folder there of what was sent, relative: it is done with. */
  readonly incoming: string;
  readonly stages: StageReporter;
  readonly newcomer: Newcomer;
}

/** @throws SetupError `setup_other_build` before anything is sent there, when what runs there is to be left alone */
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
    const { code, said, lines } = await session.run(
      START_SCRIPT,
      [
        `${layout.node}/${tools.node.program}`,
        layout.bridge,
        `${layout.uv}/${tools.uv.program}`,
        layout.environments,
        incoming,
        // Judged by what ran there a while ago; what another computer has started since is looked at anew.
        newcomer.takeOver ? '*' : (running?.bridge ?? ''),
        `${newcomer.sender} ${newcomer.takeOver && running !== null ? 'yes' : 'no'}`
      ],
      {
        timeoutMs: START_MS,
        onSaid: key => {
          if (key === 'replacing') stage.at('ending the gateway of another version; its kernels go on');
        }
      }
    );
    const gatewayId = /"gatewayId":"([^"]+)"/.exec(said.get('gateway') ?? '')?.[1];
    const [socketPath, token] = [said.get('socket'), said.get('token')];
    if (code === 0 && gatewayId && socketPath && token)
      return { value: { socketPath, token, gatewayId, version }, detail: null };
    if (code === EXIT.otherBuild) throw otherBuild(session.host, said.get('other') ?? '', newcomer);
    throw new SetupError(
      'setup_gateway_failed',
      `The gateway did not start on ${session.host}: ${lines.at(-1) ?? `code ${code}`}. ${session.base}/state/gateway.log there may say more.`,
      { command: `ssh ${session.host} tail ${session.base}/state/gateway.log` }
    );
  });
}
