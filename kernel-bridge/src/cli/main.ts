/** Entry of `bin/tpulab.js`. */
import { run } from './program.js';

const args = process.argv.slice(2);
/** These continue their work when nobody reads what they print. */
const goesOn = args.length === 0 || /^(serve|session|execute|run)$/.test(args[0] ?? '');

process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  // The reader has ended, as `head` and `less` do; the exit code is that of SIGPIPE.
  if (code !== 'EPIPE') process.stderr.write(`The output cannot be written: ${message}.\n`);
  if (!goesOn) process.exit(code === 'EPIPE' ? 141 : 1);
});
process.stderr.on('error', () => undefined);

const code = await run(args, process);
// Not `process.exit`: unwritten data in a pipe would be lost.
process.exitCode = code;
