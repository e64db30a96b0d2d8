/** A text to copy: a command, which breaks between its words, or a fingerprint. */
import { type JSX, type ReactNode, useState } from 'react';
import { FIRST } from './frame.js';
import { Icon } from './icons.js';
import { Button } from '../../ui/button.js';
import { trans } from '../../text/trans.js';

interface ICommandLineProps {
  readonly text: string;
  /** The button that copies it has the focus at first. */
  readonly isFirst?: boolean;
  /** Beside "Copy". */
  readonly children?: ReactNode;
}

export function CommandLine({ text, isFirst = false, children }: ICommandLineProps): JSX.Element {
  return (
    <div className="jp-TPULabCommand">
      <code>
        {text.split(/(\s+)/).map((word, index) => (
          <span key={index}>{word}</span>
        ))}
      </code>
      <span className="jp-TPULabCommand-buttons">
        <CopyButton text={text} isFirst={isFirst} />
        {children}
      </span>
    </div>
  );
}

export function CopyButton({ text, isFirst = false }: ICommandLineProps): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  const copy = (): void => {
    navigator.clipboard.writeText(text).then(
      () => setCopied(true),
      // The browser forbids it: the text can be selected.
      () => setCopied(false)
    );
  };
  return (
    <Button {...(isFirst && FIRST)} onClick={copy}>
      <Icon name={isCopied ? 'check' : 'copy'} />
      <span aria-live="polite">{isCopied ? trans.__('Copied') : trans.__('Copy')}</span>
    </Button>
  );
}
