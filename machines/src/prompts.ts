/** Questions of ssh about one remote, and a person's answers. Answers stay in memory while the remote is wanted. */
import { randomUUID } from 'node:crypto';
import type { RemoteConsent, RemotePrompt, HostKeyQuestion } from '@tpulab/protocol';
import { orAborted } from '@tpulab/platform/waiting.js';
import { consentText } from './colab/consent.js';
import type { Answerer, Question as SshQuestion } from './ssh/askpass.js';

type Question =
  | SshQuestion
  | { readonly kind: 'consent'; readonly text: string; readonly consent: RemoteConsent };

interface Open {
  readonly prompt: RemotePrompt;
  readonly question: Question;
  readonly answered: Promise<string | null>;
  readonly settle: (value: string | null) => void;
}

interface PromptsOptions {
  readonly host: string;
  readonly onOpen: (prompt: RemotePrompt) => void;
  readonly onAnswered: () => void;
  /** Called with each secret, to remove it from logs. */
  readonly hide: (secret: string) => void;
}

export class Prompts {
  readonly #answers = new Map<string, string>();
  /** Questions of this attempt: a repeated question was answered wrongly. */
  readonly #prompted = new Set<string>();
  #open: Open | null = null;
  #wasRefused = false;
  #wasAnswered = false;

  constructor(private readonly options: PromptsOptions) {}

  get current(): RemotePrompt | null {
    return this.#open?.prompt ?? null;
  }

  /** Whether a person declined to answer in this attempt. */
  get wasRefused(): boolean {
    return this.#wasRefused;
  }

  /** Whether a person answered a question in this attempt, so that the next one need not repeat it. */
  get wasAnswered(): boolean {
    return this.#wasAnswered;
  }

  beginAttempt(): void {
    this.#prompted.clear();
    this.#wasRefused = false;
    this.#wasAnswered = false;
  }

  readonly ask: Answerer = async (question, signal) => {
    // ssh repeats some questions three times; after one refusal, all repetitions are refused.
    if (this.#wasRefused) return null;
    const answer = this.#prompted.has(question.text) ? undefined : this.#answers.get(question.text);
    this.#prompted.add(question.text);
    if (answer !== undefined) return answer;
    this.#answers.delete(question.text);
    const { answered } = this.#opened(question);
    return (await orAborted(answered, signal)) ?? null;
  };

  /** For the other hosts of the same remote: repeats the person's answers for the first host; nobody is prompted. */
  readonly repeat: Answerer = question => Promise.resolve(this.#answers.get(question.text) ?? null);

  /** Whether the person agrees; false if the question is withdrawn. The answer is never remembered. */
  async agree(consent: RemoteConsent, signal: AbortSignal): Promise<boolean> {
    const { answered } = this.#opened({ kind: 'consent', text: consentText(consent), consent });
    return (await orAborted(answered, signal)) === 'yes';
  }

  /** False: there is no such question, or it has ended. */
  answer(id: string, value: string | boolean): boolean {
    const open = this.#open;
    if (open?.prompt.id !== id) return false;
    const text = textOf(value, open.question.kind);
    this.#open = null;
    if (text === null) this.#wasRefused = true;
    else this.#keep(open.question, text);
    open.settle(text);
    this.options.onAnswered();
    return true;
  }

  /** Resolves when the open question has an answer, which the next attempt will send; immediately if no question is open. */
  async settled(): Promise<void> {
    await this.#open?.answered;
  }

  /** Withdraws the open question and forgets all answers. */
  forget(): void {
    this.#answers.clear();
    this.#open?.settle(null);
    this.#open = null;
  }

  #keep(question: Question, answer: string): void {
    this.#wasAnswered = true;
    if (question.kind === 'secret') this.options.hide(answer);
    if (question.kind === 'consent') return;
    if (question.kind === 'secret' || answer !== 'no') this.#answers.set(question.text, answer);
  }

  #opened(question: Question): Open {
    if (this.#open?.question.text === question.text) return this.#open;
    this.#open?.settle(null);
    let settle: (value: string | null) => void = () => undefined;
    const answered = new Promise<string | null>(resolve => (settle = resolve));
    const hostKey = question.kind === 'confirm' ? hostKeyQuestion(question.text) : null;
    const prompt: RemotePrompt = {
      id: randomUUID(),
      kind: question.kind,
      text: question.text,
      host: this.options.host,
      ...(question.kind === 'consent' ? { consent: question.consent } : {}),
      ...(hostKey && { hostKey })
    };
    this.#open = { prompt, question, answered, settle };
    this.options.onOpen(prompt);
    return this.#open;
  }
}

/** null: no answer. A fingerprint is also a valid answer to a question about a host key. */
function textOf(value: string | boolean, kind: Question['kind']): string | null {
  if (kind === 'consent') return value === true ? 'yes' : null;
  if (kind === 'confirm') return value === true ? 'yes' : value === false ? 'no' : value;
  return typeof value === 'string' && !/[\r\n]/.test(value) ? value : null;
}

/** Since 10.1, OpenSSH writes a colon after "is". */
const FINGERPRINT = /^([A-Z0-9-]{2,20}) key fingerprint is:? (SHA256:[A-Za-z0-9+/]{43}=?)\.?$/m;
const ADDRESS = /^The authenticity of host '.*\(([0-9a-fA-F.:]+)\)/m;
/** Files in which sshd stores the keys of a host, by ssh's name of the key type. */
const FILES: Readonly<Record<string, string>> = {
  ED25519: 'ssh_host_ed25519_key.pub',
  ECDSA: 'ssh_host_ecdsa_key.pub',
  RSA: 'ssh_host_rsa_key.pub'
};

/** null: ssh asks about something else. The command uses only the type, because the host controls the other text. */
export function hostKeyQuestion(text: string): HostKeyQuestion | null {
  const [, type, fingerprint] = FINGERPRINT.exec(text) ?? [];
  if (type === undefined || fingerprint === undefined) return null;
  const file = FILES[type];
  return {
    type,
    fingerprint,
    address: ADDRESS.exec(text)?.[1] ?? null,
    command: file === undefined ? null : `ssh-keygen -lf /etc/ssh/${file}`
  };
}
