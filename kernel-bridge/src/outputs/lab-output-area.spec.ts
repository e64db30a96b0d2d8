// @vitest-environment jsdom
/**
 * Whether cells are shown as in our pages: JupyterLab's own output area, patched to edit whole characters, gets the same
 * messages.
 */
import fc from 'fast-check';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { displayIdOf, outputOf, pageOf } from './kernel-output.js';
import { OutputArea } from './output-area.js';
import { type Message, sequence } from './testing/message-sequences.js';

// JupyterLab's packages are many files, all of which are loaded before the first test.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

/** The parts of JupyterLab's packages that are used here; their own types require a browser. */
interface LabModules {
  readonly OutputAreaModel: new () => { toJSON(): unknown[]; dispose(): void };
  readonly OutputArea: new (options: object) => { future: object; dispose(): void };
  readonly RenderMimeRegistry: new () => object;
}

let lab: LabModules;
/** Not an import: specs of the bridge are compiled without the types of a browser. */
const WHOLE_CHARACTERS = '../../../extension/src/reattach/whole-characters.ts';

beforeAll(async () => {
  // jsdom has neither, and packages check for them at load time.
  vi.stubGlobal('DragEvent', class extends Event {});
  vi.stubGlobal('matchMedia', () => ({
    matches: false,
    addEventListener: () => undefined,
    addListener: () => undefined
  }));
  const load = (name: string) => import(name) as Promise<Record<string, unknown>>;
  lab = {
    ...(await load('@jupyterlab/outputarea')),
    ...(await load('@jupyterlab/rendermime'))
  } as unknown as LabModules;
  const { keepCharactersWhole } = await load(WHOLE_CHARACTERS);
  (keepCharactersWhole as () => void)();
});

type Listener = (message: object) => void;

/** As in JupyterLab's kernel connection, a display that was shown before is first updated in its place. */
function shownByLab(messages: readonly Message[], page: Record<string, unknown> | null): unknown[] {
  const model = new lab.OutputAreaModel();
  const area = new lab.OutputArea({ model, rendermime: new lab.RenderMimeRegistry() });
  const future = { done: Promise.resolve(), dispose: () => undefined } as unknown as {
    onIOPub: Listener;
    onReply: Listener;
  };
  area.future = future;
  const seen = new Set<unknown>();
  for (const { msgType, content } of messages) {
    const id = displayIdOf(content);
    if (msgType === 'display_data' && id !== null && seen.has(id)) {
      future.onIOPub({ header: { msg_type: 'update_display_data' }, content });
    }
    if (msgType === 'display_data') seen.add(id);
    future.onIOPub({ header: { msg_type: msgType }, content });
  }
  if (page !== null) future.onReply({ content: page });
  const shown = model.toJSON();
  area.dispose();
  model.dispose();
  return shown;
}

function shownByUs(messages: readonly Message[], reply: Record<string, unknown> | null): unknown[] {
  const area = new OutputArea(Infinity);
  let seq = 0;
  for (const { msgType, content } of messages) {
    const displayId = displayIdOf(content);
    const origin = { seq: ++seq, displayId };
    if (msgType === 'clear_output') area.clear(content['wait'] === true);
    const display = displayId === null ? null : outputOf('display_data', content);
    if (displayId !== null && display !== null) area.update(displayId, display, origin);
    const output = outputOf(msgType, content);
    if (output !== null) area.add(output, origin);
  }
  const page = reply === null ? null : pageOf(reply);
  if (page !== null) area.add(page, { seq: ++seq });
  return area.entries().map(({ output }) => output);
}

const page = fc.constantFrom(null, {
  status: 'ok',
  payload: [{ source: 'page', data: { 'text/plain': 'help' }, start: 0 }]
});

describe('outputs as JupyterLab shows them', () => {
  it('are the same for any sequence of messages', () => {
    fc.assert(
      fc.property(sequence, page, (messages, reply) => {
        expect(shownByUs(messages, reply)).toEqual(shownByLab(messages, reply));
      }),
      { numRuns: 300 }
    );
  });

  it('can be continued: a cursor in the middle of a line is where JupyterLab writes next', () => {
    const stream = fc.string({
      unit: fc.constantFrom('a', 'b', '\r', '\b', '\n'),
      minLength: 1,
      maxLength: 12
    });
    fc.assert(
      fc.property(stream, stream, (before, after) => {
        const area = new OutputArea(Infinity);
        area.add({ output_type: 'stream', name: 'stdout', text: before }, { seq: 1 });
        const [entry] = area.entries();
        const text = entry?.output.output_type === 'stream' ? entry.output.text : '';
        const lineStart = text.lastIndexOf('\n') + 1;
        // docs/server-api.md: how a page uses `cursor`.
        const restored = `${text}\r${text.slice(lineStart, entry?.cursor ?? 0)}`;
        const printed = [restored, after].map(each => ({
          msgType: 'stream',
          content: { name: 'stdout', text: each }
        }));
        area.add({ output_type: 'stream', name: 'stdout', text: after }, { seq: 2 });
        expect(shownByLab(printed, null)).toEqual(area.entries().map(({ output }) => output));
      })
    );
  });
});
