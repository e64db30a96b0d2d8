// @ts-check
/**
 * The project's words as rules: the recurring calques, each with a replacement, and the glossary's words for
 * things that a user sees. A rule is data; `prose.mjs` finds the texts.
 */

/** @typedef {{ rule: string, pattern: RegExp, instead: string, only?: RegExp }} ProseRule */

/** Pages for users; the rest of `docs` describes the internals, where a gateway is a gateway. */
const USER_TEXT =
  /^(README\.md|docs\/(connect|tpu-vm|colab|remotes-in-lab|session|control|steps|panels|devices|slices|outputs|packages|local-runtime|keeping-kernels|errors|configuration|runtime|recipes|start|fix)[\w-]*\.md|docs\/(start|how-to|tutorials|help)\/.*\.md|kernel-bridge\/src\/cli\/|extension\/(src|session|schema)\/)/;

/** @type {readonly ProseRule[]} */
export const RULES = [
  // 1. here and there as nouns of place
  {
    rule: 'place',
    pattern:
      /\b(?:kept|saved|stored|downloaded|installed|copied|runs?|running|stays?|left|is|are|was|were) (?:out )?there(?=[.,;:)]|$)/i,
    instead: 'name the machine or folder'
  },
  // 2. "of the X" instead of a compound
  {
    rule: 'of the',
    pattern:
      /\b(?:memory|network|machine|kernel|HBM|folder|state folder) of (?:the|a) (?:host|device|kernel|machine|notebook|server)\b/i,
    instead: "a compound: host memory, the kernel's machine"
  },
  // 3. a headless relative clause as a title or as the subject
  {
    rule: 'what clause',
    pattern: /(?:^|[.:;] )What (?:[a-z]+ ){1,6}(?:is|are|was|were|has|have|stays|needs|goes)\b(?![^.\n]*\?)/m,
    instead: 'a noun phrase'
  },
  // 4. also for even
  { rule: 'also for even', pattern: /\balso (?:when|if|after|while|without|where)\b/i, instead: 'even' },
  // 5. a pronoun as a noun
  {
    rule: 'pronoun noun',
    pattern:
      /\b(?:is|are|was|were|than|as|with|like|and|to|from) (?:that|those) of\b|\bthose that are\b|\bthe one that\b/i,
    instead: 'repeat the noun'
  },
  // 6. again for re-
  {
    rule: 'again',
    pattern: /\b(?:created|creates|run|runs|ran|started|opened|connected|asked|looks) again\b|\banew\b/i,
    instead: 'recreate, rerun, restart, reopen, reconnect, retry'
  },
  // 7. is no X
  {
    rule: 'is no',
    pattern:
      /(?<!\b(?:there|There|it|that) )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|different\b|better\b|worse\b|matter\b|one\b|such\b)[A-Za-z]+/,
    instead: 'is not a, invalid'
  },
  // 8. a for per
  {
    rule: 'a for per',
    pattern:
      /\b(?:ms|s|GB|GiB|MB|MiB|KB|KiB|bytes|times|FLOPs?|tokens|one line|one row|one file) an? (?:step|chip|host|device|second|minute|hour|day|line|cell|kernel|notebook|slice|core)\b/,
    instead: 'per'
  },
  // 9. software that sees, says, knows
  {
    rule: 'software speaks',
    pattern:
      /\b(?:speaks of|lets you in|looks again|tells of|(?:is|are|was|were) told(?! apart)|which told|puts? out|made it out|lets? go of)\b/i,
    instead: 'prints, reports, accepts, retries'
  },
  // 10. words of other fields
  {
    rule: 'processor',
    pattern: /\bprocessors?\b(?! (?:module|class|of (?:the|a) (?:library|package)))/i,
    instead: 'CPU'
  },
  {
    rule: 'figures',
    pattern: /\b(?:these|those|the|its|all|their|no|which|what|with|whose|are|of|few) figures\b/i,
    instead: 'values, metrics, numbers'
  },
  // 11. aphorisms
  {
    rule: 'aphorism',
    pattern: /, never [a-z]+(?: [a-z]+){0,2}\.(?=\s|$)|(?:^|[.] )Neither [^.\n]{3,90} nor\b/m,
    instead: 'say it once, plainly'
  },
  // 12. states as places
  {
    rule: 'state word',
    pattern:
      /\b(?:is|are|was|were|has|have) (?:gone|kept here|put aside|back again)\b|\bgoes on\b|\bgo on\b|\bwent on\b|\bstays? (?:there|as it is|where it)\b|\bput aside\b/i,
    instead: 'continues, was lost, is saved, is archived'
  },
  // The glossary's words
  { rule: 'glossary', pattern: /\b(?:kernel bridge|TPULab gateway|TPULab bridge)\b/i, instead: 'server' },
  {
    rule: 'glossary',
    pattern: /\b(?:the|a|this|another|your|each) (?:gateway|bridge|hub)\b(?! (?:token|service)|[\w/-]*\.\w)/i,
    instead: 'server',
    only: USER_TEXT
  },
  {
    rule: 'glossary',
    pattern:
      /\b(?:a|the|this|that|each|your|known|connected) remotes?\b(?! (?:machine|host|folder|file|kernel|path|end|side|code|branch|repository))/i,
    instead: 'machine',
    only: USER_TEXT
  },
  {
    rule: 'glossary',
    pattern: /\btpulab (?:run|holders|lessons|push|pull|remotes?)\b(?!\()/,
    instead: 'tpulab execute, ps, examples, copy push, copy pull, machine'
  },
  {
    rule: 'glossary',
    pattern: /\bof one's own\b|\bthere is left\b|\bafresh\b/i,
    instead: 'own, separate, remaining'
  }
];

/** Words that a name in code does not use: a reader of another project would not search for them. With their replacements. */
export const NAME_WORDS = Object.freeze({
  told: 'reported, notified',
  tell: 'report, notify',
  tells: 'reports, notifies',
  asked: 'requested',
  asks: 'requests',
  said: 'the noun: text, message, reason',
  says: 'reports',
  heard: 'received',
  hear: 'receive',
  gone: 'ended, lost, removed',
  anew: 'again, re-',
  look: 'check, poll',
  looks: 'checks, polls',
  looked: 'checked',
  rival: 'conflict',
  rivals: 'conflicts',
  filler: 'the job: fill turn',
  outlook: 'estimate',
  pace: 'throughput',
  desk: 'queue'
});
