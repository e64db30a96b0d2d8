/** For specs: random notebooks, with displays that are updated from other cells, late output, and Output widgets. */
import fc from 'fast-check';
import { KernelStory } from './kernel-story.js';
import { OUTPUTS, type Message, output } from './message-sequences.js';

const WIDGETS = ['widget-1', 'widget-2'];

type Act =
  | { readonly say: Message; readonly late: boolean }
  | { readonly into: number; readonly body: Message[] };

/** Without control characters, which another spec covers (lab-output-area). */
const plainText = fc.string({ unit: fc.constantFrom('a', 'b', '\n', ' ', '🙂'), minLength: 1, maxLength: 5 });
const plain = OUTPUTS.slice(2);
const stream = output('stream', fc.record({ name: fc.constantFrom('stdout', 'stderr'), text: plainText }));
const anything = fc.oneof(stream, ...plain);
/** Neither nbclient nor JupyterLab updates displays inside a widget, so the oracle has no result for them. */
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
    const story = new KernelStory();
    let previous: string | null = null;
    cells.forEach((acts, index) => {
      story.cell(`cell-${index}`, `code ${index}`, index + 1, id => {
        if (index === 0) for (const commId of WIDGETS) openWidget(story, id, commId);
        for (const each of acts) perform(story, each, id, previous);
        previous = id;
      });
    });
    return story;
  });

function perform(story: KernelStory, each: Act, id: string, previous: string | null): void {
  if ('say' in each) {
    story.iopub(each.late && previous !== null ? previous : id, each.say.msgType, each.say.content);
    return;
  }
  const commId = WIDGETS[each.into] ?? '';
  capture(story, id, commId, id);
  for (const { msgType, content } of each.body) story.iopub(id, msgType, content);
  capture(story, id, commId, '');
}

export function openWidget(story: KernelStory, id: string, commId: string): void {
  const state = {
    _model_name: 'OutputModel',
    _model_module: '@jupyter-widgets/output',
    msg_id: '',
    outputs: []
  };
  story.iopub(id, 'comm_open', { comm_id: commId, target_name: 'jupyter.widget', data: { state } });
}

/** `msgId` is the execution that the widget captures from now on, '' for none. */
export function capture(story: KernelStory, id: string, commId: string, msgId: string): void {
  story.iopub(id, 'comm_msg', { comm_id: commId, data: { method: 'update', state: { msg_id: msgId } } });
}
