/** Lists of possible targets, below one field that searches them and accepts any other host. */
import { type JSX, type ReactNode, useEffect, useRef } from 'react';
import type { RemoteCandidates } from '@tpulab/protocol';
import { CLOUD_FORM } from '../target.js';
import type { IChoice, IChoiceGroup } from './choices.js';
import { CommandLine } from './command-line.js';
import { FitMark, fitText } from './fit.js';
import { FIRST } from './frame.js';
import { Guide } from './guide.js';
import { Icon } from './icons.js';
import { Button } from '../../ui/button.js';
import { trans } from '../../text/trans.js';

interface IFieldProps {
  readonly text: string;
  readonly onText: (text: string) => void;
  readonly groups: readonly IChoiceGroup[];
  readonly active: IChoice | null;
  readonly onMove: (step: 1 | -1) => void;
  readonly onEnter: () => void;
}

export function SearchField(props: IFieldProps): JSX.Element {
  const { text, onText, groups, active, onMove, onEnter } = props;
  const onKeyDown = (event: React.KeyboardEvent): void => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      onMove(event.key === 'ArrowDown' ? 1 : -1);
    } else if (event.key === 'Enter' && !event.nativeEvent.isComposing) {
      event.preventDefault();
      onEnter();
    } else if (event.key === 'Escape' && text !== '') {
      event.preventDefault();
      onText('');
    }
  };
  return (
    <div className="jp-TPULabFind">
      <Icon name="search" />
      <input
        {...FIRST}
        role="combobox"
        aria-expanded={groups.length > 0}
        aria-controls={groups.map(({ id }) => listId(id)).join(' ') || undefined}
        aria-activedescendant={active ? optionId(active) : undefined}
        aria-autocomplete="list"
        aria-label={trans.__('Search, or type a host')}
        placeholder={trans.__('Search, or type a host')}
        // The dialog leaves Escape to a field with text in it.
        data-tpulab-escape={text === '' ? undefined : ''}
        spellCheck={false}
        autoComplete="off"
        value={text}
        onChange={event => onText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {text === '' ? (
        <span className="jp-TPULabQuiet jp-mod-small jp-TPULabWide">
          {trans.__('for example %1', `me@192.0.2.7, ${CLOUD_FORM}`)}
        </span>
      ) : (
        <kbd>{trans.__('Esc')}</kbd>
      )}
    </div>
  );
}

interface IListsProps {
  readonly text: string;
  readonly groups: readonly IChoiceGroup[];
  readonly active: IChoice | null;
  readonly candidates: RemoteCandidates | null;
  /** Why ssh and gcloud gave no answer. */
  readonly problem: string | null;
  readonly isLoading: boolean;
  readonly onActive: (choice: IChoice) => void;
  readonly onChoose: (choice: IChoice) => void;
  readonly onRefresh: () => void;
  readonly onProject: () => void;
}

export function Lists(props: IListsProps): JSX.Element {
  const { text, groups, candidates, problem, isLoading, onRefresh, onProject } = props;
  const isSearch = text.trim() !== '';
  const group = (id: IChoiceGroup['id']): IChoiceGroup | undefined => groups.find(one => one.id === id);
  const list = (id: IChoiceGroup['id'], label: string): JSX.Element | null => {
    const found = group(id);
    return found ? <ChoiceList {...props} group={found} label={label} /> : null;
  };
  const typed = list('typed', trans.__('What you typed'));
  const typedComesFirst = groups[0]?.id === 'typed';
  const gcloud = candidates?.gcloud ?? null;
  return (
    <>
      {typedComesFirst ? typed : null}
      {group('recent') ? (
        <section aria-label={trans.__('Recent')}>
          <GroupHead title={trans.__('Recent')} />
          {list('recent', trans.__('Recent'))}
        </section>
      ) : null}
      {gcloud?.state === 'missing' && isSearch ? null : (
        <section aria-label={trans.__('TPU VMs')}>
          <GroupHead title={trans.__('TPU VMs')}>
            {gcloud?.project == null ? null : (
              <>
                <span className="jp-TPULabQuiet">{trans.__('in')}</span>
                <button type="button" className="jp-TPULab-link" onClick={onProject}>
                  {gcloud.project}
                </button>
              </>
            )}
            <Button
              kind="bare"
              className="jp-mod-tiny"
              aria-label={trans.__('Refresh')}
              disabled={isLoading}
              onClick={onRefresh}
            >
              <Icon name="sync" />
            </Button>
          </GroupHead>
          {list('machines', trans.__('TPU VMs'))}
          <MachinesHint {...props} hasMachines={group('machines') !== undefined} />
        </section>
      )}
      {group('colab') || (candidates?.colab !== undefined && !isSearch) ? (
        <section aria-label={trans.__('Google Colab')}>
          <GroupHead title={trans.__('Google Colab')} />
          {list('colab', trans.__('Google Colab'))}
          {candidates?.colab === undefined || candidates.colab.state === 'ok' ? null : (
            <div className="jp-TPULabDialogCard jp-mod-hint">
              <p className="jp-TPULabQuiet">{candidates.colab.message}</p>
              {candidates.colab.remedy === null ? null : <CommandLine text={candidates.colab.remedy} />}
            </div>
          )}
        </section>
      ) : null}
      {isSearch && !group('hosts') ? null : (
        <section aria-label={trans.__('ssh hosts')}>
          <GroupHead title={trans.__('ssh hosts')} />
          {list('hosts', trans.__('ssh hosts'))}
          {group('hosts') || candidates === null || isLoading || problem !== null ? null : (
            <p className="jp-TPULabHint">{trans.__('No other hosts in your ssh config.')}</p>
          )}
        </section>
      )}
      {typedComesFirst ? null : typed}
      {isSearch || isLoading || candidates === null ? null : (
        <Guide isOpen={groups.length === 0} hasColab={group('colab') !== undefined} />
      )}
    </>
  );
}

/** Why there are no machines, or which ones are not listed. */
function MachinesHint(props: IListsProps & { readonly hasMachines: boolean }): JSX.Element | null {
  const { text, candidates, problem, isLoading, hasMachines, onRefresh } = props;
  const gcloud = candidates?.gcloud ?? null;
  if (isLoading) {
    return (
      <p className="jp-TPULabHint" role="status">
        <span className="jp-TPULabRing" /> {trans.__('Asking ssh and gcloud…')}
      </p>
    );
  }
  if (problem !== null) {
    return (
      <p className="jp-TPULabHint" role="status">
        {problem}
      </p>
    );
  }
  if (gcloud === null) return null;
  if (gcloud.state !== 'ok') {
    return (
      <div className="jp-TPULabDialogCard jp-mod-hint">
        <h3>{gcloud.message}</h3>
        <p className="jp-TPULabQuiet">
          {trans.__('gcloud lists the TPU VMs of your project. You can connect without it by typing a host.')}
        </p>
        {gcloud.remedy === null ? (
          <Button onClick={onRefresh}>
            <Icon name="sync" />
            {trans.__('Check again')}
          </Button>
        ) : (
          <CommandLine text={gcloud.remedy}>
            <Button onClick={onRefresh}>
              <Icon name="sync" />
              {trans.__('Check again')}
            </Button>
          </CommandLine>
        )}
      </div>
    );
  }
  const others = trans.__('Queued resources and instance groups are not listed: type them.');
  if (text.trim() !== '') {
    return (
      <p className="jp-TPULabHint">
        {hasMachines ? others : `${trans.__('Nothing else matches.')} ${others}`}
      </p>
    );
  }
  return gcloud.machines.length > 0 ? null : (
    <p className="jp-TPULabHint">
      {trans.__('No TPU VMs in this project.')} {others}
    </p>
  );
}

function GroupHead({
  title,
  children
}: {
  readonly title: string;
  readonly children?: ReactNode;
}): JSX.Element {
  return (
    <div className="jp-TPULabGroup">
      <h3>{title}</h3>
      {children}
    </div>
  );
}

function ChoiceList({
  group,
  label,
  active,
  onActive,
  onChoose
}: IListsProps & { readonly group: IChoiceGroup; readonly label: string }): JSX.Element {
  return (
    <div role="listbox" id={listId(group.id)} aria-label={label}>
      {group.choices.map(choice => (
        <ChoiceRow
          key={choice.key}
          choice={choice}
          isActive={choice.key === active?.key}
          onActive={() => onActive(choice)}
          onChoose={() => onChoose(choice)}
        />
      ))}
    </div>
  );
}

interface IRowProps {
  readonly choice: IChoice;
  readonly isActive: boolean;
  readonly onActive: () => void;
  readonly onChoose: () => void;
}

function ChoiceRow({ choice, isActive, onActive, onChoose }: IRowProps): JSX.Element {
  const { icon, name, about, tone, state, figure, fit } = choice;
  const row = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isActive) {
      row.current?.scrollIntoView({ block: 'nearest' });
    }
  }, [isActive]);
  return (
    <div
      ref={row}
      id={optionId(choice)}
      className="jp-TPULabChoice"
      role="option"
      aria-selected={isActive}
      // The field keeps the focus, so that typing and arrow keys still work.
      onMouseDown={event => event.preventDefault()}
      onClick={onActive}
      onDoubleClick={onChoose}
    >
      <span className="jp-TPULabChoice-icon">
        <Icon name={icon} />
      </span>
      <span className="jp-TPULabChoice-words">
        <span className="jp-TPULabChoice-name">
          {icon === 'plus' ? trans.__('Connect to %1', name) : name}
        </span>
        <span className="jp-TPULabChoice-about">{about}</span>
      </span>
      <span className="jp-TPULabChoice-right">
        {icon === 'plus' && isActive ? <kbd>{trans.__('Enter')}</kbd> : null}
        {state === '' ? null : (
          <span className="jp-TPULabState">
            {tone === 'busy' ? (
              <span className="jp-TPULabRing" />
            ) : tone === null ? null : (
              <span className={`jp-TPULabDot jp-mod-${tone}`} />
            )}
            <span className="jp-TPULabState-word">{state}</span>
          </span>
        )}
        {fit === null ? null : <FitMark fit={fit}>{fitText(fit)}</FitMark>}
        {figure === '' ? null : <span className="jp-TPULabQuiet">{figure}</span>}
      </span>
    </div>
  );
}

function listId(id: IChoiceGroup['id']): string {
  return `jp-TPULabDialog-list-${id}`;
}

function optionId({ key }: IChoice): string {
  return `jp-TPULabDialog-option-${key.replace(/[^\w-]/g, character => `.${character.charCodeAt(0)}.`)}`;
}
