// @vitest-environment jsdom
import { act, type JSX } from 'react';
import { createRoot } from 'react-dom/client';
import { describe, expect, it, vi } from 'vitest';
import { DeleteHint, deleteCommand, Guide } from './guide.js';
const NODE = { kind: 'gcloud', product: 'tpu-vm', name: 'my-tpu', zone: 'us-east5-b' } as const;

function drawn(element: JSX.Element): HTMLElement {
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
  const host = document.createElement('div');
  act(() => createRoot(host).render(element));
  return host;
}

describe('the guide to a TPU', () => {
  it('is open if there is nothing to choose from, and has the command, the quota and the prices', () => {
    const host = drawn(<Guide isOpen hasColab={false} />);
    expect(host.querySelector('details')!.open).toBe(true);
    expect(host.querySelector('code')!.textContent).toMatch(/^gcloud compute tpus tpu-vm create my-tpu /);
    expect([...host.querySelectorAll('a')].map(({ textContent }) => textContent)).toEqual([
      'TPU quota',
      'prices',
      'TPU Research Cloud'
    ]);
    expect(host.textContent).toContain('the "colab" command on this machine, logged in');
  });

  it('is closed beside machines, and points to the runtimes of Colab that are offered', () => {
    const host = drawn(<Guide isOpen={false} hasColab />);
    expect(host.querySelector('details')!.open).toBe(false);
    expect(host.textContent).toContain('Choose one above.');
  });
});

describe('the command that deletes a machine', () => {
  it.each([
    [NODE, 'gcloud compute tpus tpu-vm delete my-tpu --zone=us-east5-b'],
    [
      { ...NODE, project: 'example.com:p-1' },
      'gcloud compute tpus tpu-vm delete my-tpu --zone=us-east5-b --project=example.com:p-1'
    ],
    [
      { ...NODE, product: 'queued-resource' } as const,
      'gcloud compute tpus queued-resources delete my-tpu --force --zone=us-east5-b'
    ],
    [{ ...NODE, product: 'instance' } as const, 'gcloud compute instances delete my-tpu --zone=us-east5-b']
  ])('belongs to its product and project', (source, command) => {
    expect(deleteCommand(source)).toBe(command);
  });

  it('is not offered for a name that a shell would take for more than a name', () => {
    for (const name of ['a; rm -rf ~', '$(x)', '--quiet', 'a b']) {
      expect(deleteCommand({ ...NODE, name })).toBeNull();
    }
    const host = drawn(<DeleteHint source={{ ...NODE, zone: '`x`' }} />);
    expect(host.textContent).toBe('');
  });
});
