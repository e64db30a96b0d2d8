/** The connection options of a machine: environment, route, project, and whether anything is installed there. */
import { type FormEvent, type JSX, useId, useState } from 'react';
import type { CloudReach, EnvironmentInfo } from '@tpulab/protocol';
import { FIRST } from './frame.js';
import { environmentName } from './stage-rows.js';
import { trans } from '../../text/trans.js';

export interface IOptions {
  /** '' and null: the machine's present setting, or the default for a new machine. */
  readonly environment: string;
  readonly reach: CloudReach | '';
  readonly install: boolean | null;
}

export const DEFAULT_OPTIONS: IOptions = { environment: '', reach: '', install: null };

interface IOptionsProps {
  readonly options: IOptions;
  readonly onOptions: (options: IOptions) => void;
  readonly environments: readonly EnvironmentInfo[];
  readonly isCloud: boolean;
  /** Google Cloud project; null: gcloud's own, which is `ownProject` where known. */
  readonly project: string | null;
  readonly ownProject: string | null;
  readonly onProject: (project: string | null) => void;
  /** Whether components are installed on the chosen machine, unless the user decides otherwise. */
  readonly installs: boolean;
}

export function OptionsView(props: IOptionsProps): JSX.Element {
  const { options, onOptions, environments, isCloud, installs } = props;
  return (
    <div className="jp-TPULabOptions" role="group" aria-label={trans.__('Options')}>
      <label className="jp-TPULabField">
        <span>{trans.__('Python environment')}</span>
        <select
          value={options.environment}
          onChange={event => onOptions({ ...options, environment: event.target.value })}
        >
          <option value="">{trans.__('Keep current (JAX if new)')}</option>
          {environments.map(({ name, displayName }) => (
            <option key={name} value={name}>
              {displayName}
            </option>
          ))}
        </select>
      </label>
      {isCloud ? (
        <>
          <label className="jp-TPULabField">
            <span>{trans.__('Connect through')}</span>
            <select
              value={options.reach}
              onChange={event => onOptions({ ...options, reach: event.target.value as CloudReach | '' })}
            >
              <option value="">{trans.__('Keep current (external IP if new)')}</option>
              <option value="external">{reachName('external')}</option>
              <option value="iap">{reachName('iap')}</option>
              <option value="internal">{reachName('internal')}</option>
            </select>
          </label>
          <ProjectField {...props} />
        </>
      ) : null}
      <label className="jp-TPULabField jp-mod-check">
        <input
          type="checkbox"
          checked={options.install ?? installs}
          onChange={event => onOptions({ ...options, install: event.target.checked })}
        />
        <span>{trans.__('Install what is missing (no root needed)')}</span>
      </label>
    </div>
  );
}

/** Null: the typed text is not a project name. */
function projectOf(text: string): string | null {
  return /^[\w.:][\w.:-]{0,255}$/.test(text.trim()) ? text.trim() : null;
}

function ProjectField({ project, ownProject, onProject }: IOptionsProps): JSX.Element {
  const [text, setText] = useState(project ?? '');
  const hint = useId();
  const isEmpty = text.trim() === '';
  const named = projectOf(text);
  const isWrong = !isEmpty && named === null;
  const onSubmit = (event: FormEvent): void => {
    event.preventDefault();
    if (!isWrong) onProject(named);
  };
  return (
    <form className="jp-TPULabField" onSubmit={onSubmit}>
      <label>
        {trans.__('Google Cloud project')}
        <input
          {...FIRST}
          value={text}
          spellCheck={false}
          placeholder={ownProject === null ? '' : trans.__('%1 (of gcloud)', ownProject)}
          aria-invalid={isWrong}
          aria-describedby={hint}
          onChange={event => setText(event.target.value)}
        />
      </label>
      <button type="submit" className="jp-TPULabButton" disabled={isWrong}>
        {trans.__('List')}
      </button>
      <p id={hint} className="jp-TPULabQuiet jp-mod-small">
        {trans.__('Machines you type are looked up in this project too.')}
      </p>
    </form>
  );
}

/** The chosen options, in a few words. */
export function optionsText({ environment, reach, install }: IOptions): string {
  return [
    environment === '' ? null : environmentName(environment),
    reach === '' ? null : reachName(reach),
    install === false ? trans.__('nothing installed') : null
  ]
    .filter(part => part !== null)
    .join(' · ');
}

function reachName(reach: CloudReach): string {
  switch (reach) {
    case 'external':
      return trans.__('External IP');
    case 'iap':
      return trans.__('IAP tunnel');
    case 'internal':
      return trans.__('Internal IP');
  }
}
