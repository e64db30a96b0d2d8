/** The failure, in one sentence, and the one command that fixes it. */
import type { JSX, ReactNode } from 'react';
import { CommandLine } from './command-line.js';

interface IErrorProps {
  readonly message: string;
  readonly command?: string | null;
  readonly children?: ReactNode;
}

export function ErrorCard({ message, command = null, children }: IErrorProps): JSX.Element {
  const [first, rest] = firstSentence(message);
  return (
    <div className="jp-TPULabDialogCard jp-mod-bad" role="alert">
      <h3>{first}</h3>
      {rest === '' ? null : <p>{rest}</p>}
      {children}
      {command === null ? null : <CommandLine text={command} />}
    </div>
  );
}

/** The failure and its explanation. A dot inside a name or an address does not end a sentence. */
export function firstSentence(message: string): readonly [string, string] {
  const end = /[.!?](?=\s+[A-Z])/.exec(message);
  return end === null
    ? [message.replace(/\.$/, ''), '']
    : [message.slice(0, end.index), message.slice(end.index + 1).trim()];
}
