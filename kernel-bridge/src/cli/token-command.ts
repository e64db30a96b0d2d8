/** `tpulab token`: a token for each client, which can be revoked without disturbing the others. */
import { Command } from 'commander';
import { chosenStateFolder, ofState, type StateOptions } from './chosen-gateway.js';
import { prepareStateFolder } from '../gateway/state-folder.js';
import { parseExpiry } from '../http/token-expiry.js';
import { hasExpired, type TokenRecord } from '../http/token-file.js';
import { TokenStore } from '../http/token-store.js';
import { say, type Streams } from './output.js';

export function tokenCommand(streams: Streams): Command {
  const command = new Command('token').description(
    'manage named tokens for clients; a running gateway applies changes at once'
  );
  command.addCommand(
    ofState(new Command('create'))
      .description('create a token and print it once; only its digest is stored')
      .argument('<name>', 'who or what it is for')
      .option('--expires <when>', 'expiry: 90m, 12h, 30d, 8w, or a date like 2030-01-31 (default: never)')
      .action(async (name: string, options: StateOptions & { readonly expires?: string }) => {
        const expiresAt = options.expires === undefined ? null : parseExpiry(options.expires, new Date());
        const stateDir = await chosenStateFolder(options.stateDir);
        await prepareStateFolder(stateDir);
        const { token, record } = await new TokenStore(stateDir).create(name, expiresAt);
        say(streams, options, { ...shown(record), token }, token);
      })
  );
  command.addCommand(
    ofState(new Command('list'))
      .description('show all named tokens')
      .action(async (options: StateOptions) => {
        const tokens = new TokenStore(await chosenStateFolder(options.stateDir)).list().map(shown);
        const lines = tokens.map(({ name, createdAt, expiresAt, expired, reads }) => {
          const end =
            expiresAt === null ? 'does not expire' : `${expired ? 'expired' : 'expires'} ${expiresAt}`;
          const what = reads === undefined ? '' : `  reads ${reads} only`;
          return `${name}  created ${createdAt}  ${end}${what}`;
        });
        say(
          streams,
          options,
          { tokens },
          lines.length === 0 ? 'There are no named tokens.' : lines.join('\n')
        );
      })
  );
  command.addCommand(
    ofState(new Command('revoke'))
      .description('revoke a token at once and close the sockets opened with it')
      .argument('<name>', 'name of the token')
      .action(async (name: string, options: StateOptions) => {
        await new TokenStore(await chosenStateFolder(options.stateDir)).revoke(name);
        say(streams, options, { revoked: name }, `The token "${name}" is revoked.`);
      })
  );
  return command;
}

/** Not the digest: nobody needs it. */
function shown({ name, createdAt, expiresAt, reads }: TokenRecord) {
  const expired = hasExpired({ expiresAt }, Date.now());
  return { name, createdAt, expiresAt, expired, ...(reads === undefined ? {} : { reads }) };
}
