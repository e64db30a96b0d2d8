/** "No TPU yet?": ways to get a TPU, and how to stop its costs. */
import type { JSX } from 'react';
import type { RemoteSource } from '@tpulab/protocol';
import { CommandLine } from './command-line.js';
import { trans } from '../../text/trans.js';

/** One chip of the smallest kind, which the cloud may preempt at any time: the cheapest machine for learning. */
const CREATE =
  'gcloud compute tpus tpu-vm create my-tpu --zone=us-east5-b --accelerator-type=v6e-1 --version=v2-alpha-tpuv6e --spot';
const RESEARCH_CLOUD = 'https://sites.research.google/trc/about/';
const QUOTA = 'https://console.cloud.google.com/iam-admin/quotas';
const PRICES = 'https://cloud.google.com/tpu/pricing';

type CloudSource = Extract<RemoteSource, { kind: 'gcloud' }>;

interface IGuideProps {
  /** Open if there is nothing to choose from. */
  readonly isOpen: boolean;
  readonly hasColab: boolean;
}

export function Guide({ isOpen, hasColab }: IGuideProps): JSX.Element {
  return (
    <details className="jp-TPULabGuide" open={isOpen}>
      <summary>{trans.__('No TPU yet?')}</summary>
      <ul>
        <li>
          <span>
            <strong>{trans.__('Create a TPU VM.')}</strong>{' '}
            {trans.__('You need a Google Cloud project with billing and')}{' '}
            <Link to={QUOTA}>{trans.__('TPU quota')}</Link>.{' '}
            {trans.__('A VM costs money until you delete it:')} <Link to={PRICES}>{trans.__('prices')}</Link>.
          </span>
          <CommandLine text={CREATE} />
        </li>
        <li>
          <span>
            <strong>{trans.__('Do research for free.')}</strong> {trans.__('Apply for the quota of the')}{' '}
            <Link to={RESEARCH_CLOUD}>{trans.__('TPU Research Cloud')}</Link>.{' '}
            {trans.__('Other Google Cloud costs remain, such as disks and storage.')}
          </span>
        </li>
        <li>
          <span>
            <strong>{trans.__('Use a Colab runtime.')}</strong>{' '}
            {hasColab
              ? trans.__(
                  'Choose one above. You need compute units, and see the cost before anything is created.'
                )
              : trans.__('You need compute units, and the "colab" command on this machine, logged in.')}
          </span>
        </li>
        <li>
          <span>
            <strong>{trans.__('Learn without a TPU.')}</strong>{' '}
            {trans.__('JAX runs on this machine through the same compiler. Its card is in the launcher.')}
          </span>
        </li>
      </ul>
    </details>
  );
}

/** For a machine that is billed until it is deleted. */
export function DeleteHint({ source }: { readonly source: CloudSource }): JSX.Element | null {
  const command = deleteCommand(source);
  return command === null ? null : (
    <details className="jp-TPULabGuide">
      <summary>{trans.__('How to delete it')}</summary>
      <p className="jp-TPULabQuiet jp-mod-small">
        {trans.__('Deletes the VM, its disk and everything on it. Copy what you need first.')}
      </p>
      <CommandLine text={command} />
    </details>
  );
}

/** Null for a name that a shell would not treat as a plain name. */
export function deleteCommand({ product, name, zone, project }: CloudSource): string | null {
  if (![name, zone, project ?? zone].every(word => /^\w[\w.:-]*$/.test(word))) return null;
  const where = `--zone=${zone}${project === undefined ? '' : ` --project=${project}`}`;
  switch (product) {
    case 'tpu-vm':
      return `gcloud compute tpus tpu-vm delete ${name} ${where}`;
    case 'queued-resource':
      return `gcloud compute tpus queued-resources delete ${name} --force ${where}`;
    case 'instance':
      return `gcloud compute instances delete ${name} ${where}`;
    case 'instance-group':
      return `gcloud compute instance-groups managed delete ${name} ${where}`;
  }
}

function Link({ to, children }: { readonly to: string; readonly children: string }): JSX.Element {
  return (
    <a href={to} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}
