import { beforeAll, describe, expect, it, vi } from 'vitest';
import { type ChannelsClient, isStatus, type Message } from '../testing/channels-client.js';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();
let kernelId: string;

beforeAll(async () => {
  kernelId = await bridge.startKernel();
});

interface WidgetData {
  readonly method?: string;
  readonly state?: Readonly<Record<string, unknown>>;
  readonly buffer_paths?: readonly unknown[];
  readonly content?: unknown;
}

function dataOf({ content }: Message): WidgetData {
  return content['data'] as WidgetData;
}

function commId({ content }: Message): string {
  return content['comm_id'] as string;
}

/** The comm of a widget with this model. */
function opened(client: ChannelsClient, model: string): Promise<Message> {
  return client.first(
    message => message.header.msg_type === 'comm_open' && dataOf(message).state?.['_model_name'] === model
  );
}

const BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

describe('widgets of a real kernel', () => {
  it('[18] are opened with their state, binary parts included, for every client', async () => {
    using client = await bridge.connect(kernelId);
    using watching = await bridge.connect(kernelId);
    await watching.run('pass');
    await client.run(
      'import ipywidgets\n' +
        'image = ipywidgets.Image(value=bytes(range(256)), format="png", width=1)\n' +
        'slider = ipywidgets.IntSlider(value=3)'
    );
    for (const seeing of [client, watching]) {
      const image = await opened(seeing, 'ImageModel');
      expect(dataOf(image).buffer_paths).toEqual([['value']]);
      expect(image.buffers).toEqual([BYTES]);
      expect(dataOf(await opened(seeing, 'IntSliderModel')).state).toMatchObject({ value: 3 });
    }
    // Towards the kernel, the page sends other bytes.
    const sent = Buffer.from([...BYTES].reverse());
    const update = { method: 'update', state: {}, buffer_paths: [['value']] };
    client.send('shell', 'comm_msg', { comm_id: commId(await opened(client, 'ImageModel')), data: update }, [
      sent
    ]);
    const id = client.execute('print(bytes(image.value) == bytes(range(256))[::-1])');
    await client.done(id);
    expect(client.printed(id)).toBe('True\n');
  });

  it('[18] send messages both ways, with buffers', async () => {
    using client = await bridge.connect(kernelId);
    await client.run(
      'import ipywidgets\n' +
        'button = ipywidgets.Button()\n' +
        'def echo(widget, content, buffers):\n' +
        '    widget.send({"echo": content}, [bytes(b)[::-1] for b in buffers])\n' +
        'button.on_msg(echo)'
    );
    const comm = commId(await opened(client, 'ButtonModel'));
    const data = { method: 'custom', content: { n: 1 } };
    client.send('shell', 'comm_msg', { comm_id: comm, data }, [BYTES, Buffer.alloc(0), Buffer.from('x')]);
    const echo = await client.first(
      message =>
        message.header.msg_type === 'comm_msg' &&
        commId(message) === comm &&
        dataOf(message).method === 'custom'
    );
    expect(dataOf(echo).content).toEqual({ echo: { n: 1 } });
    expect(echo.buffers).toEqual([Buffer.from([...BYTES].reverse()), Buffer.alloc(0), Buffer.from('x')]);
  });

  it('[18] are journaled in order of arrival, like output updates and clear_output', async () => {
    using client = await bridge.connect(kernelId, { sessionId: 'ordered' });
    // A client that is still attaching when its cell begins learns of it from a message that is not in the journal.
    await client.run('pass');
    const id = client.execute(`
import ipywidgets
from IPython.display import clear_output, display, update_display
progress = ipywidgets.IntProgress(max=20)
handle = display('start', display_id=True)
for n in range(20):
    progress.value = n
    print(n)
    handle.update(n)
    clear_output(wait=n % 2 == 0)
`);
    await client.done(id);
    const types = client
      .answers(id)
      .flatMap(({ channel, header }) => (channel === 'iopub' ? [header.msg_type] : []));
    expect(types.filter(type => type === 'update_display_data')).toHaveLength(20);
    expect(types.filter(type => type === 'clear_output')).toHaveLength(20);
    const waits = client
      .answers(id)
      .filter(({ header }) => header.msg_type === 'clear_output')
      .map(({ content }) => content['wait']);
    expect(waits).toEqual(Array.from({ length: 20 }, (_, n) => n % 2 === 0));
    const { body } = await bridge.rest('GET', `/bridge/v1/kernels/${kernelId}/journal?limit=10000`);
    const { entries } = body as {
      entries: { header: { msg_id: string } | null; parent_header: { msg_id?: string } | null }[];
    };
    const journaled = entries
      .filter(({ parent_header }) => parent_header?.msg_id === id)
      .map(({ header }) => header?.msg_id);
    expect(client.answers(id).map(({ header }) => header.msg_id)).toEqual(journaled);
  });

  it('[18] send their state to a page that attaches while a cell runs, and the page still sees the kernel as busy', async () => {
    using runs = await bridge.connect(kernelId, { sessionId: 'runs' });
    await runs.run(
      'import ipywidgets\n' +
        'shown = ipywidgets.IntProgress(value=1, max=9)\n' +
        'picture = ipywidgets.Image(value=bytes(range(256)), format="png")'
    );
    // An idle kernel gets such requests on its main shell.
    await runs.request('shell', 'comm_info_request');
    const before = await runs.request('control', 'list_subshell_request');
    expect(before.content['subshell_id']).toEqual([]);
    const cell = runs.execute('shown.value = 4\ninput("go on? ")\nshown.value = 9', { allow_stdin: true });
    await runs.first(({ header }) => header.msg_type === 'input_request');
    // The stdin question uses another socket and may arrive before this; until it has come, the kernel counts as idle.
    await runs.until(() => runs.answers(cell).some(message => isStatus(message, 'busy')));

    using page = await bridge.connect(kernelId, { sessionId: 'page' });
    const control = { comm_id: 'control-of-page', target_name: 'jupyter.widget.control', data: {} };
    page.send('shell', 'comm_open', control, [], { version: '1.0.0' });
    const request = { comm_id: control.comm_id, data: { method: 'request_states' } };
    const sent = page.send('shell', 'comm_msg', request);
    const answer = await page.first(
      message => message.header.msg_type === 'comm_msg' && commId(message) === control.comm_id
    );
    const { states, buffer_paths: paths } = answer.content['data'] as {
      states: Record<string, { model_name: string; state: Record<string, unknown> }>;
      buffer_paths: string[][];
    };
    const progress = Object.values(states).find(({ state }) => state['max'] === 9);
    expect(progress?.state).toMatchObject({ value: 4, max: 9 });
    expect(paths).toContainEqual([expect.any(String), 'state', 'value']);
    expect(answer.buffers).toContainEqual(BYTES);
    const info = await page.request('shell', 'comm_info_request', { target_name: 'jupyter.widget' });
    expect(Object.keys(info.content['comms'] as object)).toEqual(expect.arrayContaining(Object.keys(states)));

    // Both answers end with their own idle status; the newest status is still the cell's.
    const statuses = (): Message[] => page.messages.filter(({ header }) => header.msg_type === 'status');
    await page.until(() => statuses().some(({ parent }) => parent.msg_id === sent));
    await page.until(() => statuses().at(-1)?.parent.msg_id === cell);
    expect(statuses().at(-1)?.content).toEqual({ execution_state: 'busy' });
    expect(runs.answers(cell).some(({ channel }) => channel === 'shell')).toBe(false);

    runs.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await runs.done(cell);
    const live = await page.first(
      message => message.header.msg_type === 'comm_msg' && dataOf(message).state?.['value'] === 9
    );
    expect(states).toHaveProperty([commId(live)]);
  });
});
