#!/usr/bin/env node
import { existsSync } from 'node:fs';

const entry = new URL('../lib/cli/main.js', import.meta.url);
if (existsSync(entry)) {
  await import(entry.href);
} else {
  console.error('The bridge is not built; run "npm run build" in the checkout.');
  process.exitCode = 1;
}
