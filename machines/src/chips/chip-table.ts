/** The table of chips: our own, with changes and additions from a user's file. */
import { readFile } from 'node:fs/promises';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { ChipSpec } from '@tpulab/protocol';
import { CHIPS } from './chip-data.js';
import { CodedError } from '@tpulab/platform/errors.js';

/** An entry for one of our chips needs only the changed fields; the merged entry is validated. */
const ChipFile = Type.Object(
  {
    chips: Type.Array(
      Type.Intersect([
        Type.Object({ name: ChipSpec.properties.name }),
        Type.Record(Type.String(), Type.Unknown())
      ])
    )
  },
  { additionalProperties: false }
);

/** Fields that an additional chip may omit. */
const CHIP_DEFAULTS = {
  deviceKinds: [],
  pci: [],
  hbmGiB: null,
  usableGiBPerDevice: null,
  hbmGBPerS: null,
  iciGBPerS: null,
  topology: null,
  tflops: {},
  chipsPerHost: [],
  source: 'the file of this machine',
  notes: null
};

export class ChipTable {
  readonly #chips: ReadonlyMap<string, ChipSpec>;

  /** @param own the entries of `chips` that come from a user's file */
  constructor(
    chips: readonly ChipSpec[] = CHIPS,
    private readonly own: readonly ChipSpec[] = []
  ) {
    this.#chips = new Map(chips.map(chip => [chip.name, chip]));
  }

  /** @throws DeviceError `chip_table_unusable` */
  static async read(file: string): Promise<ChipTable> {
    let json: unknown;
    try {
      json = JSON.parse(await readFile(file, 'utf8'));
    } catch (cause) {
      const why = (cause as NodeJS.ErrnoException).code ?? 'it is not JSON';
      throw new DeviceError('chip_table_unusable', `The chip table ${file} cannot be read (${why}).`, {
        cause
      });
    }
    if (!Value.Check(ChipFile, json)) throw unusable(file, 'it should be {"chips": [{"name": …}, …]}');
    const own = ownChips(json, file);
    const names = new Set(own.map(({ name }) => name));
    // The user's chips come first, so that they are preferred if both match.
    return new ChipTable([...own, ...CHIPS.filter(({ name }) => !names.has(name))], own);
  }

  get(name: string): ChipSpec | null {
    return this.#chips.get(name) ?? null;
  }

  list(): ChipSpec[] {
    return [...this.#chips.values()];
  }

  /** Finds a chip by the ids of its PCI function, in sysfs notation. */
  byPci(device: string, subsystem: string | null): ChipSpec | null {
    return (
      this.list().find(({ pci }) =>
        pci.some(id => id.device === device && (id.subsystem === null || id.subsystem === subsystem))
      ) ?? null
    );
  }

  /**
   * The user's chips for the agents in kernels: bf16 operations per second of one device, by the device kind that the
   * runtime reports. null if the file gives none, which removes the value of the agent's own table.
   */
  ownPeakFlops(): Record<string, number | null> {
    return Object.fromEntries(
      this.own.flatMap(({ deviceKinds, tflops, devices }) => {
        const { bf16 } = tflops;
        return deviceKinds.map(kind => [kind, bf16 === undefined ? null : (bf16 * 1e12) / devices] as const);
      })
    );
  }
}

function ownChips({ chips }: Static<typeof ChipFile>, file: string): ChipSpec[] {
  const own = chips.map(given => {
    const chip = { ...CHIP_DEFAULTS, ...CHIPS.find(({ name }) => name === given.name), ...given };
    if (Value.Check(ChipSpec, chip)) return chip;
    const fault = Value.Errors(ChipSpec, chip).First();
    throw unusable(
      file,
      `${given.name}${(fault?.path ?? '').replaceAll('/', '.')}: ${fault?.message ?? 'not valid'}`
    );
  });
  const names = new Set(own.map(({ name }) => name));
  if (names.size < own.length) throw unusable(file, 'two chips have one name');
  return own;
}

function unusable(file: string, why: string): DeviceError {
  return new DeviceError(
    'chip_table_unusable',
    `The chip table ${file} cannot be used: ${why}; docs/devices.md describes it.`
  );
}

export type DeviceErrorCode = 'chip_table_unusable';

/** Why a user's description of chips is unusable. */
export class DeviceError extends CodedError<DeviceErrorCode> {}
