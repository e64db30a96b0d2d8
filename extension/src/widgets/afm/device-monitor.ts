/** `tpulab.DeviceMonitor`: the devices of the kernel, with memory and duty cycle as far as they are known. */
import { summaryText } from '../../devices/model.js';
import { rangesText } from '../../devices/owners.js';
import { tileText } from '../../devices/tile-text.js';
import { COMPACT_UP_TO, type DeviceTile, summaryOf, TILES_UP_TO, tilesOf } from '../../devices/tiles.js';
import type { RenderProps, WidgetModule } from '../afm.js';
import { calmly, make, meter, setText } from '../dom.js';
import { openFeed } from '../feed.js';
import { dress } from '../style.js';
import { english } from '../words.js';

interface Chip {
  readonly element: HTMLElement;
  readonly duty: ReturnType<typeof meter> | null;
  readonly memory: ReturnType<typeof meter> | null;
}

function render({ model, el }: RenderProps): () => void {
  dress(el);
  const feed = openFeed(model);
  const head = make('strong');
  const meta = make('span', { class: 'tpulab-num tpulab-quiet' });
  const chips = make('ul', { class: 'tpulab-chips', 'aria-label': english.__('Devices by number') });
  const note = make('p', { class: 'tpulab-quiet' });
  el.append(make('div', { class: 'tpulab-row' }, head, meta), chips, note);
  let shown: Chip[] = [];
  let shape = '';
  const draw = (): void => {
    const { devices } = feed.kernel;
    const tiles = tilesOf(feed.machine?.sample ?? null, devices, feed.machine?.page ?? null);
    const summary = summaryOf(tiles);
    setText(
      head,
      summary.dutyPercent !== null
        ? `${tiles.length} devices busy ${Math.round(summary.dutyPercent)} %`
        : devices
          ? summaryText(devices, english)
          : 'No device yet'
    );
    setText(
      meta,
      summary.memory
        ? `HBM ${summary.memory.text}`
        : devices
          ? `${devices.runtime} ${devices.runtimeVersion}`
          : ''
    );
    setText(
      note,
      !devices
        ? 'Devices appear when a cell uses them: jax.devices()'
        : summary.full.length > 0
          ? `Nearly full: ${rangesText(summary.full)}. A smaller batch makes room.`
          : tiles.length > COMPACT_UP_TO
            ? 'Each cell is a device; its title says what is known of it.'
            : ''
    );
    const next = tiles.map(
      tile => `${tile.id}${tile.memory ? 'm' : ''}${tile.dutyPercent === null ? '' : 'd'}`
    );
    if (next.join() !== shape) {
      shape = next.join();
      chips.classList.toggle('tpulab-many', tiles.length > TILES_UP_TO || tiles.every(isBare));
      shown = tiles.map(chipOf);
      chips.replaceChildren(...shown.map(({ element }) => element));
    }
    tiles.forEach((tile, at) => update(shown[at], tile));
  };
  const calm = calmly(el, draw, 500);
  feed.onChange(calm.ask);
  draw();
  return () => {
    calm.dispose();
    feed.dispose();
  };
}

function isBare({ memory, dutyPercent }: DeviceTile): boolean {
  return memory === null && dutyPercent === null;
}

function chipOf({ id, memory, dutyPercent }: DeviceTile): Chip {
  const duty = dutyPercent === null ? null : meter(`Duty cycle of device ${id}`, 'duty');
  const used = memory ? meter(`Memory of device ${id}`, 'memory') : null;
  const element = make(
    'li',
    { class: 'tpulab-chip' },
    make('span', { class: 'tpulab-num' }, String(id)),
    duty?.element ?? null,
    used?.element ?? null
  );
  return { element, duty, memory: used };
}

function update(chip: Chip | undefined, tile: DeviceTile): void {
  if (!chip) {
    return;
  }
  chip.element.title = tileText(tile, english);
  chip.duty?.set(tile.dutyPercent ?? 0, `${Math.round(tile.dutyPercent ?? 0)} %`);
  chip.memory?.set((tile.memory?.fraction ?? 0) * 100, tile.memory?.text ?? '');
}

export default { render } satisfies WidgetModule;
