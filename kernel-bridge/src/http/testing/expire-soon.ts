/** For specs: the time of a named token is over in a moment. A time that it is made with may be over before its client has come. */
import { readTokenFile, tokenFileIn, writeTokenFile } from '../token-store.js';

export async function expireSoon(stateDir: string, name: string): Promise<void> {
  const file = tokenFileIn(stateDir);
  const expiresAt = new Date(Date.now() + 1_000).toISOString();
  const tokens = readTokenFile(file).map(token => (token.name === name ? { ...token, expiresAt } : token));
  await writeTokenFile(file, tokens);
}
