/** Questions of ssh: whether a host key is right, a passphrase, a password. Nothing is trusted by Enter alone. */
import { type FormEvent, type JSX, useState } from 'react';
import type { HostKeyQuestion, RemotePrompt } from '@tpulab/protocol';
import { CommandLine } from './command-line.js';
import { FIRST } from './frame.js';
import { Icon } from './icons.js';
import { trans } from '../../text/trans.js';

interface IQuestionProps {
  readonly name: string;
  readonly prompt: RemotePrompt;
  readonly onAnswer: (value: string | boolean) => void;
}

/** Whether the pasted text has this fingerprint; null while it contains none. */
export function matchesFingerprint(fingerprint: string, pasted: string): 'same' | 'other' | null {
  const found = /SHA256:[A-Za-z0-9+/]{43}/.exec(pasted)?.[0];
  return found === undefined ? null : found === fingerprint.replace(/=$/, '') ? 'same' : 'other';
}

interface IHostKeyProps {
  readonly name: string;
  readonly hostKey: HostKeyQuestion;
  readonly pasted: string;
  readonly onPasted: (text: string) => void;
}

export function HostKeyCard({ name, hostKey, pasted, onPasted }: IHostKeyProps): JSX.Element {
  const { type, fingerprint, address, command } = hostKey;
  const compared = matchesFingerprint(fingerprint, pasted);
  return (
    <section className="jp-TPULabDialogCard jp-mod-ask" aria-label={trans.__('Host key')}>
      <h3>{trans.__('Do you trust this host key?')}</h3>
      <p className="jp-TPULabQuiet">
        {address === null
          ? trans.__('First connection to %1. Its key should match the one on the VM.', name)
          : trans.__('First connection to %1 (%2). Its key should match the one on the VM.', name, address)}
      </p>
      <h4>{trans.__('%1 fingerprint', type)}</h4>
      <CommandLine text={fingerprint} isFirst />
      {command === null ? null : (
        <>
          <h4>{trans.__('To see the fingerprint on the VM, run')}</h4>
          <CommandLine text={command} />
        </>
      )}
      <label className="jp-TPULabField">
        <span>
          {trans.__('Paste it here to compare')}{' '}
          <span className="jp-TPULabQuiet">{trans.__('(optional)')}</span>
        </span>
        <span className="jp-TPULabField-box">
          <input value={pasted} spellCheck={false} onChange={event => onPasted(event.target.value)} />
          <span role="status" className={`jp-TPULabBadge jp-mod-${compared ?? 'none'}`}>
            {compared === null ? null : (
              <>
                <Icon name={compared === 'same' ? 'check' : 'close'} />
                {compared === 'same' ? trans.__('Same key') : trans.__('Another key')}
              </>
            )}
          </span>
        </span>
      </label>
    </section>
  );
}

/** A secret, or a question of ssh that is not about a host key. The button that answers it belongs to `form`. */
export function SecretCard({
  prompt,
  onAnswer,
  form
}: IQuestionProps & { readonly form: string }): JSX.Element {
  const [value, setValue] = useState('');
  const onSubmit = (event: FormEvent): void => {
    event.preventDefault();
    onAnswer(prompt.kind === 'secret' ? value : true);
  };
  return (
    <form id={form} className="jp-TPULabDialogCard jp-mod-ask" onSubmit={onSubmit}>
      <h3>{trans.__('%1 asks', prompt.host)}</h3>
      <label className="jp-TPULabField">
        <span className="jp-TPULabPrompt">{prompt.text}</span>
        {prompt.kind === 'secret' ? (
          <span className="jp-TPULabField-box">
            <input
              {...FIRST}
              type="password"
              autoComplete="off"
              value={value}
              onChange={event => setValue(event.target.value)}
            />
          </span>
        ) : null}
      </label>
    </form>
  );
}
