/** Entry of `bin/tpulab.js`. */
import { run } from './program.js';

const code = await run(process.argv.slice(2), process);
// Not `process.exit`: what was written to a pipe would be lost.
process.exitCode = code;
