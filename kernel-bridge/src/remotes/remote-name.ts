/** The name of a remote, which is in its paths, its kernelspecs and its log file. */
import { Value } from '@sinclair/typebox/value';
import { RemoteName, type RemoteSource } from '@tpulab/protocol';

/** Paths of the API that would be taken for a remote. */
const RESERVED = new Set(['candidates']);

export function isRemoteName(name: string): boolean {
  return Value.Check(RemoteName, name) && !RESERVED.has(name) && !name.includes('..');
}

/** A name for a source that was given none, unlike those that are taken. */
export function nameFor(source: RemoteSource, isTaken: (name: string) => boolean): string {
  const base = plain(source.kind === 'gcloud' ? source.name : hostOf(source.destination));
  for (let number = 1; ; number++) {
    const name = number === 1 ? base : `${base.slice(0, 58)}-${number}`;
    if (isRemoteName(name) && !isTaken(name)) return name;
  }
}

function hostOf(destination: string): string {
  return destination
    .replace(/^ssh:\/\//i, '')
    .replace(/^[^@]*@/, '')
    .replace(/:\d+$/, '')
    .replace(/^\[(.*)\]$/, '$1');
}

function plain(text: string): string {
  const name = text
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .replace(/\.{2,}/g, '.')
    .slice(0, 60)
    .replace(/^[.-]+|[.-]+$/g, '');
  return name === '' ? 'remote' : name;
}
