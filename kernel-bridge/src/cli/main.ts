/** Entry of `bin/tpulab.js`. */
import { run } from './program.js';

const args = process.argv.slice(2);
/** These commands continue their work when the reader of their output has ended. */
const continuesWithoutReader = args.length === 0 || /^(serve|session|execute|run)$/.test(args[0] ?? '');

process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  // The reader has ended early, as `head` and `less` do; the exit code is the one for SIGPIPE.
  if (code !== 'EPIPE') process.stderr.write(`The output cannot be written: ${message}.\n`);
  if (!continuesWithoutReader) process.exit(code === 'EPIPE' ? 141 : 1);
});
process.stderr.on('error', () => undefined);

const code = await run(args, process);
// Not `process.exit`: unwritten data in a pipe would be lost.
process.exitCode = code;
