/**
 * Parses text that users paste when asked for a host: an ssh destination, a whole ssh or gcloud command, a link to a cloud
 * console. Command line and dialogs parse it alike. Nothing is resolved: the text becomes a target for `tpulab connect`, or
 * is refused with a reason.
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

/** ssh options that change the destination, with the equivalent keywords of ssh_config. */
const SSH_OPTIONS: Readonly<Record<string, string>> = {
  i: 'IdentityFile',
  J: 'ProxyJump',
  F: 'an Include',
  I: 'PKCS11Provider',
  W: 'ProxyJump',
  b: 'BindAddress',
  B: 'BindInterface',
  c: 'Ciphers',
  m: 'MACs'
};
/** Other ssh options with a value, which do not change the destination: TPULab sets up its own forwarding. */
const IGNORED_VALUES = 'DELOPQRSew';
/** Keywords after -o that TPULab sets itself; it also asks about an unknown host key itself. */
const IGNORED_KEYWORDS =
  /^(stricthostkeychecking|userknownhostsfile|checkhostip|visualhostkey|batchmode|loglevel|server\w+|tcpkeepalive|connect\w+|control\w+|compression|requesttty|sendenv|setenv|(forward|exitonforward|\w+forward)\w*)$/;
/** gcloud options without a value. */
const GCLOUD_SWITCHES =
  /^(no-)?(tunnel-through-iap|internal-ip|plain|dry-run|quiet|troubleshoot|force-key-file-overwrite|log-http|user-output-enabled)$/;
const PRODUCTS: readonly (readonly [pattern: RegExp, product: string])[] = [
  [/^compute tpus queued-resources ssh$/, 'queued-resource'],
  [/^compute tpus tpu-vm ssh$/, 'tpu-vm'],
  [/^compute ssh$/, 'instance']
];
/** Full names of resources, alone or in a link. */
const RESOURCE =
  /^(?:(?:https?:)?\/\/[\w./-]*\/)?projects\/([\w.:-]+)\/(?:zones|locations)\/([\w-]+)\/(instances|nodes|queuedResources)\/([\w-]+)(?:[?#].*)?$/;
const RESOURCES: Readonly<Record<string, string>> = {
  instances: 'instance',
  nodes: 'tpu-vm',
  queuedResources: 'queued-resource'
};
const WORD = /^[\w.-]+$/;

export function readPasted(pasted: string): Pasted {
  const text = pasted
    .replace(/\\\r?\n/g, ' ')
    .replace(/[\u200b\u2060\ufeff]|\x1b\[[\d;]*m/g, '')
    // As typed on a Chinese or Japanese keyboard.
    .replace(/[\uff01-\uff5e]/g, wide => String.fromCharCode(wide.charCodeAt(0) - 0xfee0))
    .trim()
    .replace(/^```(?:\w*\n)?([^`]*)```$/, '$1')
    .replace(/^[$#>]\s+/, '')
    // Removes the prompt of a shell, variables for the command, and `exec`.
    .replace(
      /^(?!(?:ssh|gcloud|tpulab)\s)[^\n]*?[$#%>❯]\s+(?=(?:(?:\w+=\S*|exec|command)\s+)*(?:ssh|gcloud|tpulab)\s)/,
      ''
    )
    .replace(/^(?:(?:\w+=\S*|exec|command)\s+)+(?=ssh\s|gcloud\s)/, '')
    .replace(/^(["'“”‘’«»`])([^"'“”‘’«»`]*)["'“”‘’«»`]$/, '$2')
    .replace(/^mailto:/i, '')
    .replace(/(?<=@[\w.-]+)[,:]$/, '')
    .replace(/\s#.*$/, '')
    // Dashes as word processors change them.
    .replace(/(?<=\s)[‐‑–—](?=\w\b)/g, '-')
    .replace(/(?<=\s)[–—]-?(?=\w)/g, '--')
    .trim();
  if (/^https?:/i.test(text) || RESOURCE.test(text)) return ofLink(text);
  const entry = /^Host\s+([\w.-]+)\s+(?:HostName|User|Port|IdentityFile|ProxyJump)\b/i.exec(text)?.[1];
  if (entry !== undefined)
    return { refused: `This is an entry of ~/.ssh/config; put it into that file, then connect to ${entry}.` };
  const words = [...text.matchAll(/(?:[^\s"']|"[^"]*"|'[^']*')+/g)].map(([word]) =>
    word.replace(/["']/g, '')
  );
  if (words[0] === 'tpulab' && words[1] === 'connect') return readPasted(words.slice(2).join(' '));
  const program = words.length > 1 && /^(?:\S*\/)?([a-z][\w-]*)(?:\.exe)?$/.exec(words[0] ?? '')?.[1];
  if (program === 'gcloud') return checked(text) ?? ofGcloud(words.slice(1));
  if (program === 'ssh') return checked(text) ?? ofSsh(words.slice(1));
  if (program) {
    return {
      refused: `${program} is not a command that TPULab reads, and a blank cannot be part of a host; paste one command of ssh or gcloud, or write USER@HOST.`
    };
  }
  // The words of an ssh command, without `ssh`.
  if (words.length > 1 && words.some(word => /^-[pli]/.test(word))) return checked(text) ?? ofSsh(words);
  if (/^(gcloud|colab):/i.test(text)) return { target: text };
  return destination(text);
}

/** Refuses text that a shell would parse as more than one command. */
function checked(text: string): Pasted | null {
  const found = /[;&|<>`$(){}\\\r\n]/.exec(text)?.[0];
  if (found === undefined) return null;
  const variable = /\$\{?\w+\}?/.exec(text)?.[0];
  if (variable !== undefined) return { refused: `${variable} is a variable of a shell; write its value.` };
  const shown = found.trim() === '' ? 'a line break' : `the character ${found}`;
  return { refused: `There is ${shown} in what was pasted; paste one ssh command without it.` };
}

function ofSsh(words: readonly string[]): Pasted {
  let host: string | null = null;
  let user: string | null = null;
  let port: string | null = null;
  for (let at = 0; at < words.length; at++) {
    // Like getopt: switches may be combined, and a value may follow its letter directly.
    let letters = /^-(\w.*)$/.exec(words[at] ?? '')?.[1] ?? '';
    if (letters === '' && words[at] !== '--') {
      if (host !== null) break; // a command for the host, which is not run
      host = words[at] ?? '';
    }
    for (; letters !== ''; letters = letters.slice(1)) {
      const letter = letters[0] ?? '';
      const takesValue = 'plo'.includes(letter) || letter in SSH_OPTIONS || IGNORED_VALUES.includes(letter);
      if (!takesValue) continue;
      const value = letters.length > 1 ? letters.slice(1) : (words[++at] ?? '');
      const option = letter === 'o' ? /^(\w+)[=\s]\s*(.*)$/.exec(value) : null;
      const named = option?.[1]?.toLowerCase();
      if (letter === 'p' || named === 'port') port = option?.[2] ?? value;
      else if (letter === 'l' || named === 'user') user = option?.[2] ?? value;
      else if (named !== undefined && IGNORED_KEYWORDS.test(named)) break;
      else if (letter === 'o' || letter in SSH_OPTIONS) {
        const line = letter === 'o' ? (option?.[1] ?? 'that option') : SSH_OPTIONS[letter];
        return {
          refused: `-${letter} of ssh is not taken here; put ${line} into a Host entry of ~/.ssh/config, then connect to that.`
        };
      }
      break;
    }
  }
  if (host === null) return { refused: 'This ssh command names no host; write ssh USER@HOST.' };
  const at = user === null || host.includes('@') ? host : `${user}@${host}`;
  return port === null ? destination(at) : withPort(at, port);
}

function withPort(host: string, port: string): Pasted {
  if (!isPort(port)) return { refused: `${port} is not a port; write ssh://USER@HOST:PORT.` };
  const bare = host.replace(/^ssh:\/\//i, '').replace(/:\d+$/, '');
  if (bare.includes('[') || (bare.split('@').at(-1) ?? '').includes(':')) return bracketed();
  return destination(`ssh://${bare}:${port}`);
}

function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) > 0 && Number(text) < 65_536;
}

function bracketed(): Pasted {
  return {
    refused:
      'ssh does not take [ADDRESS]:PORT here; put HostName and Port into a Host entry of ~/.ssh/config, then connect to that.'
  };
}

function destination(text: string): Pasted {
  if (text === '' || text === 'ssh' || /^@|@$/.test(text))
    return { refused: 'Write HOST, USER@HOST or ssh://USER@HOST:PORT.' };
  if (text.startsWith('-')) return { refused: 'A host name does not begin with a dash; write USER@HOST.' };
  const scheme = /^([a-z][\w+.-]*):\/\//i.exec(text)?.[1];
  if (scheme !== undefined && !/^ssh$/i.test(scheme))
    return { refused: `${scheme}:// is not taken here; write USER@HOST or ssh://USER@HOST:PORT.` };
  if (/^[^/\s]+:[~/]/.test(text) && scheme === undefined)
    return { refused: 'A folder cannot be part of it; write USER@HOST.' };
  if (/^[^@]*\\/.test(text)) {
    const user = text.slice(0, text.lastIndexOf('@'));
    return {
      refused: `A user name with a backslash is not taken here; put "User ${user}" into a Host entry of ~/.ssh/config, then connect to that.`
    };
  }
  const odd = /[\s\p{C}'"“”‘’`$;|&<>(){}\\,*?‐‑–—]|\[(?![\da-f:.%\w]*\])/iu.exec(text)?.[0];
  if (odd !== undefined) {
    const isHidden = /\p{C}/u.test(odd);
    const shown = odd.trim() === '' ? 'a blank' : isHidden ? 'a hidden character' : `the character ${odd}`;
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
  if (!isUrl && host !== undefined && port !== undefined) return withPort(host, port);
  const urlPort = isUrl ? /:(\d+)\/?$/.exec(text)?.[1] : undefined;
  if (urlPort !== undefined && !isPort(urlPort)) return withPort(text, urlPort);
  if (isUrl && /^ssh:\/\/[^/]*\/./i.test(text))
    return { refused: 'A folder cannot be part of it; write ssh://USER@HOST:PORT.' };
  // ssh accepts an IPv6 address without its brackets.
  return { target: text.replace(/^((?:[^@]*@)*)\[([\da-f:.%\w]+)\]$/i, '$1$2') };
}

function ofGcloud(words: readonly string[]): Pasted {
  const flags = new Map<string, string>();
  const plain: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    const [, flag, value] = /^--([\w-]*)(?:=(.*))?$/.exec(word) ?? [];
    if (flag === undefined) plain.push(word);
    else if (flag === '') break; // the rest is for ssh
    else flags.set(flag, value ?? (GCLOUD_SWITCHES.test(flag) ? '' : (words[++at] ?? '')));
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
  const [, owner, place, sort, called] = RESOURCE.exec(text) ?? [];
  if (owner !== undefined && place !== undefined && called !== undefined)
    return machine({
      product: RESOURCES[sort ?? ''] ?? 'instance',
      name: called,
      zone: place,
      project: owner
    });
  const refused = {
    refused:
      'This link leads to no machine; paste the link of a TPU VM or an instance in the Google Cloud console, or write USER@HOST.'
  };
  if (host.toLowerCase() === 'colab.research.google.com')
    return { refused: 'A Colab notebook is not a machine; write colab:ACCELERATOR, such as colab:v5e1.' };
  if (host.toLowerCase() !== 'console.cloud.google.com') return refused;
  const [, kind, zone = '', name = ''] =
    /^(?:\/u\/\d+)?\/compute\/(tpus\/details|tpus\/queued-resources\/details|instancesDetail\/zones)\/([^/]+)\/(?:instances\/)?([^/]+)/.exec(
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
