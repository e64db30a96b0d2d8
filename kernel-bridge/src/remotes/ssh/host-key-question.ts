/** What ssh says of an unknown host key when it asks about it, taken apart for people who compare fingerprints. */
import type { HostKeyQuestion } from '@tpulab/protocol';

/** OpenSSH writes a colon after "is" since 10.1. */
const FINGERPRINT = /^([A-Z0-9-]{2,20}) key fingerprint is:? (SHA256:[A-Za-z0-9+/]{43}=?)\.?$/m;
const ADDRESS = /^The authenticity of host '.*\(([0-9a-fA-F.:]+)\)/m;
/** Where sshd keeps the keys of a host, by what ssh calls their types. */
const FILES: Readonly<Record<string, string>> = {
  ED25519: 'ssh_host_ed25519_key.pub',
  ECDSA: 'ssh_host_ecdsa_key.pub',
  RSA: 'ssh_host_rsa_key.pub'
};

/** Null: ssh asks about something else. The command is built from the type alone: the rest is the host's word. */
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
