/**
 * What people paste where a host is asked for: a destination of ssh, a whole ssh or gcloud command, a link to a cloud console. Read in one way by the
 * command line and by the dialogs. Nothing is looked up: it becomes a target as `tpulab connect` takes it, or is refused with a reason.
 */

export type Pasted =
  | {
      /** `me@host`, `ssh://me@host:2222`, `gcloud:PRODUCT/ZONE/NAME`, `colab:` */
      readonly target: string;
      readonly project?: string;
      readonly tunnelThroughIap?: true;
      readonly internalIp?: true;
    }
  | { readonly refused: string };

/** Options of ssh that take a value, by where they belong instead. */
const SSH_OPTIONS: Readonly<Record<string, string>> = {
  i: 'IdentityFile',
  J: 'ProxyJump',
  F: 'an Include',
  L: 'nothing: TPULab forwards by itself',
  R: 'nothing: TPULab forwards by itself',
  D: 'nothing: TPULab forwards by itself',
  o: 'that option',
  b: 'BindAddress',
  c: 'Ciphers',
  m: 'MACs'
};
const PRODUCTS: readonly (readonly [pattern: RegExp, product: string])[] = [
  [/^compute tpus queued-resources ssh$/, 'queued-resource'],
  [/^compute tpus tpu-vm ssh$/, 'tpu-vm'],
  [/^compute ssh$/, 'instance']
];
const WORD = /^[\w.-]+$/;

export function readPasted(pasted: string): Pasted {
  const text = pasted
    .replace(/\\\r?\n/g, ' ')
    .trim()
    .replace(/^[$#>]\s+/, '')
    .replace(/^["'“”‘’«»`]+|["'“”‘’«»`]+$/g, '')
    .trim();
  if (/^https?:/i.test(text)) return ofLink(text);
  const words = text.split(/\s+/).map(word => word.replace(/^(["'])(.*)\1$/, '$2'));
  if (words[0] === 'gcloud') return checked(text) ?? ofGcloud(words.slice(1));
  if (words[0] === 'ssh' && words.length > 1) return checked(text) ?? ofSsh(words.slice(1));
  if (/^(gcloud|colab):/i.test(text)) return { target: text };
  return destination(text);
}

/** A shell would read more into it than one command. */
function checked(text: string): Pasted | null {
  const found = /[;&|<>`$(){}\\\r\n]/.exec(text)?.[0];
  if (found === undefined) return null;
  const shown = found.trim() === '' ? 'a line break' : `the character ${found}`;
  return { refused: `There is ${shown} in what was pasted; paste one ssh command without it.` };
}

function ofSsh(words: readonly string[]): Pasted {
  let host: string | null = null;
  let user: string | null = null;
  let port: string | null = null;
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    const [, letter = '', glued = ''] = /^-(\w)(.*)$/.exec(word) ?? [];
    if (letter === '') {
      if (host !== null) break; // a command for the host, which is not run
      host = word;
    } else if (letter === 'p' || letter === 'l') {
      const value = glued === '' ? (words[++at] ?? '') : glued;
      if (letter === 'p') port = value;
      else user = value;
    } else if (letter in SSH_OPTIONS) {
      return {
        refused: `-${letter} of ssh is not taken here; put ${SSH_OPTIONS[letter]} into a Host entry of ~/.ssh/config, then connect to that.`
      };
    }
    // The others (-t, -v, -A, -X …) change nothing of where it leads.
  }
  if (host === null) return { refused: 'This ssh command names no host; write ssh USER@HOST.' };
  const at = user === null || host.includes('@') ? host : `${user}@${host}`;
  return port === null ? destination(at) : withPort(at, port);
}

function withPort(host: string, port: string): Pasted {
  if (!/^\d{1,5}$/.test(port)) return { refused: `${port} is not a port; write ssh://USER@HOST:PORT.` };
  const bare = host.replace(/^ssh:\/\//i, '').replace(/:\d+$/, '');
  if (bare.includes('[') || (bare.split('@').at(-1) ?? '').includes(':')) return bracketed();
  return destination(`ssh://${bare}:${port}`);
}

function bracketed(): Pasted {
  return {
    refused:
      'ssh does not take [ADDRESS]:PORT here; put HostName and Port into a Host entry of ~/.ssh/config, then connect to that.'
  };
}

function destination(text: string): Pasted {
  if (text === '') return { refused: 'Write HOST, USER@HOST or ssh://USER@HOST:PORT.' };
  if (text.startsWith('-')) return { refused: 'A host name does not begin with a dash; write USER@HOST.' };
  if (/^[^@]*\\/.test(text)) {
    const user = text.slice(0, text.lastIndexOf('@'));
    return {
      refused: `A user name with a backslash is not taken here; put "User ${user}" into a Host entry of ~/.ssh/config, then connect to that.`
    };
  }
  const odd = /[\s\x00-\x1f\x7f'"“”‘’`$;|&<>(){}\\]/.exec(text)?.[0];
  if (odd !== undefined) {
    const shown = odd.trim() === '' ? 'a blank' : `the character ${odd}`;
    return {
      refused: `${shown[0]?.toUpperCase()}${shown.slice(1)} cannot be part of a host; write USER@HOST.`
    };
  }
  if (text.length > 512) return { refused: 'This is too long for a host; write USER@HOST.' };
  const isUrl = /^ssh:\/\//i.test(text);
  if (!isUrl && text.includes('/'))
    return { refused: 'The character / cannot be part of a host; write USER@HOST.' };
  if (/\]:\d+\/?$/.test(text)) return bracketed();
  const [, host, port] = /^([^:]+):(\d{1,5})$/.exec(text) ?? [];
  if (!isUrl && host !== undefined && port !== undefined) return { target: `ssh://${host}:${port}` };
  // ssh takes an IPv6 address without its brackets.
  return { target: text.replace(/^((?:[^@]*@)*)\[([\da-f:.%\w]+)\]$/i, '$1$2') };
}

function ofGcloud(words: readonly string[]): Pasted {
  const flags = new Map<string, string>();
  const plain: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    const [, flag, value] = /^--([\w-]+)(?:=(.*))?$/.exec(word) ?? [];
    if (flag === undefined) plain.push(word);
    else if (/^(zone|project|worker|ssh-key-file|command|account|configuration)$/.test(flag))
      flags.set(flag, value ?? words[++at] ?? '');
    else flags.set(flag, value ?? '');
  }
  const verb = plain.filter(word => !/^(alpha|beta)$/.test(word));
  const end = verb.indexOf('ssh') + 1;
  const product = PRODUCTS.find(([pattern]) => pattern.test(verb.slice(0, end).join(' ')))?.[1];
  const name = (verb[end] ?? '').replace(/^[^@]*@/, '');
  if (product === undefined) {
    return {
      refused:
        'Of gcloud, paste "gcloud compute tpus tpu-vm ssh NAME --zone ZONE" or "gcloud compute ssh NAME --zone ZONE".'
    };
  }
  if (flags.has('ssh-key-file')) {
    return {
      refused:
        '--ssh-key-file is not taken here; TPULab uses the key that gcloud has made. Paste the command without it.'
    };
  }
  return machine({
    product,
    name,
    zone: flags.get('zone') ?? '',
    project: flags.get('project'),
    isIap: flags.has('tunnel-through-iap'),
    isInternal: flags.has('internal-ip')
  });
}

/** `https://console.cloud.google.com/compute/…/ZONE/…/NAME?project=…` */
function ofLink(text: string): Pasted {
  const [, host = '', path = '', query = ''] = /^https?:\/\/([^/?#]+)([^?#]*)(\?[^#]*)?/i.exec(text) ?? [];
  const refused = {
    refused:
      'This link leads to no machine; paste the link of a TPU VM or an instance in the Google Cloud console, or write USER@HOST.'
  };
  if (host.toLowerCase() !== 'console.cloud.google.com') return refused;
  const [, kind, zone = '', name = ''] =
    /^\/compute\/(tpus\/details|tpus\/queued-resources\/details|instancesDetail\/zones)\/([^/]+)\/(?:instances\/)?([^/]+)/.exec(
      path
    ) ?? [];
  if (kind === undefined) return refused;
  const product = kind.startsWith('instances')
    ? 'instance'
    : kind.includes('queued')
      ? 'queued-resource'
      : 'tpu-vm';
  return machine({ product, name, zone, project: /[?&]project=([^&]*)/.exec(query)?.[1] });
}

function machine(found: {
  readonly product: string;
  readonly name: string;
  readonly zone: string;
  readonly project: string | undefined;
  readonly isIap?: boolean;
  readonly isInternal?: boolean;
}): Pasted {
  const { product, name, zone, project, isIap = false, isInternal = false } = found;
  for (const word of [name, zone || 'any', project ?? 'any']) {
    if (!WORD.test(word) || word.startsWith('-')) {
      return {
        refused:
          'The machine, its zone or its project is not named as Google Cloud names them; write gcloud:ZONE/NAME.'
      };
    }
  }
  return {
    target: `gcloud:${[product, ...(zone === '' ? [] : [zone]), name].join('/')}`,
    ...(project !== undefined && { project }),
    ...(isIap && { tunnelThroughIap: true as const }),
    ...(isInternal && { internalIp: true as const })
  };
}
