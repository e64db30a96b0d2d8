// @ts-check
/** Sets up what is missing, then runs JupyterLab with the kernel bridge until Ctrl-C. */
import { setUp, START_STAGES } from '../setup/set-up.mjs';
import { StagePrinter } from '../setup/stage-printer.mjs';
import { Jupyter } from './jupyter.mjs';
import { endLeftovers, forgetStart, rememberStart } from './leftover-start.mjs';
import { HELP, parseOptions } from './options.mjs';
import { choosePort } from './port.mjs';

/**
 * @param {AbortSignal} signal
 * @param {readonly string[]} argv
 */
export async function start(signal, argv) {
  const options = parseOptions(argv);
  const printer = new StagePrinter();
  if (options.help) {
    printer.line(HELP);
    return;
  }
  // Before the setup: a user should not wait minutes for this error.
  if (options.port !== null) await choosePort(options.port);
  await setUp({ stages: START_STAGES, signal, printer });
  if (options.setupOnly || signal.aborted) return;

  if ((await endLeftovers()) > 0)
    printer.line('  Ended what an earlier start, which was killed, had left running.');
  printer.line('JupyterLab');
  const starting = printer.begin('starting');
  const jupyter = await Jupyter.start({ ...options, port: await choosePort(options.port) });
  try {
    await rememberStart(jupyter.mark);
    const address = await jupyter.ready(signal);
    starting.done();
    printer.line(`\n  ${address}\n\n  Ctrl-C ends JupyterLab, the bridge and all kernels.`);
    await jupyter.untilAborted(signal);
  } finally {
    starting.failed();
    if (signal.aborted) printer.line('');
    const ending = printer.begin('ending kernels, bridge, Jupyter');
    await jupyter.stop();
    await forgetStart(jupyter.mark);
    ending.done();
  }
}
