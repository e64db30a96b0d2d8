/** The texts of a report, for its tables in the panel and for its Markdown. No DOM. */
import { type CheckReport, durationText, type Fit, fitOf, sizeText, threeFigures } from '@tpulab/protocol';
import { fitText } from '../remotes/dialog/fit.js';
import { trans } from '../text/trans.js';

export type CheckedMachine = CheckReport['machines'][number];
export type CheckedProgram = CheckReport['programs'][number];
type Total = CheckReport['totals'][string];

const GIB = 2 ** 30;

export function verdict(report: CheckReport): string {
  const sentence = (fit: Fit, text: (names: string) => string): string => {
    const names = report.machines.map(({ name }) => name).filter(name => fitOf(report, name) === fit);
    return names.length === 0 ? '' : text(names.join(', '));
  };
  return [
    sentence('fits', names => trans.__('Fits %1.', names)),
    sentence('tight', names => trans.__('Tight on %1.', names)),
    sentence('no', names => trans.__('Does not fit %1.', names)),
    sentence('unknown', names => trans.__('Unknown for %1.', names))
  ]
    .filter(Boolean)
    .join(' ');
}

/** Rows below the programs, for each machine. The epoch and the largest batch appear only if the check was asked for them. */
export function sumsOf({
  machines,
  programs,
  totals,
  prices
}: CheckReport): (readonly [title: string, texts: readonly (string | null)[]])[] {
  const row = (title: string, text: (total: Total, machine: CheckedMachine) => string | null) =>
    [
      title,
      machines.map(machine => {
        const total = totals[machine.name];
        return total ? text(total, machine) : null;
      })
    ] as const;
  const money = (chipHours: number | null, { kind }: CheckedMachine): string | null => {
    const price = prices.chipHourUsd[kind];
    return chipHours === null ? null : price === undefined ? trans.__('unknown') : dollars(chipHours * price);
  };
  const moved = ({ program }: Total, { name }: CheckedMachine): string | null => {
    const main = programs.find(one => one.name === program)?.results[name];
    const bytes = main?.collectives.reduce((sum, one) => sum + one.bytes, 0);
    return bytes === undefined ? null : bytes === 0 ? trans.__('none') : sizeText(bytes);
  };
  const requested = [
    row(trans.__('Epoch from'), ({ chipHoursForEpoch }, machine) => money(chipHoursForEpoch, machine)),
    row(trans.__('Largest batch'), ({ batch }) => (batch === null ? null : String(batch.fits)))
  ];
  return [
    row(trans.__('Compile, s'), ({ compileSeconds }) => compileSeconds.toFixed(1)),
    row(trans.__('Step at least'), ({ stepSeconds }) =>
      stepSeconds === null ? null : stepText(stepSeconds)
    ),
    row(trans.__('Bound by'), ({ bound }) => bound),
    row(trans.__('Collectives'), moved),
    row(trans.__('Price per hour'), (_, machine) => money(machine.chips, machine)),
    row(trans.__('1,000 steps from'), (total, machine) => money(total.chipHoursFor1000Steps, machine)),
    ...requested.filter(([, texts]) => texts.some(text => text !== null))
  ];
}

/** For a pull request or a wiki: the verdict, the table, the findings and the lines of the layouts. */
export function markdownOf(notebook: string, report: CheckReport): string {
  const { machines, programs, findings, totals, prices } = report;
  const needs = programs.map(program => [
    `\`${programName(program)}\` ${placeText(program.place)}`,
    ...machines.map(machine => {
      const fit = fitOf({ programs: [program] }, machine.name);
      const need = program.results[machine.name]?.need ?? null;
      return [need === null ? '' : gibText(need, machine), fitText(fit)].join(' ').trim();
    })
  ]);
  const sums = sumsOf(report).map(([title, texts]) => [title, ...texts.map(text => text ?? '–')]);
  const head = [trans.__('GiB per chip'), ...machines.map(({ name }) => name)];
  const rule = head.map((_, column) => (column === 0 ? '---' : '---:'));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  const layouts = machines.flatMap(({ name }) => {
    const code = totals[name]?.proposals?.code ?? [];
    return code.length === 0 ? [] : ['', trans.__('Layout for %1:', name), '', '```python', ...code, '```'];
  });
  return [
    `**${notebook}**: ${verdict(report)}`,
    '',
    ...[head, rule, ...needs, ...sums].map(line),
    '',
    ...findings.map(({ level, where, message }) => `- **${level}** ${where} ${message}`),
    ...layouts,
    '',
    trans.__('Lower bounds: a real step takes longer. Price list of %1.', prices.date),
    ''
  ].join('\n');
}

export function programName({ name, variant }: CheckedProgram): string {
  return variant > 1 ? `${name} (${variant})` : name;
}

export function placeText({ cell, file, line }: CheckedProgram['place']): string {
  return cell === null ? `${file}:${line}` : `cell [${cell}]:${line}`;
}

/** A machine may have several devices on a chip. */
export function perChip(bytesOnDevice: number, { chips, devices }: CheckedMachine): number {
  return (bytesOnDevice * devices) / chips / GIB;
}

export function gibText(bytesOnDevice: number, machine: CheckedMachine): string {
  const gib = perChip(bytesOnDevice, machine);
  return gib.toFixed(gib >= 9.95 ? 1 : gib >= 0.095 ? 2 : 3);
}

function dollars(usd: number): string {
  return usd < 0.01 ? '< $0.01' : `$${usd.toFixed(2)}`;
}

export function stepText(seconds: number): string {
  return seconds < 1e-3 ? `${threeFigures(seconds * 1e6)} µs` : durationText(seconds * 1e3);
}
