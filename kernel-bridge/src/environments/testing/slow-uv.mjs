#!/usr/bin/env node
/**
 * Stands between a creation and the real uv and never lets a package installation end, so that a test can interrupt
 * one in the middle. `TEST_REAL_UV` names the real one, `TEST_PID_FILE` where it says that it has come so far.
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';

const args = process.argv.slice(2);
if (args[0] === 'pip') {
  process.stderr.write('Resolved 62 packages in 5ms\n');
  writeFileSync(process.env.TEST_PID_FILE, String(process.pid));
  setInterval(() => undefined, 60_000);
} else {
  process.exitCode = spawnSync(process.env.TEST_REAL_UV, args, { stdio: 'inherit' }).status ?? 1;
}
