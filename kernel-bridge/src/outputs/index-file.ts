/**
 * `outputs.index` in a kernel's folder: the index of executions, so that a new gateway need not read the whole journal. It
 * is rebuilt if it is missing, torn, or from another journal. The first line is the hash of the second.
 */
import { createHash } from 'node:crypto';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import {
  JournalError,
  type JournalReader,
  type JournalRecord,
  JournalTrimmedError
} from '../journal/index.js';
import { writeForThisBoot } from '@tpulab/platform/write-atomically.js';
import { Display, Execution, OutputWidget } from './execution.js';
import { readIfThere } from '@tpulab/platform/missing-files.js';

export const INDEX_FILE = 'outputs.index';

/** A record from which the index was built. After a power loss its number may belong to another record. */
const Witness = Type.Object({ seq: Type.Integer({ minimum: 1 }), sha256: Type.String() });
export type Witness = Static<typeof Witness>;

const IndexFile = Type.Object({
  version: Type.Literal(2),
  witness: Witness,
  state: Type.Object({
    throughSeq: Type.Integer({ minimum: 1 }),
    kernelSession: Type.Union([Type.String(), Type.Null()]),
    restartSeq: Type.Integer({ minimum: 0 }),
    /** Absent in the file of an earlier version. */
    processSeq: Type.Optional(Type.Integer({ minimum: 0 })),
    forgotten: Type.Integer({ minimum: 0 }),
    forgotDisplays: Type.Boolean(),
    executions: Type.Array(Execution),
    displays: Type.Array(Display),
    widgets: Type.Array(OutputWidget),
    captures: Type.Array(Type.Tuple([Type.String(), Type.Array(Type.String())]))
  })
});

type SavedIndex = Static<typeof IndexFile>;
export type IndexState = SavedIndex['state'];

/** Time, size and header distinguish records; the buffers of a widget need not be hashed. */
const WITNESS_BYTES = 4096;

export function witnessOf({ seq, timeNs, payload }: JournalRecord): Witness {
  const hash = createHash('sha256').update(`${timeNs}:${payload.length}:`);
  return { seq, sha256: hash.update(payload.subarray(0, WITNESS_BYTES)).digest('hex') };
}

/** The saved index, if it belongs to this journal; null if the index must be rebuilt. */
export async function loadIndex(file: string, reader: JournalReader): Promise<SavedIndex | null> {
  const text = await readIfThere(file);
  if (text === null) return null;
  const [hash, body = ''] = text.split('\n', 2);
  if (hash !== hashOf(body)) return null;
  const saved: unknown = JSON.parse(body);
  if (!Value.Check(IndexFile, saved)) return null;
  return (await isOfJournal(saved.witness, reader)) ? saved : null;
}

export async function saveIndex(file: string, state: IndexState, witness: Witness): Promise<void> {
  const body = JSON.stringify({ version: 2, witness, state });
  await writeForThisBoot(file, `${hashOf(body)}\n${body}\n`);
}

function hashOf(body: string): string {
  return createHash('sha256').update(body).digest('hex');
}

async function isOfJournal({ seq, sha256 }: Witness, reader: JournalReader): Promise<boolean> {
  try {
    for await (const record of reader.read(seq, { to: seq })) return witnessOf(record).sha256 === sha256;
    return false;
  } catch (error) {
    // Records that are no longer stored cannot have been renumbered.
    if (error instanceof JournalTrimmedError) return true;
    if (error instanceof JournalError) return false;
    throw error;
  }
}

export interface IndexLimits {
  readonly executions: number;
  readonly displays: number;
  readonly widgets: number;
}

export const INDEX_LIMITS: IndexLimits = { executions: 20_000, displays: 20_000, widgets: 1000 };
