/** The differences of a file that has changed here and elsewhere, side by side. */
import { type JSX, useEffect, useState } from 'react';
import { type Row, sideBySide } from '../files/side-by-side.js';
import type { Part } from '../files/notebook-text.js';
import type { Saving } from '../files/saving.js';
import { messageOf, trans } from '../text.js';

/** Lines around a change that are shown with it. */
const CONTEXT_LINES = 2;
/** A card shows no more: the copy has all lines. */
const MAX_LINES = 40;

/** The user may type on, and outputs arrive, while the card is open. */
const UPDATE_MS = 2_000;

interface Change {
  /** Number of the part, from 1. */
  readonly at: number;
  readonly mine: readonly string[];
  readonly theirs: readonly string[];
  readonly rows: readonly (Row | null)[];
}

interface Compared {
  readonly changes: readonly Change[];
  readonly same: number;
  readonly different: number;
}

export default function Versions({ saving }: { readonly saving: Saving }): JSX.Element {
  const [compared, setCompared] = useState<Compared | null>(null);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    const update = (): void =>
      void saving.theirs().then(
        text => setCompared(compare(saving.parts(saving.text()), saving.parts(text))),
        (error: unknown) => setProblem(messageOf(error))
      );
    update();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const onChange = (): void => {
      timer ??= setTimeout(() => {
        timer = undefined;
        update();
      }, UPDATE_MS);
    };
    saving.changed.connect(onChange);
    return () => {
      clearTimeout(timer);
      saving.changed.disconnect(onChange);
    };
  }, [saving]);
  if (compared === null) return <p>{problem}</p>;
  const isOne = compared.same + compared.different === 1;
  return (
    <>
      {isOne ? null : <p>{summary(compared)}</p>}
      {compared.changes
        .filter(({ rows }) => rows.length > 0)
        .map(change => (
          <Comparison key={change.at} change={change} isOne={isOne} />
        ))}
    </>
  );
}

function summary({ changes, same, different }: Compared): string {
  const rest = trans._n('1 other cell is the same.', '%1 other cells are the same.', same);
  const outputs = different - changes.length;
  return [
    trans._n('1 cell differs.', '%1 cells differ.', different),
    ...(outputs > 0
      ? [trans._n('1 of them in its outputs only.', '%1 of them in their outputs only.', outputs)]
      : []),
    rest
  ].join(' ');
}

function Comparison({ change, isOne }: { readonly change: Change; readonly isOne: boolean }): JSX.Element {
  const line = (side: 'mine' | 'theirs', row: Row): JSX.Element => {
    const at = row[side];
    return (
      <>
        <td className="tpl-Conflict-number">{at === null ? '' : at + 1}</td>
        <td className={row.isSame ? undefined : `jp-mod-${side}`}>{at === null ? '' : change[side][at]}</td>
      </>
    );
  };
  return (
    <table>
      {isOne ? null : <caption>{trans.__('Cell %1', change.at)}</caption>}
      <colgroup>
        <col className="tpl-Conflict-number" />
        <col />
        <col className="tpl-Conflict-number" />
      </colgroup>
      <thead>
        <tr>
          <th colSpan={2} scope="col">
            {trans.__('Mine')} <span>{trans.__('unsaved, in this page')}</span>
          </th>
          <th colSpan={2} scope="col">
            {trans.__('Theirs')} <span>{trans.__('in the file')}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {change.rows.map((row, at) =>
          row === null ? (
            <tr key={at}>
              <td colSpan={4}>…</td>
            </tr>
          ) : (
            <tr key={at}>
              {line('mine', row)}
              {line('theirs', row)}
            </tr>
          )
        )}
      </tbody>
    </table>
  );
}

function compare(mine: readonly Part[], theirs: readonly Part[]): Compared {
  const rows = sideBySide(
    mine.map(({ whole }) => whole),
    theirs.map(({ whole }) => whole)
  );
  const different = rows.filter(({ isSame }) => !isSame);
  const lines = (parts: readonly Part[], at: number | null): string[] =>
    at === null ? [] : (parts[at]?.text ?? '').split('\n');
  let room = MAX_LINES;
  const changes = different.flatMap((row): Change[] => {
    const [a, b] = [lines(mine, row.mine), lines(theirs, row.theirs)];
    const found = sideBySide(a, b);
    if (found.every(({ isSame }) => isSame)) return [];
    const shown = room > 0 ? around(found).slice(0, room) : [];
    room -= shown.length;
    return [{ at: (row.mine ?? row.theirs ?? 0) + 1, mine: a, theirs: b, rows: shown }];
  });
  return { changes, same: rows.length - different.length, different: different.length };
}

/** The changes and the lines around them; null: omitted lines. */
function around(rows: readonly Row[]): (Row | null)[] {
  const isNear = (at: number): boolean =>
    rows.slice(Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1).some(({ isSame }) => !isSame);
  return rows.flatMap((row, at) => (isNear(at) ? [row] : at > 0 && isNear(at - 1) ? [null] : []));
}
