/** `tpulab token`: a token for each client, which can be revoked without affecting the others. */
import { Value } from '@sinclair/typebox/value';
import { Command, Option } from 'commander';
import { prepareStateFolder } from '../gateway/state-folder.js';
import { type Level, LEVELS, type Rights, Rights as RightsSchema } from '../http/rights.js';
import { hasExpired, TokenError, type TokenRecord, TokenStore } from '../http/token-store.js';
import { chosenStateFolder, ofState, type StateOptions } from './running-gateway.js';
import { print, type Streams } from './output.js';

export function tokenCommand(streams: Streams): Command {
  const command = new Command('token').description(
    'manage named tokens for clients; a running server applies changes at once'
  );
  command.addCommand(
    ofState(new Command('add'))
      .alias('create')
      .description('create a token and print it once; only its digest is stored')
      .argument('<name>', 'who or what it is for')
      .addOption(
        new Option(
          '--may <level>',
          'what it is for: look on; also run cells and save; also interrupt, restart, shut down and steer runs; also use machines (default: everything)'
        ).choices(LEVELS)
      )
      .option(
        '--notebooks <pattern...>',
        'only these notebooks and their kernels, such as "work/**" (needs --may)'
      )
      .option('--kernels <pattern...>', 'only kernels with these ids (needs --may)')
      .option('--machines <pattern...>', 'only these machines (needs --may spend)')
      .option('--expires <when>', 'expiry: 90m, 12h, 30d, 8w, or a date like 2030-01-31 (default: never)')
      .action(async (name: string, options: AddOptions) => {
        const expiresAt = options.expires === undefined ? null : parseExpiry(options.expires, new Date());
        const stateDir = await chosenStateFolder(options.stateDir);
        await prepareStateFolder(stateDir);
        const rights = rightsOf(options);
        const { token, record } = await new TokenStore(stateDir).create(
          name,
          expiresAt,
          rights === null ? {} : { rights }
        );
        print(streams, options, { ...shown(record), token }, token);
      })
  );
  command.addCommand(
    ofState(new Command('list'))
      .description('show all named tokens')
      .action(async (options: StateOptions) => {
        const tokens = new TokenStore(await chosenStateFolder(options.stateDir)).list().map(shown);
        const lines = tokens.map(({ name, createdAt, expiresAt, expired, reads, rights }) => {
          const end =
            expiresAt === null ? 'does not expire' : `${expired ? 'expired' : 'expires'} ${expiresAt}`;
          const what = reads === undefined ? describe(rights) : `  reads ${reads} only`;
          return `${name}  created ${createdAt}  ${end}${what}`;
        });
        print(
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
        print(streams, options, { revoked: name }, `The token "${name}" is revoked.`);
      })
  );
  return command;
}

/** Omits the digest, which no caller needs. */
function shown({ name, createdAt, expiresAt, reads, rights }: TokenRecord) {
  const expired = hasExpired({ expiresAt }, Date.now());
  return {
    ...{ name, createdAt, expiresAt, expired },
    ...(reads === undefined ? {} : { reads }),
    ...(rights === undefined ? {} : { rights })
  };
}

interface AddOptions extends StateOptions {
  readonly expires?: string;
  readonly may?: Level;
  readonly notebooks?: string[];
  readonly kernels?: string[];
  readonly machines?: string[];
}

/** null: all rights. Patterns without a level would restrict nothing, so they are refused. */
function rightsOf({ may, notebooks, kernels, machines }: AddOptions): Rights | null {
  const patterns = {
    ...(notebooks && { notebooks }),
    ...(kernels && { kernels }),
    ...(machines && { remotes: machines })
  };
  if (may === undefined) {
    if (Object.keys(patterns).length === 0) return null;
    throw new TokenError(
      'token_rights_invalid',
      `Say what the token may do there: --may ${LEVELS.join(', --may ')}.`
    );
  }
  const rights = { level: may, ...patterns };
  if (!Value.Check(RightsSchema, rights)) {
    throw new TokenError(
      'token_rights_invalid',
      'A pattern has 1 to 256 characters, and there are at most 64 of a kind.'
    );
  }
  return rights;
}

function describe(rights: Rights | undefined): string {
  if (rights === undefined) return '';
  const { level, ...patterns } = rights;
  const where = Object.entries(patterns).map(
    ([kind, names]) => `  ${kind === 'remotes' ? 'machines' : kind} ${names.join(' ')}`
  );
  return `  may ${level}${where.join('')}`;
}

const UNIT_MS: Readonly<Record<string, number>> = {
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000
};

/** Expiry of a token: `12h`, `30d`, or a date. @throws TokenError `token_expiry_invalid` for other text, or a time in the past */
export function parseExpiry(text: string, now: Date): Date {
  const [, count, unit] = /^(\d{1,6})([mhdw])$/.exec(text) ?? [];
  const unitMs = UNIT_MS[unit ?? ''];
  const at =
    count !== undefined && unitMs !== undefined
      ? new Date(now.getTime() + Number(count) * unitMs)
      : /^\d{4}-\d\d-\d\d/.test(text)
        ? new Date(text)
        : new Date(NaN);
  if (!(at.getTime() > now.getTime()) || at.getUTCFullYear() > 9999) {
    throw new TokenError(
      'token_expiry_invalid',
      `"${text}" is not a time in the future; write 90m, 12h, 30d, 8w, or a date like 2030-01-31.`
    );
  }
  return at;
}
