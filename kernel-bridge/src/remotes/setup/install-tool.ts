/** Puts Node or uv on a host: fetched there where the host reaches the package index, else fetched here and sent. */
import path from 'node:path';
import { fetchTool, type FetchContext } from './fetch-here.js';
import { DOWNLOAD_SCRIPT, EXIT, UNPACK_WHEEL_SCRIPT } from './host-scripts.js';
import type { HostSession } from './host-session.js';
import { sha256Of } from './payload.js';
import { SetupError } from './setup-error.js';
import type { RunningStage } from './stage-reporter.js';
import type { Platform, ToolWheel } from './tool-locks.js';
import { inMiB, sendFile } from './send-file.js';
import { isPublic, type WheelFile, wheelOf } from './wheel-urls.js';

export interface ToolInstallation {
  readonly session: HostSession;
  readonly tool: ToolWheel;
  readonly platform: Platform;
  readonly uv: string;
  readonly incoming: string;
  /** Where the unpacked tool is to be, relative. */
  readonly place: string;
  readonly stage: RunningStage;
  readonly fetching: () => FetchContext;
  /** False: it has been seen that the host does not reach the address. */
  readonly mayDownload: boolean;
}

const DOWNLOAD_MS = 30 * 60_000;
const UNPACK_MS = 10 * 60_000;

/** Says how it came there. */
export async function installTool(
  installation: ToolInstallation
): Promise<'downloaded there' | 'sent from here'> {
  const { session, tool, place } = installation;
  const wheel = await wheelOf(tool, installation.platform, installation.uv, session.signal);
  const file = `${installation.incoming}/${wheel.fileName}`;
  const isThere =
    installation.mayDownload && isPublic(wheel.url) && (await downloadThere(installation, wheel, file));
  let sum = wheel.sha256;
  if (!isThere) {
    installation.stage.at('the host does not reach the package index; fetching it here');
    const local = await fetchTool(tool, installation.fetching());
    sum = await sha256Of(local);
    await sendFile(session, local, file, installation.stage);
  }
  installation.stage.at('unpacking');
  const end = await session.run(UNPACK_WHEEL_SCRIPT, [file, sum, place, tool.program], {
    timeoutMs: UNPACK_MS
  });
  if (end.code === 0) return isThere ? 'downloaded there' : 'sent from here';
  if (end.code === EXIT.checksum) throw checksumWrong(session, wheel.fileName);
  throw new SetupError(
    'setup_unpack_failed',
    `${tool.name} ${tool.version} does not run on ${session.host}: ${end.lines.at(-1) ?? `code ${end.code}`}.`
  );
}

async function downloadThere(
  { session, stage }: ToolInstallation,
  wheel: WheelFile,
  file: string
): Promise<boolean> {
  stage.at('downloading');
  const end = await session.run(DOWNLOAD_SCRIPT, [file, wheel.sha256, wheel.url], {
    timeoutMs: DOWNLOAD_MS,
    onSaid: (key, value) => {
      if (key === 'waiting') stage.at(value);
      if (key === 'bytes')
        stage.at(
          `downloading, ${inMiB(Number(value))}`,
          wheel.bytes === null ? null : Number(value) / wheel.bytes
        );
    }
  });
  if (end.code === 0) return true;
  if (end.code === EXIT.checksum) throw checksumWrong(session, path.basename(file));
  session.log(`${wheel.fileName} could not be downloaded there (code ${end.code})`);
  return false;
}

export function checksumWrong(session: HostSession, file: string): SetupError {
  return new SetupError(
    'setup_checksum_wrong',
    `${file} arrived on ${session.host} with another content than it should have and was removed; connect again. If that does not help, somebody changes what you download.`
  );
}
