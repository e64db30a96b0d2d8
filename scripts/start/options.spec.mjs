// @ts-check
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { describe, expect, it, vi } from 'vitest';
import { checkout } from '../setup/checkout.mjs';
import { parseOptions } from './options.mjs';
import { choosePort } from './port.mjs';

describe('the options of npm start', () => {
  it('have defaults', () => {
    expect(parseOptions([])).toEqual({
      help: false,
      port: null,
      browser: true,
      notebookDir: checkout.notebooks,
      setupOnly: false
    });
  });

  it('are accepted', () => {
    const argv = ['--port', '9000', '--no-browser', '--notebook-dir', tmpdir(), '--setup-only'];
    expect(parseOptions(argv)).toMatchObject({
      port: 9000,
      browser: false,
      notebookDir: tmpdir(),
      setupOnly: true
    });
  });

  it.each([
    [['--prot', '1'], '--help'],
    [['--port', '0'], 'from 1 to 65535'],
    [['--port', 'http'], 'from 1 to 65535'],
    [['--port', '70000'], 'from 1 to 65535'],
    [['--notebook-dir', '/nowhere/at/all'], 'does not exist'],
    [['--notebook-dir', new URL(import.meta.url).pathname], 'is not a folder']
  ])('%j are refused with what to do', (argv, words) => {
    expect(() => parseOptions(argv)).toThrow(words);
  });
});

describe('the port', () => {
  it('is refused with the remedy when it was requested and is in use', async () => {
    const server = createServer();
    const port = await new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, '127.0.0.1', () => {
        const address = server.address();
        resolve(typeof address === 'object' && address ? address.port : 0);
      });
    });
    try {
      await expect(choosePort(port)).rejects.toMatchObject({
        code: 'port-taken',
        message: expect.stringContaining('--port')
      });
    } finally {
      server.close();
    }
  });

  it('is a free one unless requested', async () => {
    // Another program may claim it just then: the next one is as good.
    await vi.waitFor(
      async () => {
        const port = await choosePort(null);
        expect(await choosePort(port)).toBe(port);
      },
      { timeout: 20_000 }
    );
  });
});
