/** Pre-flight checks of notebooks (`/bridge/v1/checks/PATH`): the running check, and the report of `tpulab check --json`. */
import { type Static, type TSchema, Type } from '@sinclair/typebox';
import { JobError, JobState } from './jobs.js';
import { RemoteName } from './remotes.js';

const OrNull = <T extends TSchema>(type: T) => Type.Union([type, Type.Null()]);

const CheckPlace = Type.Object({
  file: Type.String({ description: 'name of the file; empty for a cell' }),
  line: Type.Integer(),
  cell: OrNull(Type.Integer({ description: 'position among the code cells, from 1' }))
});

/** A program on each device of a machine. */
const CheckResult = Type.Object({
  fits: Type.Union([
    Type.Literal('fits'),
    Type.Literal('tight'),
    Type.Literal('no'),
    Type.Literal('refused')
  ]),
  need: OrNull(Type.Number({ description: 'bytes on each device' })),
  compileSeconds: Type.Number(),
  collectives: Type.Array(Type.Object({ bytes: Type.Number() })),
  note: Type.String()
});

/** Other layouts of the main program, best first. */
const CheckProposals = Type.Object({
  reason: Type.String(),
  rows: Type.Array(
    Type.Object({
      name: Type.String(),
      need: OrNull(Type.Number({ description: 'bytes on each device' })),
      batch: Type.Integer(),
      fits: Type.Boolean(),
      collectiveBytes: Type.Number(),
      seconds: OrNull(Type.Number({ description: 'lower bound of a step of the whole batch' })),
      equal: OrNull(
        Type.Boolean({ description: 'results on CPU devices, compared with the program as written' })
      )
    })
  ),
  code: Type.Array(Type.String({ description: 'lines of the best layout' }))
});

const CheckTotal = Type.Object({
  compileSeconds: Type.Number(),
  program: OrNull(Type.String({ description: 'the main one: its step is meant below' })),
  stepSeconds: OrNull(Type.Number({ description: 'lower bound' })),
  bound: OrNull(Type.String()),
  chipHoursFor1000Steps: OrNull(Type.Number({ description: 'multiply them by the price of a chip hour' })),
  chipHoursForEpoch: OrNull(Type.Number()),
  epochSteps: OrNull(Type.Integer()),
  batch: OrNull(Type.Object({ fits: Type.Integer(), next: OrNull(Type.Integer()) })),
  proposals: Type.Optional(OrNull(CheckProposals))
});

/** US dollars per hour of a chip, by kind (`v5e`); a missing kind has no known price. */
const ChipPrices = Type.Record(
  Type.String({ pattern: '^[a-z0-9]{1,20}$' }),
  Type.Number({ minimum: 0, maximum: 1e6 }),
  { maxProperties: 100, additionalProperties: false }
);

/** The part of a report that pages read; the report contains more. */
export const CheckReport = Type.Object({
  format: Type.Literal(1),
  machines: Type.Array(
    Type.Object({
      name: Type.String(),
      kind: Type.String({ description: 'of its chips' }),
      chips: Type.Integer(),
      devices: Type.Integer(),
      usableBytes: Type.Number({ description: 'on each device' })
    })
  ),
  programs: Type.Array(
    Type.Object({
      name: Type.String(),
      variant: Type.Integer(),
      place: CheckPlace,
      results: Type.Record(Type.String(), CheckResult, { description: 'by machine' })
    })
  ),
  totals: Type.Record(Type.String(), CheckTotal, { description: 'by machine' }),
  findings: Type.Array(
    Type.Object({
      rule: Type.String(),
      level: Type.Union([Type.Literal('error'), Type.Literal('warning'), Type.Literal('note')]),
      message: Type.String(),
      place: OrNull(CheckPlace),
      where: Type.String({ description: 'the place in words' })
    })
  ),
  prices: Type.Object({
    date: Type.String({ description: 'of the list, YYYY-MM-DD' }),
    own: OrNull(
      Type.String({
        description: "path of the user's list; null: tpulab.toml names another one, which is used"
      })
    ),
    chipHourUsd: ChipPrices
  }),
  compiled: OrNull(
    Type.Object({
      file: Type.String({ description: 'with the compiled programs' }),
      bytes: Type.Number()
    })
  ),
  jax: OrNull(Type.String()),
  libtpu: OrNull(Type.String())
});
export type CheckReport = Static<typeof CheckReport>;

/**
 * The worst result of all programs of a notebook on a machine; `unknown` if the compiler refused one for another reason than
 * memory.
 */
export type Fit = 'fits' | 'tight' | 'no' | 'unknown';
export function fitOf({ programs }: Pick<CheckReport, 'programs'>, machine: string): Fit {
  const found = programs.map(({ results }) => results[machine]?.fits ?? 'refused');
  if (found.includes('no')) return 'no';
  if (found.length === 0 || found.includes('refused')) return 'unknown';
  return found.includes('tight') ? 'tight' : 'fits';
}

export const StoredCheck = Type.Object({
  checkedAt: Type.Number({ description: 'Unix ms' }),
  chips: Type.String(),
  isCurrent: Type.Boolean({ description: "The notebook's saved code has not changed since." }),
  cellIds: Type.Array(Type.String(), { description: 'of the checked code cells, in order' }),
  report: CheckReport
});
export type StoredCheck = Static<typeof StoredCheck>;

export const NotebookCheck = Type.Object({
  state: JobState,
  error: JobError,
  startedAt: OrNull(Type.Number({ description: 'Unix ms' })),
  detail: OrNull(Type.String({ description: 'for example "compiling train_step for v5e-8"' })),
  fraction: OrNull(Type.Number({ description: 'of its compilations or of a download; null: unknown' })),
  compiler: Type.Object({
    state: Type.Union([Type.Literal('ready'), Type.Literal('missing'), Type.Literal('unsupported')], {
      description: 'missing: a check installs it first; unsupported: libtpu has no wheel for this computer'
    }),
    diskMiB: OrNull(Type.Number())
  }),
  machines: Type.Array(Type.String(), { description: 'connected ones, which can check instead' }),
  last: OrNull(StoredCheck)
});
export type NotebookCheck = Static<typeof NotebookCheck>;

export function checkRoute(notebook: string, route: 'checks' | 'check-reports' = 'checks'): string {
  return `bridge/v1/${route}/${notebook.split('/').map(encodeURIComponent).join('/')}`;
}

/** A user's own price list. */
export const PriceChange = Type.Object({ chipHourUsd: ChipPrices });
export type PriceChange = Static<typeof PriceChange>;

export const CheckRequest = Type.Object({
  chips: Type.String({
    maxLength: 200,
    pattern: '^[a-z0-9, -]+$',
    description: 'machine types, with commas'
  }),
  on: Type.Optional(RemoteName),
  propose: Type.Optional(Type.Boolean({ description: 'search layouts of the main program too' })),
  saveCompiled: Type.Optional(
    Type.Boolean({
      description: 'write the compiled programs beside the notebook, for kernels on such machines'
    })
  )
});
export type CheckRequest = Static<typeof CheckRequest>;
