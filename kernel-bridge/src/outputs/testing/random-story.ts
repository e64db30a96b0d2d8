/** For specs: random notebooks, with displays that are updated from other cells, late output, and Output widgets. */
import fc from 'fast-check';
import { KernelStory } from './kernel-story.js';
import { OUTPUTS, type Said, said } from './message-sequences.js';

const WIDGETS = ['widget-1', 'widget-2'];

type Act = { readonly say: Said; readonly late: boolean } | { readonly into: number; readonly body: Said[] };

/** Without control characters: those are another spec's (lab-output-area). */
const plainText = fc.string({ unit: fc.constantFrom('a', 'b', '\n', ' ', '🙂'), minLength: 1, maxLength: 5 });
const plain = OUTPUTS.slice(2);
const stream = said('stream', fc.record({ name: fc.constantFrom('stdout', 'stderr'), text: plainText }));
const anything = fc.oneof(stream, ...plain);
/** Neither nbclient nor JupyterLab updates displays inside of a widget, so the oracle has nothing to say of them. */
const unnamed = anything.filter(({ content }) => !JSON.stringify(content).includes('display_id'));

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ say: anything, late: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({ into: fc.nat(WIDGETS.length - 1), body: fc.array(unnamed, { maxLength: 5 }) })
  }
);

export const story: fc.Arbitrary<KernelStory> = fc
  .array(fc.array(act, { maxLength: 8 }), { minLength: 1, maxLength: 5 })
  .map(cells => {
    const told = new KernelStory();
    let previous: string | null = null;
    cells.forEach((acts, index) => {
      told.cell(`cell-${index}`, `code ${index}`, index + 1, id => {
        if (index === 0) for (const commId of WIDGETS) openWidget(told, id, commId);
        for (const each of acts) perform(told, each, id, previous);
        previous = id;
      });
    });
    return told;
  });

function perform(told: KernelStory, each: Act, id: string, previous: string | null): void {
  if ('say' in each) {
    told.iopub(each.late && previous !== null ? previous : id, each.say.msgType, each.say.content);
    return;
  }
  const commId = WIDGETS[each.into] ?? '';
  capture(told, id, commId, id);
  for (const { msgType, content } of each.body) told.iopub(id, msgType, content);
  capture(told, id, commId, '');
}

export function openWidget(told: KernelStory, id: string, commId: string): void {
  const state = {
    _model_name: 'OutputModel',
    _model_module: '@jupyter-widgets/output',
    msg_id: '',
    outputs: []
  };
  told.iopub(id, 'comm_open', { comm_id: commId, target_name: 'jupyter.widget', data: { state } });
}

/** `msgId` is what the widget captures from now on, '' for nothing. */
export function capture(told: KernelStory, id: string, commId: string, msgId: string): void {
  told.iopub(id, 'comm_msg', { comm_id: commId, data: { method: 'update', state: { msg_id: msgId } } });
}
